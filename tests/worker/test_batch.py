"""Several starts at once: each is a segment of its own, and what is wrong with one ends no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.bus import TupleSpace
from steersman.journal.records import Start
from steersman.stages import segment
from steersman.stages.batch import OfBatch, Waiting
from steersman.stages.segment import Segment
from steersman.store import Frames, GroupWriter, Span
from steersman.worker.orders import plain
from tests.worker.test_walker import events, run_orders

STARTS = 7


def orders(changed: int = STARTS) -> list[tuple[int, dict[Any, Any]]]:
    """Starts; from one on a person changed a parameter."""
    return [(n, plain(Start(start=n, seed=10 + n, set={} if n < changed else {"x": 1}))) for n in range(STARTS)]


def walk(space: TupleSpace, folder: Path, simulate: Callable[..., None], **others: Any) -> list[dict[str, Any]]:
    others = {"with_settings": lambda params, settings: params} | others
    run_orders(space, folder, simulate, orders(others.pop("changed", STARTS)), batch=3, **others)
    return events(space, "ended")


def test_each_start_of_a_batch_is_a_segment_with_its_own_rows(space: TupleSpace, tmp_path: Path) -> None:
    together = list[int]()

    def simulate(p: Any, starts: Sequence[Any], outs: Sequence[Segment]) -> None:
        together.append(len(starts))
        x = np.zeros(())  # which is used again
        for moment in range(2):  # all append in turn, and rows of a segment follow one another
            for out in outs:
                x[...] = out.seed
                out.append(x=x, moment=moment)
        for out in outs:
            out.state(of=np.array([out.seed]))
            out.label()

    ended = walk(space, tmp_path, simulate)
    assert together == [3, 3, 1]
    assert [each["start"] for each in ended] == list(range(STARTS))
    assert [(each["first_row"], each["end_row"]) for each in ended] == [(2 * n, 2 * n + 2) for n in range(STARTS)]
    assert [each["asks"] for each in ended] == [[2 * n + 1] for n in range(STARTS)]
    frames, span = Frames(tmp_path / "frames"), Span("w0", 0, 2 * STARTS)
    assert frames.read("x", span).tolist() == [10.0 + n // 2 for n in range(2 * STARTS)]
    assert frames.read("segment", span).tolist() == [n // 2 for n in range(2 * STARTS)]
    assert frames.state("w0", 4)["of"] == [14]


def bad_value(out: Segment) -> None:
    out.append(x=np.nan, moment=1)


def says_so(out: Segment) -> None:
    out.fail(RuntimeError("it blew up"))


@pytest.mark.parametrize("wrong", [bad_value, says_so])
def test_a_member_that_fails_ends_no_other_and_keeps_what_it_had(
    space: TupleSpace, tmp_path: Path, wrong: Callable[[Segment], None]
) -> None:
    def simulate(p: Any, starts: Sequence[Any], outs: Sequence[Segment]) -> None:
        for out in outs:
            out.append(x=float(out.seed), moment=0)
        for out in outs:
            if out.seed == 14:
                wrong(out)
            out.append(x=float(out.seed), moment=1)

    ended = walk(space, tmp_path, simulate)
    assert [each["how"] for each in ended] == ["failed" if n == 4 else "finished" for n in range(STARTS)]
    assert [each["end_row"] - each["first_row"] for each in ended] == [1 if n == 4 else 2 for n in range(STARTS)]


def test_what_the_function_raises_is_the_end_of_all_of_its_batch_and_of_no_other(
    space: TupleSpace, tmp_path: Path
) -> None:
    def simulate(p: Any, starts: Sequence[Any], outs: Sequence[Segment]) -> None:
        for out in outs:
            out.append(x=float(out.seed), moment=0)
        if outs[0].seed == 13:
            raise RuntimeError

    ended = walk(space, tmp_path, simulate)
    assert [each["how"] for each in ended] == ["finished"] * 3 + ["failed"] * 3 + ["finished"]


def test_starts_with_other_parameters_are_another_batch(space: TupleSpace, tmp_path: Path) -> None:
    together = list[list[int]]()

    def simulate(p: Any, starts: Sequence[Any], outs: Sequence[Segment]) -> None:
        together.append([out.seed for out in outs])
        for out in outs:
            out.append(x=1.0)

    walk(space, tmp_path, simulate, changed=2)
    assert together == [[10, 11], [12, 13, 14], [15, 16]]


def test_a_member_that_went_on_for_too_long_leaves_no_state_of_frames_that_are_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "look_every_s", lambda ran_s: 0.0)
    monkeypatch.setattr(segment, "PATIENCE_S", 0.0)
    out = OfBatch("w0.0", 0, 1, Waiting(GroupWriter(tmp_path / "w0")), stop_asked=lambda: True)
    for age in range(4):
        out.append(age=age)
        out.state(age=age)
    assert 1 <= out.frames < 4
    assert not out.restart


def test_members_of_unequal_shapes_fail_by_themselves(space: TupleSpace, tmp_path: Path) -> None:
    def simulate(p: Any, starts: Sequence[Any], outs: Sequence[Segment]) -> None:
        for out in outs:
            out.append(x=np.zeros(3 if out.seed == 11 else 2))

    ended = walk(space, tmp_path, simulate)
    assert [each["how"] for each in ended] == ["failed" if n == 1 else "finished" for n in range(STARTS)]
