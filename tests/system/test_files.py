"""A file is there whole or not at all, and its lock is held by one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.system.files import CUT, locked, replace_file, shorten, take_lock


def test_a_file_that_cannot_be_written_keeps_what_it_held(tmp_path: Path) -> None:
    replace_file(tmp_path / "a.json", "old")
    with pytest.raises(TypeError):
        replace_file(tmp_path / "a.json", 3)  # type: ignore[arg-type]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.json": "old"}


def test_a_private_file_is_never_readable_by_others(tmp_path: Path) -> None:
    (tmp_path / "a.json").touch(0o644)
    replace_file(tmp_path / "a.json", b"secret", sync=True, mode=0o600)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600


def test_a_file_that_grows_is_cut_to_its_end_and_who_appends_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "w0.stdout"
    with path.open("ab", buffering=0) as appended:
        appended.write(b"0123456789")
        shorten(path, 10)
        assert path.read_bytes() == b"0123456789"
        shorten(path, 8)
        appended.write(b"ab")
    assert path.read_bytes() == CUT + b"6789ab"


def test_a_lock_is_held_by_one_and_goes_with_its_process(tmp_path: Path) -> None:
    hold = "import sys; from pathlib import Path; from steersman.system.files import locked\n"
    hold += "with locked(Path(sys.argv[1])): print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        handle = os.open(tmp_path / "lock", os.O_RDONLY)
        assert not take_lock(handle)
        holder.kill()
    with locked(tmp_path / "lock"):
        assert not take_lock(handle)
    assert take_lock(handle)
    os.close(handle)
