"""Scores -> new members of an ensemble, drawn where a model is unsure; and the draws that judge it.

    wf.steer(Unsure("disagreement", dimensions=6))

    @wf.held_out
    def judged(p): return {"point": latin_hypercube(p.held_out, dimensions=6)}

What is drawn is given to the simulation as `start.draw["point"]`, (dimensions,) between 0 and 1. The simulation stores
it with its frames and the score function returns it again, so that all that counts lies beside the frames.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import count

import numpy as np

from steersman.steering.importance import POINT
from steersman.steering.protocols import AT_RANDOM, LONGEST, NEW, Candidate, Policy
from steersman.steering.scores import Scores
from steersman.system.numbers import NotNegative, Share, Whole, checked

HELD_OUT = "held out"  # stands in a start's record where a policy's name stands
POINTS = 10_000  # among which members are drawn, new ones for each ranking


@checked
class Unsure(Policy):
    """New members, drawn more often where a score is high: where the models of a committee disagree, say.

    The score of a point that nobody has simulated is taken from its nearest neighbours among those that were. Members
    are drawn at random with chances that grow with it, without replacement, and not from the highest down: so members
    that run at the same time, before any of them is scored, do not all lie at one spot. What is held out is not
    looked at.

    Args:
        score: 0 or more.
        dimensions: number of parameters, each drawn from 0 to 1.
        explore: share of the members that are drawn evenly instead, whatever the score.
        power: the chance grows with this power of the score; 0 draws all evenly.
        neighbours: so many points are averaged. While fewer have scores, all are drawn evenly.
    Source: Kirsch et al. (2023), Stochastic batch acquisition: a simple baseline for deep active learning, TMLR.
    """

    score: str
    dimensions: Whole
    explore: Share = 0.2
    power: NotNegative = 1.0
    neighbours: Whole = 8

    draws = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.score, POINT)

    def load(self) -> None:
        import_module("scipy.spatial")

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        """Draw members.

        Raises: ValueError: some of the score is negative.
        """
        points = rng.random((POINTS, self.dimensions))
        expected = self._expected(scores, points)
        if expected is None:
            even = self._candidate(points[0], 0.0, "drawn evenly: too little is scored")
            return [replace(even, policy=AT_RANDOM, draw={POINT: point.tolist()}) for point in points[:LONGEST]]
        chance = expected**self.power
        chance = chance / chance.sum() if chance.sum() > 0 else np.full(POINTS, 1 / POINTS)
        chance = (1 - self.explore) * chance + self.explore / POINTS
        why = f"drawn where {self.score} of {{:.3g}} is expected, {{:.1f}} times as often as evenly"
        return [
            self._candidate(points[i], float(expected[i]), why.format(expected[i], chance[i] * POINTS))
            for i in rng.choice(POINTS, min(LONGEST, int(np.count_nonzero(chance))), replace=False, p=chance)
        ]

    def _expected(self, scores: Scores, points: np.ndarray) -> np.ndarray | None:
        """(n,) the score at points; None while too few have one."""
        from scipy.spatial import KDTree

        if not scores.values:
            return None
        kept = ~scores.held_out if len(scores.held_out) else slice(None)
        known, values = scores.matrix(POINT)[kept], scores.column(self.score)[kept]
        if len(values) and values.min() < 0:
            raise ValueError(f"{self.score} is {values.min():g} somewhere; it is to be 0 or more")
        known, member, frames = np.unique(known, axis=0, return_inverse=True, return_counts=True)
        if len(known) < self.neighbours:
            return None
        values = np.bincount(member.reshape(-1), weights=values) / frames  # a member may have many frames
        _, nearest = KDTree(known).query(points, k=[*range(1, self.neighbours + 1)])
        return np.asarray(values[nearest].mean(1))

    def _candidate(self, point: np.ndarray, value: float, reason: str) -> Candidate:
        return Candidate(NEW, self.name, value, reason, draw={POINT: point.tolist()})


@checked
class LatinHypercube(Policy):
    """New members that fill the cube evenly, without a model: the baseline for `Unsure`.

    They are the points of one Latin hypercube, the same in every run, in random order; when all were drawn, those of
    the next one. A point that was scored is not drawn again; one whose simulation still runs may be. The score function
    returns it, `point`, with its frames.

    Args:
        dimensions: number of parameters, each drawn from 0 to 1.
        members: number of points, as many as the budget allows.
    Source: McKay, Beckman and Conover (1979), A comparison of three methods for selecting values of input variables.
    """

    dimensions: Whole
    members: Whole

    draws = True

    @property
    def needs(self) -> tuple[str, ...]:
        return (POINT,)

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        """Draw members."""
        drawn = _as_one(scores.matrix(POINT)) if POINT in scores.values else np.empty(0)
        cubes = (latin_hypercube(self.members, self.dimensions, seed) for seed in count(1))
        points = next(left for cube in cubes if len(left := cube[~np.isin(_as_one(cube), drawn)]))
        why = f"one of {self.members} points that fill the cube evenly"
        return [
            Candidate(NEW, self.name, 0.0, why, draw={POINT: p.tolist()}) for p in rng.permutation(points)[:LONGEST]
        ]


def _as_one(points: np.ndarray) -> np.ndarray:
    """(n, d) -> (n,), a value for each point: simulations may store them in single precision."""
    single = np.ascontiguousarray(points, np.float32)
    return single.view(f"V{single.itemsize * single.shape[1]}")[:, 0]


def latin_hypercube(draws: int, dimensions: int, seed: int = 0) -> np.ndarray:
    """Points (draws, dimensions) from 0 to 1, one in each of as many equal slices of every axis.

    Source: McKay, Beckman and Conover (1979), A comparison of three methods for selecting values of input variables.
    """
    rng = np.random.default_rng(seed)
    slices = np.stack([rng.permutation(draws) for _ in range(dimensions)], axis=1)
    return np.asarray((slices + rng.random((draws, dimensions))) / draws)
