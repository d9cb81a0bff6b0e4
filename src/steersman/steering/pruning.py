"""Scores of a running segment -> reason to stop it, or None."""

from __future__ import annotations

import numpy as np

from steersman.steering.protocols import ScoreName, SegmentRule
from steersman.steering.scores import Scores
from steersman.system.numbers import Whole, checked


@checked
class Redundant(SegmentRule):
    """Its newest `patience` frames all lie in cells that hold `crowd` frames or more.

    Args:
        score: name of the score.
        patience: so many of its newest frames are looked at.
        crowd: a cell with at least so many frames is crowded.
        bins: cells per dimension.
    """

    score: ScoreName
    patience: Whole = 20
    crowd: Whole = 50
    bins: Whole = 20

    def reason(self, scores: Scores, rows: np.ndarray) -> str | None:
        if len(rows) < self.patience:
            return None
        least = int(scores.crowd(self.score, self.bins)[rows[-self.patience :]].min())
        if least < self.crowd:
            return None
        return f"redundant: its last {self.patience} frames lie in cells of at least {least} frames"


@checked
class Hopeless(SegmentRule):
    """A scalar score had no new minimum for `patience` frames: the segment comes no nearer to a reference.

    Args:
        score: name of a scalar score, smaller being nearer.
        patience: frames without a new minimum.
    """

    score: ScoreName
    patience: Whole = 50

    def reason(self, scores: Scores, rows: np.ndarray) -> str | None:
        distance = scores.column(self.score)[rows]
        if len(rows) <= self.patience:
            return None
        if len(distance) - 1 - int(distance.argmin()) < self.patience:
            return None
        return f"hopeless: {self.score} has had no new minimum for {self.patience} frames"
