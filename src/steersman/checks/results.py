"""What came of stages that were tried on a few frames: of plans, segments, figures and panels."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from steersman.stages.out import Out
from steersman.stages.segment import miscounted
from steersman.stages.start import Start
from steersman.stages.task import NOBODY, Later, planned_by, resolved
from steersman.stages.workflow import Workflow
from steersman.steering import Scores, StopRule
from steersman.steering.scores import some_missing
from steersman.store import Window
from steersman.system.errors import EngineError


@dataclass(frozen=True)
class TriedResults:
    """What figures and panels are made of, as of a run that has ended."""

    scores: Scores
    model: Any
    held_out: Window

    def frame(self, index: int) -> dict[str, np.ndarray]:
        return {name: self.held_out[name][self.scores.row[index]] for name in self.held_out}


def shown(returned: Any, check: Callable[[Any], tuple[Any, str]]) -> str:
    """What came of a figure or a panel. Raises: as its check, `drawn` or `shown` of `stages.panel`."""
    if returned is None:
        return "nothing to show yet"
    view, caption = check(returned)
    if isinstance(view, np.ndarray):
        return f"an array of {view.shape}"
    view.savefig(io.BytesIO(), format="svg")
    return caption or "a figure"


def scores(rows: int, values: Mapping[str, np.ndarray], model: int) -> Scores:
    """Of one ended segment's frames in which nothing is missing; in a weighted ensemble it is the member of round 1."""
    row = np.flatnonzero(~some_missing(values, rows)).astype(np.int32)
    values = {name: value[row] for name, value in values.items()}
    zeros, ones = np.zeros(len(row), np.int32), np.ones(len(row), np.int32)
    return Scores(
        zeros, row, zeros, zeros, row == rows - 1, values, model, weight=ones.astype(float), round=ones,
        held_out=row % 2 == 0,
    )  # fmt: skip


class Once:
    """A planner that calls each task with the arguments of its first call."""

    def __init__(self, workflow: Workflow) -> None:
        self._workflow, self._made, self.calls = workflow, dict[str, Any](), Counter[str]()

    def call(self, name: str, given: Any, copy: int) -> Later:
        self.calls[name] += 1
        if name not in self._made:
            args, options = resolved(given)
            folder = TemporaryDirectory(prefix="steersman-try-")
            with folder, contextlib.chdir(folder.name), planned_by(NOBODY):
                self._made[name] = self._workflow.tasks[name].function(*args, **options)
        later = Later(f"{name} {self.calls[name]}", lambda: self._made[name], f"{name}(...)")
        later.set_result(None)
        return later


def planned(workflow: Workflow, plan: Callable[..., Any], *given: Any) -> tuple[Any, str]:
    """What a plan gives, and in words what it called."""
    once = Once(workflow)
    with planned_by(once):
        returned = resolved(plan(*given))
    called = ", ".join(f"{number} x {name}" for name, number in once.calls.items())
    calls = f"it calls {called}, each tried once" if called else "it calls no task"
    return returned, f"{type(returned).__name__}; {calls}"


def oddities(out: Out, start: Start, described: Iterable[str], stop: StopRule, first: Mapping[str, Any]) -> str:
    """What a segment, or the next ones, will lack.

    Args:
        described: names that the workflow file gives dimensions and units.
        first: the first frame of the first segment.
    Raises: EngineError: the stop rule counts simulated time, and no frame has it.
    """
    stored = out.stored
    if stop.counts_simulated and "time" not in stored:
        raise EngineError(
            "no frame has a `time`, and the stop rule counts simulated time ({rule}): the run would not end; "
            "write out.append(time=...), the simulated time since the segment's start",
            rule=stop,
        )
    return _never_stored(stored, described) + _goes_on(stored, start, first)


def frames_in_words(out: Out, segments: int) -> str:
    """How many frames of what so many segments gave: `25 frames of x float64 (3,)`."""
    frames = f"{out.frames} frame{'' if out.frames == 1 else 's'}{f' ({segments} segments)' if segments > 1 else ''}"
    stored = {name: out.stored[name] for name in sorted(out.stored) if name != "segment"}
    return f"{frames} of {', '.join(f'{name} {each.dtype} {each.shape[1:]}' for name, each in stored.items())}"


def _never_stored(stored: Iterable[str], described: Iterable[str]) -> str:
    """An app's descriptions may be of more than is stored; a slip leaves something that is stored without its own."""
    odd = [name for name in described if name not in stored]
    bare = [name for name in stored if name not in described and name != "segment"]
    if not odd or not (bare or "time" in odd):
        return ""
    return f"; variables= describes {', '.join(odd)}, which no frame has" + (
        f", and not {', '.join(bare)}" if bare else ""
    )


def _goes_on(stored: Mapping[str, Any], start: Start, first: Mapping[str, Any]) -> str:
    """Whether time is counted from anything but the segment's start."""
    if "time" not in stored:
        return ""
    before = float(start.frame["time"]) if start.frame and "time" in start.frame else 0.0
    odd = miscounted(stored["time"][:], before, float(first["time"]))
    return f"; {odd}" if odd else ""
