"""Scores -> ranking: which frames deserve the next segments, best first; or new members, drawn.

A policy is a pure function of the scores and a random generator. `a | b` lets two policies take turns.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from importlib import import_module

import numpy as np

from steersman.steering.protocols import LONGEST, Candidate, Policy, ScoreName
from steersman.steering.scores import Scores
from steersman.system.numbers import Finite, Whole, checked

SHOWN = 3  # numbers of a score of several


@checked
class LocalOutlierFactor(Policy):
    """Frames that lie far out compared with their neighbours, as in DeepDriveMD.

    Args:
        score: name of the score, e.g. the latent "z".
        neighbours: number of neighbours that a frame is compared with.
        sample: at most so many frames, drawn at random, are compared.
    Source: Breunig et al. (2000), LOF: identifying density-based local outliers.
    """

    example = '("z", sample=50)'
    score: ScoreName
    neighbours: Whole = 20
    sample: Whole = 4000

    def __post_init__(self) -> None:
        if self.neighbours >= self.sample:
            few = f"a frame has {self.sample - 1} others to be compared with"
            raise ValueError(f"LocalOutlierFactor(neighbours={self.neighbours}, sample={self.sample}): {few}")

    def load(self) -> None:
        import_module("sklearn.neighbors")

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        from sklearn.neighbors import LocalOutlierFactor as Detector

        chosen = subset(scores, self.sample, rng)
        # Equal points (equal contact maps, say) have no density: the distinct ones are compared, and a point that
        # was met more often than it is compared with neighbours is no outlier however far out it lies.
        points, which, met = np.unique(
            scores.matrix(self.score)[chosen], axis=0, return_inverse=True, return_counts=True
        )
        if len(points) <= self.neighbours:
            return []
        points = points / np.ptp(points, axis=0).max()  # the detector takes distances below 1e-10 for none
        outlierness = -Detector(n_neighbors=self.neighbours).fit(points).negative_outlier_factor_
        factor = np.zeros(len(scores))
        factor[chosen] = np.where(met > self.neighbours, 1.0, outlierness)[which.ravel()]
        order = chosen[_shuffled_order(-factor[chosen], rng)]
        return self.candidates(scores, order, factor, f"local outlier factor {{value:.2f}} in {self.score}")


@checked
class Novelty(Policy):
    """Frames in the emptiest cells of a grid over what was sampled so far."""

    example = '("z")'
    score: ScoreName
    bins: Whole = 20

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        crowd = scores.crowd(self.score, self.bins).astype(float)
        order = _shuffled_order(crowd, rng)
        x = scores.matrix(self.score)
        return [
            replace(each, reason=f"frames in its cell of {self.score} ({_place(x[each.index])}): {each.reason}")
            for each in self.candidates(scores, order, crowd, "{value:,.0f}")
        ]


def _place(x: np.ndarray) -> str:
    """The first of the numbers of a score."""
    return ", ".join([*(f"{number:.3g}" for number in x[:SHOWN]), *["..."] * (len(x) > SHOWN)])


@checked
class LeastCounts(Policy):
    """Frames of the least visited states, states being clusters of a score.

    Source: Bowman, Ensign and Pande (2010), Enhanced modeling via network theory.
    """

    example = '("z", states=5, sample=50)'
    score: ScoreName
    states: Whole = 50
    sample: Whole = 4000

    def load(self) -> None:
        import_module("sklearn.cluster")

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        x = scores.matrix(self.score)
        chosen = subset(scores, self.sample, rng)
        states = min(self.states, len(np.unique(x[chosen], axis=0)))
        seed = int(rng.integers(2**31))
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # points that differ by nothing
            state = KMeans(states, n_init=1, max_iter=20, random_state=seed).fit(x[chosen]).predict(x)
        crowd = np.bincount(state, minlength=states)[state].astype(float)
        return self.candidates(scores, _shuffled_order(crowd, rng), crowd, "frames in its state: {value:,.0f}")


@checked
class Target(Policy):
    """Frames nearest to a known reference. A run that uses it is marked "guided" wherever it is shown.

    Args:
        score: name of the score, e.g. "rmsd".
        reference: the value to come near to, one number for each dimension of the score or the same for all.
    """

    example = '("z", (0.0, 0.0))'
    score: ScoreName
    reference: Finite | tuple[Finite, ...] = 0.0

    guided = True

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        x, reference = scores.matrix(self.score), np.atleast_1d(self.reference)
        if reference.shape not in ((1,), x.shape[1:]):
            raise ValueError(f"{self.score} has {x.shape[1]} dimensions, its reference {len(reference)}")
        distance = np.linalg.norm(x - reference, axis=1)
        order = np.argsort(distance, kind="stable")
        return self.candidates(scores, order, distance, f"{self.score} is {{value:.3g}} from the reference")


@dataclass(frozen=True)
class Random(Policy):
    """Any frame, all equally likely: the baseline that a policy has to beat."""

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        order = scores.startable(rng.permutation(len(scores)))[:LONGEST]
        return [Candidate(int(i), self.name, 0.0, "drawn at random") for i in order]


@dataclass(frozen=True)
class Unsteered(Policy):
    """The end of every segment, exactly and once, from its restart state: plain simulations, and the default fallback.

    There are as many of them as slots, and each is continued once: a choice ahead would branch them.
    """

    @property
    def patient(self) -> bool:
        return True

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        waiting = np.flatnonzero(scores.ends & (scores.starts == 0))[:LONGEST]
        return [Candidate(int(i), self.name, 0.0, "continues its segment", exact=True) for i in waiting]


def subset(scores: Scores, most: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of `most` frames drawn at random, and of those not started from where these are few: `Frontier` shows
    only the newest ends so, and a policy that does not look at them could not rank them. So it is with all ends where
    a segment can begin at these alone."""
    if len(scores) <= most:
        return np.arange(len(scores))
    drawn, fresh = rng.choice(len(scores), most, replace=False), np.flatnonzero(scores.starts == 0)
    if scores.exact:
        ends = np.flatnonzero(scores.ends)
        fresh = ends if len(ends) <= most else scores.startable(fresh)
    return np.sort(drawn) if len(fresh) > most else np.union1d(drawn, fresh)


def _shuffled_order(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Ascending order, equal values in random order."""
    shuffled = rng.permutation(len(values))
    return shuffled[np.argsort(values[shuffled], kind="stable")]
