"""Run directory -> curves of its yardsticks: what its frames amount to, by one code for every run.

Axes: n frames in the order in which they were made; of a run in rounds those of a round side by side, see `_order`.
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

ROUNDED = 1e-9  # by which the sums of two runs that spent as much differ


@dataclass(frozen=True)
class Curve:
    """A yardstick against what was spent.

    Args:
        spent: (n,) float, ascending, simulated time in the run's unit, or frames where there is none.
        value: (n,) float, what the frames up to there amount to.
    """

    spent: np.ndarray
    value: np.ndarray

    def at(self, spent: np.ndarray) -> np.ndarray:
        """The value when so much was spent; NaN before the first frame, the last value behind the end."""
        last = np.searchsorted(self.spent, np.asarray(spent) * (1 + ROUNDED), side="right") - 1
        return np.where(last >= 0, self.value[np.maximum(last, 0)], np.nan)


def measure(history: History, workflow: Workflow, params: Params) -> dict[str, Curve]:
    """Measure a run by every yardstick of a workflow, which may be another than the one that it ran.

    Raises: BadYardstick: one does not give one row for each frame.
    """
    segments = history.segments
    if not len(segments.made):
        return {}
    order = _order(history)
    spent = _spent(history, order)
    worth = [_worth(history, batch, workflow, params) for batch in segments.batches()]
    return {
        name: Curve(spent, amount(np.concatenate([batch[name] for batch in worth])[order], yardstick))
        for name, yardstick in workflow.yardsticks.items()
    }


def follow(history: History, metric: str) -> Curve:
    """A metric of a run against what was spent when it was computed; NaN before the first time."""
    moments = np.sort(_moments(history.segments))
    known, value = history.metrics.get(metric, np.empty((0, 2))).T
    computed = np.searchsorted(moments, known, side="right")  # frames, when it was computed
    latest = np.searchsorted(computed, np.arange(1, len(moments) + 1), side="right")
    return Curve(_spent(history, _order(history)), np.concatenate([[np.nan], value])[latest])


def _order(history: History) -> np.ndarray:
    """(n,) int, the order in which frames were made, of frames that are given segment by segment.

    The segments of a round run side by side, at the same pace: how fast each of them ran is an accident of the machine,
    and the same seed would be judged otherwise when it is run again.
    """
    segments, starts = history.segments, history.starts
    if not (history.state.run.rounds and len(starts)):
        return np.argsort(_moments(segments), kind="stable")
    at, _ = _frames(segments)
    start = history.chosen_as(segments.start)[at]
    chosen = starts["moment"][np.minimum(start, len(starts) - 1)]  # one moment for a round; 0 where the record is lost
    one_by_one = np.argsort(start, kind="stable")  # a segment that was cut short is before the one that goes on from it
    _, first, which = np.unique(start[one_by_one], return_index=True, return_inverse=True)
    number = np.empty(len(at), int)
    number[one_by_one] = np.arange(len(at)) - first[which]
    return np.lexsort((start, number, np.where(chosen > 0, chosen, segments.began[at])))


def _frames(segments: SegmentTable) -> tuple[np.ndarray, np.ndarray]:
    """(n,) int each, the segment and the row of each frame, segment by segment."""
    frames = (segments.end - segments.first)[segments.made]
    at = np.repeat(segments.made, frames)
    before = np.repeat(np.cumsum(frames) - frames, frames)
    return at, segments.first[at] + np.arange(len(at)) - before


def _moments(segments: SegmentTable) -> np.ndarray:
    """(n,) float, when each frame was made, seconds since 1970, segment by segment."""
    return segments.moments(*_frames(segments))


def _spent(history: History, order: np.ndarray) -> np.ndarray:
    """(n,) float, what was spent when each frame was made, by the stored time of all.

    Args:
        order: of frames that are given segment by segment.
    """
    if not history.state.simulated:
        return np.arange(1.0, len(order) + 1)
    segments, steps = history.segments, list[np.ndarray]()
    for own in segments.batches():
        time = np.asarray(Window(history.directory.frames, segments.spans(own))["time"], float)
        steps.append(np.diff(time, prepend=0.0))
        begins = np.cumsum((segments.end - segments.first)[own])[:-1]
        steps[-1][begins] = time[begins]  # counted from the beginning of each segment
    return np.cumsum(np.concatenate(steps)[order]) if steps else np.empty(0)


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
    if np.issubdtype(counted.dtype, np.inexact):
        counted = counted + 0.0  # -0.0 is 0.0
    rows: np.ndarray = np.zeros(len(counted))  # of nothing: all alike
    if counted.size:  # as bytes: 20 times faster than unique(axis=0)
        rows = counted.view(np.dtype((np.void, counted[0].nbytes)))[:, 0]
    _, first = np.unique(rows, return_index=True)
    if counted.shape[1] == 1 and np.issubdtype(counted.dtype, np.signedinteger):
        first = first[counted[first, 0] >= 0]
    fresh = np.zeros(len(values))
    fresh[first] = 1
    return np.cumsum(fresh)
