"""A walker in this process: real server, real frames."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.bus import ALL, Server, TupleSpace
from steersman.stages.segment import Segment
from steersman.store import Frames, GroupWriter
from steersman.worker.publisher import EVENT
from steersman.worker.walker import Walker


@pytest.fixture
def space(tmp_path: Path) -> Iterator[TupleSpace]:
    with Server.start(tmp_path / "bus") as server, TupleSpace.connect(server.url) as space:
        yield space


def run_walker(space: TupleSpace, folder: Path, simulate: Callable[[Any, Any, Segment], None], starts: int = 1) -> str:
    """Give a walker so many starts and then the word to go home; returns why it went."""
    orders: list[dict[str, Any]] = [*({"seed": seed} for seed in range(starts)), {"end": True}]
    space.put_many(("bag", start, order) for start, order in enumerate(orders))
    (folder / "errors").mkdir()
    return Walker(
        number=0, bag="bag", simulate=simulate, params=None, prepared=None, frames=Frames(folder / "frames"),
        space=space, variables={}, attributes={}, errors=folder / "errors",
    ).run()  # fmt: skip


def events(space: TupleSpace, kind: str) -> list[dict[str, Any]]:
    return [fields for _, name, fields in space.take_many_nowait(EVENT, str, dict, n=ALL) if name == kind]


def append_for_ever(p: Any, start: Any, out: Segment) -> None:
    while True:
        out.append(x=1.0)


def append_and_explain(p: Any, start: Any, out: Segment) -> None:
    try:
        append_for_ever(p, start, out)
    except OSError as error:
        raise RuntimeError("the simulation gives it another name") from error


def wait_until_stopped(p: Any, start: Any, out: Segment) -> None:
    out.append(x=1.0)
    while not out.stopped:
        pass


@pytest.mark.parametrize("simulate", [append_for_ever, append_and_explain, wait_until_stopped])
def test_a_full_disk_ends_a_walker_at_once_and_blames_no_start(
    simulate: Callable[[Any, Any, Segment], None], space: TupleSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: GroupWriter) -> dict[str, int]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    monkeypatch.setattr(GroupWriter, "_write", full)
    with pytest.raises(OSError, match="No space") as ended:
        run_walker(space, tmp_path, simulate)
    assert ended.value.errno == errno.ENOSPC
    assert events(space, "ended") == []
    assert list((tmp_path / "errors").iterdir()) == []
