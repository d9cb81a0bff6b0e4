"""A walker in this process: real server, real frames."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.bus import ALL, Server, TupleSpace
from steersman.journal.records import Start
from steersman.stages.segment import Segment
from steersman.store import Frames, GroupWriter
from steersman.worker.last_words import last_words
from steersman.worker.orders import EVENT, plain
from steersman.worker.walker import DISMISSED, Walker
from tests.worker.conftest import MadeRun


@pytest.fixture
def space(tmp_path: Path) -> Iterator[TupleSpace]:
    with Server.start(tmp_path / "bus") as server, TupleSpace.connect(server.url) as space:
        yield space


def run_walker(space: TupleSpace, folder: Path, simulate: Callable[[Any, Any, Segment], None], starts: int = 1) -> str:
    """Give a walker so many starts and then the word to go home; returns why it went."""
    orders: list[dict[str, Any]] = [*(plain(Start(start=n, seed=n)) for n in range(starts)), {"end": True}]
    space.put_many(("bag", start, order) for start, order in enumerate(orders))
    (folder / "errors").mkdir()
    return Walker(
        number=0, bag="bag", simulate=simulate, params=None, prepared=None, frames=Frames(folder / "frames"),
        space=space, variables={}, attributes={}, errors=folder / "errors",
    ).run()  # fmt: skip


def events(space: TupleSpace, kind: str) -> list[dict[str, Any]]:
    return [fields for _, name, fields in space.take_many_nowait(EVENT, str, dict, n=ALL) if name == kind]


def wait_until_stopped(p: Any, start: Any, out: Segment) -> None:
    out.append(x=1.0)
    while not out.stopped:
        pass


def test_a_full_disk_stops_a_segment_that_looks_and_blames_no_start(
    space: TupleSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: GroupWriter) -> dict[str, int]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    monkeypatch.setattr(GroupWriter, "_write", full)
    with pytest.raises(OSError, match="No space") as ended:
        run_walker(space, tmp_path, wait_until_stopped)
    assert ended.value.errno == errno.ENOSPC
    assert events(space, "ended") == []
    assert list((tmp_path / "errors").iterdir()) == []


def test_a_stage_that_calls_exit_has_failed_and_its_walker_goes_on(space: TupleSpace, tmp_path: Path) -> None:
    def leave(p: Any, start: Any, out: Segment) -> None:
        out.append(x=1.0)
        sys.exit(3)

    assert run_walker(space, tmp_path, leave, starts=2) == DISMISSED
    assert [each["cause"] for each in events(space, "ended")] == ["SystemExit: 3"] * 2


FAULTS = {
    "Segmentation fault": "faulthandler._sigsegv()",
    "Aborted": "os.abort()",
    "Floating": "faulthandler._sigfpe()",
}


@pytest.mark.parametrize(("said", "fault"), FAULTS.items())
def test_a_process_that_dies_says_of_what_and_what_it_printed_lies_beside(
    said: str, fault: str, made_run: MadeRun, tmp_path: Path
) -> None:
    directory = made_run(f"""
        import faulthandler, os

        @wf.simulate()
        def simulate(p, start, out):
            print("so far", p)
            {fault}
        """)
    with Server.start(directory.bus) as server, TupleSpace.connect(server.url) as space:
        space.put("bag", 0, plain(Start(start=0, seed=1)))
        code = f"from steersman.worker import tasks; tasks.walk({str(directory.path)!r}, 3, 'bag')"
        died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert died.returncode < 0
    assert died.stdout == died.stderr == ""
    assert (directory.errors / "w3.stdout").read_text() == "so far \n"
    assert "in simulate" in (directory.errors / "w3.stderr").read_text()
    told = last_words(directory.errors, 3)
    assert said in told
    assert told.endswith("see errors/w3.stderr")
