"""Scores -> new members of an ensemble, drawn where a surrogate expects extremes: how rare is an extreme, live.

    storms = Importance("storm", threshold=0.0, dimensions=8)
    wf.steer(storms)
    storms.estimate(scores)  # 0.0103 (95 %: 0.0071 to 0.0149), 200 runs, 41 extremes

What is drawn is given to the simulation as `start.draw`: `point`, `weight` and `trust`. The simulation stores them with
its frames and the score function returns them again, so that all that counts lies beside the frames.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

import numpy as np

from steersman.steering import rare_events
from steersman.steering.protocols import AT_RANDOM, LONGEST, NEW, Candidate, Policy
from steersman.steering.rare_events import Estimate, Surrogate
from steersman.steering.scores import Scores
from steersman.steering.streams import point_rng
from steersman.store import Variable
from steersman.system.numbers import Finite, Whole, checked

OF_ONE_POOL = 8  # guided members that are drawn from the same points: of more, quick runs would all hang on a few draws
POINT, WEIGHT, TRUST = "point", "weight", "trust"
DRAWN = {
    POINT: Variable(("parameter",), "1", "parameters of this member, of a standard normal distribution"),
    WEIGHT: Variable((), "1", "how much rarer this point is than it was drawn"),
    TRUST: Variable((), "1", "how much this member counts beside others, settled before it ran"),
}


@checked
class Importance(Policy):
    """New members, drawn at random at first, then where a surrogate expects an extreme; each has its weight.

    The surrogate is fitted to all whole runs so far, anew with every `every` of them. Each member is weighted with its
    own chance, so the estimate is unbiased as long as it does not depend on the outcome which of the runs are known:
    runs that take equally long, or all of them. Up to 8 members are drawn from the same points, whose scatter is in the
    error.

    Args:
        quantity: score whose extreme is wanted, a scalar.
        threshold: what it must exceed.
        dimensions: number of parameters, drawn from a standard normal distribution.
        whole: score that is true at the last frame of a whole run, where the quantity counts; where it is true at
            several frames of a segment, at the last of these.
        first: whole runs before the surrogate is asked.
        every: whole runs after which it is fitted anew.
        points: among which members are drawn, new ones for each ranking.
        surrogate: fitted to the runs; None: a Gaussian process.
    Source: Peherstorfer, Cui, Marzouk and Willcox (2016), Multifidelity importance sampling; see rare_events.
    """

    quantity: str
    threshold: Finite
    dimensions: Whole
    whole: str = "whole"
    first: Whole = 40
    every: Whole = 35
    points: Whole = 10_000
    surrogate: Surrogate | None = None

    draws = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.quantity, self.whole, POINT, WEIGHT, TRUST)

    def load(self) -> None:
        import_module("sklearn.gaussian_process")

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        """Draw members, each independent of the others."""
        points = rng.standard_normal((self.points, self.dimensions))
        known = self._known(scores)
        if known < self.first:
            chosen = rng.choice(len(points), min(LONGEST, len(points)), replace=False)
            why = f"drawn at random: {known} whole runs are too few to guide"
            drawn = [self._candidate(points[i], 1.0, rare_events.FIRST_WEIGHT, why) for i in chosen]
            return [replace(each, policy=AT_RANDOM) for each in drawn]
        share = rare_events.shares(*self._expected(scores, known, points), self.threshold)
        weights = 1 / (len(points) * share)
        trust = 1.0 + (known - self.first) // self.every
        why = f"drawn where {self.quantity} above {self.threshold:g} is expected: it counts {{:.2g}} times"
        return [
            self._candidate(points[i], weights[i], trust, why.format(weights[i]))
            for i in rng.choice(len(points), OF_ONE_POOL, p=share)
        ]

    def at_random(self, seed: int) -> dict[str, float | Sequence[float]]:
        """A member of plain sampling, for a start that no policy drew."""
        point = point_rng(seed).standard_normal(self.dimensions)
        return {POINT: point.tolist(), WEIGHT: 1.0, TRUST: rare_events.FIRST_WEIGHT}

    def estimate(self, scores: Scores) -> Estimate:
        """How often the quantity exceeds the threshold, from the whole runs so far; NaN before there is one."""
        return rare_events.weighted(*self._runs(scores)) if self._known(scores) else Estimate(math.nan, math.nan, 0, 0)

    def warning(self, scores: Scores) -> str:
        if self.whole not in scores.values or self._known(scores) or not (ended := int(scores.ends.sum())):
            return ""
        return (
            f"{self.whole!r} is true at no frame of the members that have ended ({ended:,}), so none is counted: it is "
            "to be true at a member's last frame"
        )

    def estimates(self, scores: Scores) -> list[Estimate]:
        """The same after each whole run, one after another."""
        return rare_events.weighted_so_far(*self._runs(scores))

    def _runs(self, scores: Scores) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
        whole = self._whole(scores)
        quantities, weights, trusts = (scores.column(name)[whole] for name in (self.quantity, WEIGHT, TRUST))
        return quantities, weights, trusts, self.threshold, OF_ONE_POOL / self.points

    def _expected(self, scores: Scores, known: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and spread of the quantity at points, by a fit to so many runs that it need not be made every time."""
        used = self.first + (known - self.first) // self.every * self.every
        whole = np.flatnonzero(self._whole(scores))[:used]
        fitted = scores.matrix(POINT)[whole], scores.column(self.quantity)[whole]
        return (self.surrogate or rare_events.gaussian_process)(*fitted, points)

    def _known(self, scores: Scores) -> int:
        return int(self._whole(scores).sum()) if self.whole in scores.values else 0

    def _whole(self, scores: Scores) -> np.ndarray:
        """(n,) bool: one frame for each whole run."""
        rows = np.flatnonzero(scores.column(self.whole) != 0)[::-1]
        run = (scores.walker[rows].astype(np.int64) << 32) + scores.segment[rows]
        last = rows[np.unique(run, return_index=True)[1]]
        return np.isin(np.arange(len(scores)), last)

    def _candidate(self, point: np.ndarray, weight: float, trust: float, reason: str) -> Candidate:
        drawn = {POINT: point.tolist(), WEIGHT: float(weight), TRUST: float(trust)}
        return Candidate(NEW, self.name, float(weight), reason, draw=drawn)
