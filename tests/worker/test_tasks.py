"""What a worker does with the files of its run."""

import hashlib
import os
import pickle
import stat

import pytest

from steersman.worker import tasks
from steersman.worker.errors import PreparedChanged
from tests.worker.conftest import MadeRun

PREPARED = """
@wf.prepare
def prepare(p): return [1, 2, 3]

@wf.simulate()
def simulate(p, start, out): out.append(x=1.0)
"""


def test_what_was_prepared_is_loaded_only_if_it_is_what_was_written(made_run: MadeRun) -> None:
    """Pickle runs code: any byte that somebody changed is found before it is read."""
    directory = made_run(PREPARED)
    run = str(directory.path)
    sha256 = tasks.prepare(run)
    written = directory.prepared.read_bytes()
    assert sha256 == hashlib.sha256(written).hexdigest()
    assert stat.S_IMODE(directory.prepared.stat().st_mode) == 0o600
    assert tasks._prepared(run, sha256) == [1, 2, 3]

    class Evil:
        def __reduce__(self) -> object:
            return os.mkdir, (f"{run}/entered",)

    for forged in (pickle.dumps(Evil()), written + b"x", b""):
        tasks._prepared.cache_clear()
        directory.prepared.write_bytes(forged)
        with pytest.raises(PreparedChanged) as refused:
            tasks._prepared(run, sha256)
        assert refused.value.recorded == sha256
    assert not (directory.path / "entered").exists()
