"""Run directory -> curves of its yardsticks: what its frames amount to, by one code for every run.

Axes: n frames in the order in which they were made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steersman.data.history import History
from steersman.data.segment_table import SegmentTable
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.stages.yardstick import Yardstick
from steersman.store import Window


@dataclass(frozen=True)
class Curve:
    """A yardstick against what was spent.

    Args:
        spent: (n,) float, simulated time in the run's unit, or frames where there is none; it rises evenly.
        value: (n,) float, what the frames up to there amount to.
    """

    spent: np.ndarray
    value: np.ndarray

    def at(self, spent: np.ndarray) -> np.ndarray:
        """The value when so much was spent; NaN before the first frame, the last value behind the end."""
        found = np.searchsorted(self.spent, np.asarray(spent) * (1 + 1e-12), side="right") - 1
        return np.where(found >= 0, self.value[np.maximum(found, 0)], np.nan)


def measure(history: History, workflow: Workflow, params: Params) -> dict[str, Curve]:
    """Measure a run by every yardstick of a workflow, which may be another than the one that it ran.

    Raises: BadYardstick: one does not give one row for each frame.
    """
    segments = history.segments
    own = segments.made
    if not len(own):
        return {}
    moment = _moments(segments)
    order = np.argsort(moment, kind="stable")
    spent = _spent(history, len(order))
    worth = [_worth(history, batch, workflow, params) for batch in segments.batches()]
    return {
        name: Curve(spent, amount(np.concatenate([batch[name] for batch in worth])[order], yardstick))
        for name, yardstick in workflow.yardsticks.items()
    }


def follow(history: History, metric: str) -> Curve:
    """A metric of a run against what was spent when it was computed; NaN before the first time."""
    moment = np.sort(_moments(history.segments))
    known, value = history.metrics.get(metric, np.empty((0, 2))).T
    latest = np.searchsorted(known, moment, side="right")
    if len(latest):
        latest[-1] = len(known)  # what is computed after the last frame says what all of them were good for
    return Curve(_spent(history, len(moment)), np.concatenate([[np.nan], value])[latest])


def _moments(segments: SegmentTable) -> np.ndarray:
    """(n,) float, when each frame was made, seconds since 1970, segment by segment."""
    frames = (segments.end - segments.first)[segments.made]
    at = np.repeat(segments.made, frames)
    before = np.repeat(np.cumsum(frames) - frames, frames)
    return segments.moments(at, segments.first[at] + np.arange(len(at)) - before)


def _spent(history: History, frames: int) -> np.ndarray:
    return (history.state.simulated or float(frames)) * np.arange(1, frames + 1) / max(frames, 1)


def _worth(history: History, own: np.ndarray, workflow: Workflow, params: Params) -> dict[str, np.ndarray]:
    """What each yardstick gives for the frames of some segments."""
    frames = Window(history.directory.frames, history.segments.spans(own))
    return {name: each.rows(name, params, frames) for name, each in workflow.yardsticks.items()}


def amount(values: np.ndarray, yardstick: Yardstick) -> np.ndarray:
    """(n, ...) what each frame is worth -> (n,) float, what the first 1, 2, ... of them amount to."""
    match yardstick.take:
        case "highest":
            return np.maximum.accumulate(values.astype(float))
        case "lowest":
            return np.minimum.accumulate(values.astype(float))
        case "mean":
            return np.asarray(np.cumsum(values.astype(float)) / np.arange(1, len(values) + 1))
    counted = np.ascontiguousarray(values.reshape(len(values), math.prod(values.shape[1:])))
    rows: np.ndarray = np.zeros(len(counted))  # of nothing: all alike
    if counted.size:  # as bytes: 20 times faster than unique(axis=0)
        rows = counted.view(np.dtype((np.void, counted[0].nbytes)))[:, 0]
    _, first = np.unique(rows, return_index=True)
    if counted.shape[1] == 1 and np.issubdtype(counted.dtype, np.signedinteger):
        first = first[counted[first, 0] >= 0]
    fresh = np.zeros(len(values))
    fresh[first] = 1
    return np.cumsum(fresh)
