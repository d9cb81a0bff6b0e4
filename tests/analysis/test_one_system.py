"""Frames of several systems are not taken for those of one without a word."""

from __future__ import annotations

from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from steersman import Params, Workflow, budget, every
from steersman.analysis.one_system import differing
from steersman.steering.protocols import StopRule

GIVEN = {"kT": 1.0, "points": [1, 2], "frames": 100, "train_every": 10}


class System(Params):
    kT: float = 1.0
    points: tuple[int, ...] = (1, 2)
    frames: int = 100
    train_every: int = 10


class Starts(dict[str, np.ndarray]):
    """By column, as long as a column."""

    def __len__(self) -> int:
        return len(self["set"])


def history(*later: dict[str, Any], workflow: str = "mine", ran: int = -1, **given: Any) -> Any:
    """A run whose parameters were changed so; the first `ran` of its sets of them, or all, made frames."""
    sets = list(accumulate(later, lambda before, after: before | after, initial=dict[str, Any]()))
    return SimpleNamespace(
        directory=SimpleNamespace(settings=lambda: {"params": GIVEN | given}),
        state=SimpleNamespace(run=SimpleNamespace(workflow=workflow)),
        starts=Starts(set=np.arange(len(sets))),
        segments=SimpleNamespace(start=np.arange(len(sets)), made=np.arange(len(sets))[: ran if ran >= 0 else None]),
        sets=sets,
    )


@pytest.mark.parametrize(
    ("histories", "names"),
    [
        ([history()], []),
        ([history({"frames": 200, "train_every": 20, "kT": 1})], []),  # a longer run, and the same number
        ([history({"kT": 1.2})], ["kT"]),
        ([history({"kT": 1.2}, {"kT": 1.0})], ["kT"]),  # and back
        ([history({"kT": 1.2}, ran=1)], []),  # no segment ran with it
        ([history(), history(kT=2.0, points=[3])], ["kT", "points"]),
        ([history(), history(workflow="other")], ["the"]),
        ([history({"kT": 2.0}), history(kT=2.0)], ["kT"]),
    ],
)
def test_a_parameter_that_had_several_values_is_named_unless_only_rules_read_it(
    histories: list[Any], names: list[str]
) -> None:
    workflow = Workflow("mine", System, stop=lambda p: budget(frames=p.frames))
    workflow.train(when=lambda p: every(frames=p.train_every))(lambda p, frames, last: last)
    said = list(differing(histories, workflow))
    assert [words.split()[0] for words in said] == names


@pytest.mark.parametrize(("values", "names"), [((1.0, 2.0), ["T"]), ((1.0, 1.0), [])])
def test_conditions_that_starts_take_in_turn_are_several_systems(values: tuple[float, ...], names: list[str]) -> None:
    workflow = Workflow("mine", System, stop=lambda p: budget(frames=p.frames))
    workflow.simulate(conditions=lambda p: {"T": values, "p": (p.kT,)})(lambda p, start, out: None)
    assert [words.split()[0] for words in differing([history()], workflow)] == names


def test_rules_that_cannot_be_compared_hide_no_parameter() -> None:
    """A rule of one's own is another object each time."""
    workflow = Workflow("mine", System, stop=lambda p: StopRule())
    said = list(differing([history({"kT": 1.2})], workflow))
    assert [words.split()[0] for words in said] == ["kT"]
