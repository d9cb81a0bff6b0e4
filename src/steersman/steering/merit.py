"""Scores -> merit -> ranking: policies that give every frame one number, the larger the better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import ClassVar

import numpy as np

from steersman.steering.policies import subset
from steersman.steering.protocols import ByAnother, Candidate, Policy, ScoreName
from steersman.steering.scores import Scores
from steersman.system.numbers import Finite, Share, Whole, checked

TINY = float(np.finfo(float).tiny)  # nothing, but one can divide by it


class ByMerit(Policy):
    """Ranks by `merit`; a subclass gives it, and `reason`, a format string of its `value`."""

    reason: ClassVar[str]

    def merit(self, scores: Scores, rng: np.random.Generator) -> np.ndarray:
        """(n,) float, larger is better; -inf of a frame that is not proposed."""
        raise NotImplementedError

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        merit, shuffled = self.merit(scores, rng), rng.permutation(len(scores))
        order = shuffled[np.argsort(-merit[shuffled], kind="stable")]
        return self.candidates(scores, order[merit[order] > -np.inf], merit, self.reason)


@checked
class Highest(ByMerit):
    """Frames where a score is highest: the disagreement of an ensemble of models (query by committee), an error, a CV.

    Source: Seung, Opper and Sompolinsky (1992), Query by committee.
    """

    example = '("x")'
    score: ScoreName
    reason: ClassVar[str] = "its score is {value:.3g}"

    def merit(self, scores: Scores, rng: np.random.Generator) -> np.ndarray:
        return scores.column(self.score)


@checked
class ExpectedImprovement(ByMerit):
    """Frames from which a score is expected to rise most above its best, by a surrogate's mean and its uncertainty.

    Args:
        mean, deviation: names of scores: what the surrogate expects there, and its standard deviation, >= 0.
    Source: Jones, Schonlau and Welch (1998), Efficient global optimization of expensive black-box functions, eq. 15.
    """

    example = '("x", "deviation")'
    mean: ScoreName
    deviation: ScoreName
    reason: ClassVar[str] = "an improvement of {value:.3g} is expected"

    def load(self) -> None:
        import_module("scipy.special")

    def merit(self, scores: Scores, rng: np.random.Generator) -> np.ndarray:
        from scipy.special import ndtr

        mean = scores.column(self.mean)
        deviation = np.maximum(scores.column(self.deviation), 1e-12 * np.ptp(mean) + TINY)
        gain = mean - mean.max()
        u = gain / deviation
        return np.asarray(gain * ndtr(u) + deviation * np.exp(-0.5 * u * u) / np.sqrt(2 * np.pi))


@checked
class Reap(ByMerit):
    """Least visited frames that lie far from the mean in the directions that pay: the weights of these are learned.

    Args:
        score: its d dimensions are the candidates for a direction.
        bins: cells per dimension in which visits are counted.
        among: so many of the frames in the emptiest cells, of those where a segment can begin, are compared.
    Source: Shamsi, Cheng and Shukla (2018), Reinforcement learning based adaptive sampling: REAPing rewards by
        exploring protein conformational landscapes, eq. 1-3; weights move freely on the simplex, so the best single
        direction wins.
    """

    example = '("z")'
    score: ScoreName
    bins: Whole = 20
    among: Whole = 50
    reason: ClassVar[str] = "it lies {value:.2f} deviations out in the direction that pays most"

    def merit(self, scores: Scores, rng: np.random.Generator) -> np.ndarray:
        x = scores.matrix(self.score)
        out = np.abs(x - x.mean(0)) / np.maximum(x.std(0), 1e-12 * np.abs(x).max(0) + TINY)
        crowd = scores.crowd(self.score, self.bins) + rng.random(len(x))
        rare = scores.startable(np.argsort(crowd))[: self.among]
        merit = np.full(len(x), -np.inf)
        merit[rare] = out[rare, out[rare].sum(0).argmax()]
        return merit


@checked
class Fast(ByMerit):
    """Frames with a high score in rarely visited cells of another score: exploitation and exploration in one sum.

    Args:
        score: a scalar score, the higher the better.
        among: name of the score whose cells are counted.
        explore: weight of the counts, relative to the score's.
    Source: Zimmerman and Bowman (2015), FAST conformational searches by balancing exploration/exploitation
        trade-offs, eq. 2.
    """

    example = '("x", "z")'
    score: ScoreName
    among: ScoreName
    explore: Finite = 1.0
    bins: Whole = 20
    reason: ClassVar[str] = "its score and its rarity amount to {value:.2f}"

    def merit(self, scores: Scores, rng: np.random.Generator) -> np.ndarray:
        directed = scores.column(self.score)
        return _unit(directed) + self.explore * _unit(-scores.crowd(self.among, self.bins).astype(float))


@checked
class Dbscan(ByMerit):
    """Frames that belong to no cluster, as in DeepDriveMD; of those, the farthest from all clusters first.

    Args:
        score: name of the score.
        neighbours: frames that make a place dense.
        share: so many of the frames, at most, are outliers; the radius follows from it.
        sample: at most so many frames, drawn at random, are clustered.
    Source: Ester et al. (1996), A density-based algorithm for discovering clusters (DBSCAN); Lee et al. (2019),
        DeepDriveMD, arXiv 1909.07817.
    """

    example = '("z")'
    score: ScoreName
    neighbours: Whole = 10
    share: Share = 0.05
    sample: Whole = 4000
    reason: ClassVar[str] = "it is an outlier, {value:.3g} from its neighbours"

    def load(self) -> None:
        import_module("sklearn.cluster")

    def merit(self, scores: Scores, rng: np.random.Generator) -> np.ndarray:
        from sklearn.cluster import DBSCAN
        from sklearn.neighbors import NearestNeighbors

        merit, x = np.full(len(scores), -np.inf), scores.matrix(self.score)
        chosen = subset(scores, self.sample, rng)
        if len(chosen) <= self.neighbours:
            return merit
        distance = NearestNeighbors(n_neighbors=self.neighbours).fit(x[chosen]).kneighbors(x[chosen])[0][:, -1]
        radius = max(float(np.quantile(distance, 1 - self.share)), TINY)
        alone = DBSCAN(eps=radius, min_samples=self.neighbours).fit(x[chosen]).labels_ == -1
        merit[chosen[alone]] = distance[alone]
        return merit


@checked
class Diverse(ByAnother):
    """The best frames of another policy, reordered so that those that are taken one after another lie far apart.

    Args:
        policy: ranks the frames; its first is the first here.
        score: in which distance is measured.
        among: so many of its best are reordered.
    Source: k-center by farthest points, Gonzalez (1985).
    """

    example = '(Highest("x"), "z")'
    policy: Policy
    score: ScoreName
    among: Whole = 64

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        ranking = self.policy.rank(scores, rng)
        best, rest = ranking[: self.among], ranking[self.among :]
        if not best:
            return []
        order = farthest_first(scores.matrix(self.score)[[c.index for c in best]])
        return [replace(best[i], policy=self.name) for i in order] + rest


def farthest_first(points: np.ndarray) -> Sequence[int]:
    """An order of (n, d) points, n >= 1: the first, then always the one farthest from all before it."""
    order, nearest = [0], np.linalg.norm(points - points[0], axis=1)
    while len(order) < len(points):
        nearest[order] = -1
        order.append(int(nearest.argmax()))
        nearest = np.minimum(nearest, np.linalg.norm(points - points[order[-1]], axis=1))
    return order


def _unit(values: np.ndarray) -> np.ndarray:
    """Scaled to 0..1; all 0 where they are equal."""
    return np.asarray((values - values.min()) / max(float(np.ptp(values)), TINY))
