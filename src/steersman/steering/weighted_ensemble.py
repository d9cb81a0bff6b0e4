"""Scores of a round -> the members of the next one, split and merged in bins, their weights exact; and what follows.

    wf.steer(WeightedEnsemble("distance", edges=(0.4, 0.8, 1.6), members=4, target="there"))
    wf.steer(WeightedEnsemble(chance="chance", members=100, target="there"))

A member is one segment with a weight. The weights of a round sum to 1. A split shares a weight out among copies, which
go on with different random numbers; a merge gives the weight of two members to one of them, drawn in proportion to
their weights. Neither changes an average in expectation, so averages over the weighted frames are those of plain
sampling, and events that are rare in plain sampling are seen often, with small weights.

A model that knows the probability to come to the target (`models.Committor`) needs no bins. The number of copies of a
member is in proportion to its weight times this probability, so that they are spread evenly over the barrier. A tenth
of the copies is spread evenly along the log odds, and until some members have arrived most are.

Source: Huber and Kim (1996), Weighted-ensemble Brownian dynamics; Zhang, Jasnow and Zuckerman (2010), for any
stochastic dynamics and any bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from steersman.steering.errors import NoAnswerYet
from steersman.steering.protocols import NEW, Candidate, Policy
from steersman.steering.scores import Scores
from steersman.steering.splitting import drawn_along
from steersman.system.numbers import Finite, Whole, checked

EVEN = 2.0  # a member weighs at most so many times the mean of its bin
SHARES = 0.8, 0.1, 0.1  # of copies by weight and chance, evenly along the log odds, by weight alone
EXPLORING = 0.0, 0.9, 0.1  # while few have arrived: a model that has not seen the way knows no probabilities
ENOUGH = 300  # frames in the target
NO_CHANCE = 1e-9  # below it members are alike
STEP = 1.0  # of log odds, from the members of the least chance to those of none
ROUNDING = 1e-6  # beyond 0 and 1
FEWEST = 10  # rounds of an average
MEMORY = 2.5  # assumed ratio of the decay of the autocorrelation to its sum: more is less bias, and wider intervals
LEVEL = 0.95


@checked
class WeightedEnsemble(Policy):
    """All ends of a round, split and merged: members with weights, whose averages are those of plain sampling.

    All segments of a round end before the next begins. They should simulate the same time, and be random: from equal
    starts, unequal seeds must lead to unequal ends.

    Args:
        score: which bin a member is in: a scalar that `edges` cut into bins, or, without edges, the number of the bin.
        edges: ascending bounds between bins.
        members: in each occupied bin; with `chance` all of them.
        chance: instead of `score`, the probability to come to the target before the beginning, 0 there.
        target: score that is true where a member has arrived. It goes back to the prepared start with its weight, so
            that the weight that arrives in a round becomes the rate; "": members never go back.
    Raises: ValueError: no members, edges that do not ascend, both or neither of `score` and `chance`, or a chance with
        edges or without a target.
    Source: Huber and Kim (1996), Weighted-ensemble Brownian dynamics simulations for protein association reactions.
    """

    score: str = ""
    edges: tuple[Finite, ...] = ()
    members: Whole = 4
    target: str = ""
    chance: str = ""

    rounds = True

    def __post_init__(self) -> None:
        if np.ndim(self.edges) != 1 or (np.diff(self.edges) <= 0).any():
            raise ValueError(f"WeightedEnsemble(edges={self.edges!r:.60}): give a tuple of numbers that ascend")
        if bool(self.score) == bool(self.chance):
            raise ValueError(f"WeightedEnsemble(score={self.score!r}, chance={self.chance!r}): give one of them")
        if self.chance and (self.edges or not self.target):
            raise ValueError("WeightedEnsemble(chance=): give it a target, and no edges")

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.score or self.chance, self.target)))

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        """The whole next round. Before there are scores that tell bins all members go on, but those that arrived."""
        if not (scores.round > 0).any():
            return self._prepared(1.0, self.members)
        ends = np.flatnonzero(scores.ends & (scores.round == scores.round.max()) & (scores.weight > 0))
        back = self._arrived(scores, ends) if self.target in scores.values else np.zeros(len(ends), bool)
        ranked = self._prepared(float(scores.weight[ends[back]].sum()), 1) if back.any() else []
        ends = ends[~back]
        if self.needs[0] not in scores.values:
            return ranked + [self._goes_on(scores, int(i), scores.weight[i], "it has no score yet") for i in ends]
        if self.chance:
            return ranked + self._by_chance(scores, ends, rng)
        bins = self.bins(scores)[ends]
        for label in np.unique(bins):
            mine = ends[bins == label]
            kept = resample(scores.weight[mine].tolist(), self.members, rng)
            ranked += [self._goes_on(scores, mine[i], weight, f"in bin {label}") for i, weight in kept]
        return ranked

    def _by_chance(self, scores: Scores, ends: np.ndarray, rng: np.random.Generator) -> list[Candidate]:
        chance, weight = np.clip(given := scores.column(self.chance)[ends], 0, 1), scores.weight[ends]
        if len(odd := given[abs(given - chance) > ROUNDING]):
            raise ValueError(f"the chance {self.chance!r} is {odd[0]:g} of a frame; return a probability for each")
        odds = np.log((chance + NO_CHANCE) / (1 - chance + NO_CHANCE))
        if (none := chance == 0).any() and not none.all():
            odds[none] = odds[~none].min() - STEP  # else the edge of the beginning would get most copies
        at = np.argsort(odds, kind="stable")
        length = np.empty(len(at))
        length[at] = np.gradient(odds[at]) if len(at) > 1 else 1.0
        shares = [
            each / each.sum() if each.any() else weight / weight.sum() for each in (weight * chance, length, weight)
        ]
        arrived = (self._there(scores) & (scores.weight > 0)).sum() if self.target in scores.values else 0
        share = np.average(shares, axis=0, weights=SHARES if arrived >= ENOUGH else EXPLORING)
        members = drawn_along(odds, share, weight, self.members, rng)
        return [self._goes_on(scores, int(ends[i]), w, f"of chance {chance[i]:.2g}") for i, w in members]

    def warning(self, scores: Scores) -> str:
        """Said after the first round: nobody can go back yet, or all do at once from a start that is in the target."""
        if not self.target or scores.round.max(initial=0) != 1:
            return ""
        if self.target not in scores.values:
            return (
                f"frames have no score {self.target!r} yet, so that members stay in the target; `arrivals` leaves such "
                "rounds out. If it needs no model, return it from @wf.score(early=True)"
            )
        first = np.lexsort((scores.row, scores.segment, scores.walker))
        first = first[np.unique(_keys(np.stack([scores.walker, scores.segment], axis=1)[first]), return_index=True)[1]]
        if not self._there(scores)[first].all():
            return ""
        return (
            f"every member is in the target {self.target!r} at its first frame: the prepared start lies in it, and no "
            "passage can be seen; choose another start or target"
        )

    def bins(self, scores: Scores) -> np.ndarray:
        """(n,) int: the bin of each frame."""
        value = scores.column(self.score)
        return np.asarray(np.digitize(value, self.edges) if self.edges else np.rint(value), np.int64)

    def _arrived(self, scores: Scores, ends: np.ndarray) -> np.ndarray:
        """Which of the members that end at `ends` were in the target, at any of their frames."""
        there = np.flatnonzero(self._there(scores) & (scores.round == scores.round.max()))
        segment = np.stack([scores.walker, scores.segment], axis=1)
        return np.isin(_keys(segment[ends]), _keys(segment[there]))

    def _there(self, scores: Scores) -> np.ndarray:
        """(n,) bool: whether each frame is in the target. Raises: ValueError: its score says neither yes nor no."""
        value = scores.column(self.target)
        if len(odd := value[(value != 0) & (value != 1)]):
            raise ValueError(f"the target {self.target!r} is {odd[0]:g} of a frame; return True or False for each")
        return value > 0

    def _prepared(self, weight: float, members: int) -> list[Candidate]:
        why = f"begins at the prepared start with weight {weight / members:.3g}"
        return [Candidate(NEW, self.name, weight / members, why, weight=weight / members) for _ in range(members)]

    def _goes_on(self, scores: Scores, i: int, weight: float, why: str) -> Candidate:
        before, weight = float(scores.weight[i]), float(weight)
        what = "split" if weight < before else "merged" if weight > before else "kept"
        reason = f"goes on with weight {weight:.3g}, {what} from {before:.3g} {why}"
        return Candidate(int(i), self.name, weight, reason, exact=True, weight=weight)


def resample(weights: Sequence[float], members: int, rng: np.random.Generator) -> list[tuple[int, float]]:
    """Split and merge the members of one bin until there are so many, none much heavier than the others.

    Args:
        weights: of the members there are, > 0.
    Returns: (which of them goes on, its weight) for each of the new members; the weights have the same sum.
    """
    kept = sorted((weight, i) for i, weight in enumerate(weights))
    most = EVEN * sum(weights) / members * (1 + 1e-9)
    while len(kept) != members or kept[-1][0] > most:
        if len(kept) > members:
            (a, i), (b, j), *kept = kept
            kept.append((a + b, i if rng.random() * (a + b) < a else j))
        else:
            heaviest, i = kept.pop()
            kept += [(heaviest / 2, i)] * 2
        kept.sort()
    return sorted((i, weight) for weight, i in kept)


class Mean(NamedTuple):
    """A mean over rounds with its 95 % interval."""

    value: float
    low: float
    high: float


def mean_of_rounds(values: np.ndarray, skip: float = 0.5) -> Mean:
    """Average over rounds, and its interval.

    Where no round is negative, the interval is that of the logarithm: the error of a weight grows with it. Of what was
    in no round, as a state that nobody came to, the interval has no upper end.

    Args:
        values: (rounds,) float.
        skip: share of the rounds that is left out at the beginning, where the ensemble still knows where it began.
    Raises: NoAnswerYet: fewer than 10 rounds are left.
    """
    kept = np.asarray(values, float)[int(skip * len(values)) :]
    if len(kept) < FEWEST:
        raise NoAnswerYet(
            f"{len(values)} round{'s are' if len(values) != 1 else ' is'} too few",
            f"{FEWEST} after the first {100 * skip:.0f} % of them",
        )
    value, half = float(kept.mean()), half_width(kept)
    if not kept.any():
        return Mean(0.0, 0.0, np.inf)
    if not half:
        return Mean(value, value, value)
    if kept.min() < 0:
        return Mean(value, value - half, value + half)
    factor = float(np.exp(half / value))
    return Mean(value, value / factor, value * factor)


def half_width(series: np.ndarray) -> float:
    """Half of the 95 % interval of the mean of a series by its autocorrelation (the Gamma method); 0 of a constant.

    The autocorrelation is summed up to the window that makes its error smallest. Student's interval has half as many
    degrees of freedom as there are windows in the series: a whole one each is for Gaussian rounds, and weights are
    skewed.

    Source: Wolff (2004), Monte Carlo errors with less errors.
    """
    from scipy.special import stdtrit  # it takes 0.25 s, and every process of a campaign imports this file

    count = len(series)
    covariance = np.fft.irfft(np.abs(np.fft.rfft(series - series.mean(), 2 * count)) ** 2)[: count // 2] / count
    if not covariance[0]:
        return 0.0
    time = np.maximum(0.5 + np.cumsum(covariance[1:] / covariance[0]), 0.5 + 1e-9)  # of memory: 0.5 is none
    window = np.arange(1, len(time) + 1)
    decay = MEMORY / np.log((2 * time + 1) / (2 * time - 1))
    enough = np.exp(-window / decay) < decay / np.sqrt(window * count)
    at = int(enough.argmax()) if enough.any() else len(time) - 1
    windows = count / (2 * window[at] + 1)
    error = np.sqrt(2 * time[at] * covariance[0] / count * (1 + 1 / windows))
    return float(stdtrit(max(windows / 2, 1.0), (1 + LEVEL) / 2) * error)


def averages(scores: Scores, value: np.ndarray) -> np.ndarray:
    """(rounds,) float: the weighted average of a value over the frames of each round.

    Args:
        value: (n,) float, of each frame; 1.0 in a state and 0.0 elsewhere gives its population.
    Raises: ValueError: no frame has a weight, or there are not as many values as frames.
    """
    _check(scores, value)
    total, weight = (np.bincount(scores.round, weights=each)[1:] for each in (scores.weight * value, scores.weight))
    return np.asarray(total / np.maximum(weight, np.finfo(float).tiny))


def arrivals(scores: Scores, there: np.ndarray) -> np.ndarray:
    """Sum up who came to a target in each round.

    Rounds in which a member begins that had arrived before are left out, and those before them: until the target is
    known nobody goes back, and one passage would count in each round.

    Args:
        there: (n,) bool, whether a frame is in the target; that of the policy.
    Returns: (2, rounds) float: the weight of members that arrived, and the weight times the share of the round that was
        left when they did; of a round of which members were lost, by the weight of those that are left.
    Raises: ValueError: no frame has a weight, or `there` is not as long as the frames are many.
    """
    _check(scores, there)
    order = np.lexsort((scores.row, scores.walker))
    order = order[scores.weight[order] > 0]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(scores.walker[order]) != 0) | (np.diff(scores.segment[order]) != 0)
    first = np.flatnonzero(fresh)
    frames = np.diff(np.append(first, len(order)))
    member = np.repeat(np.arange(len(first)), frames)
    place = np.arange(len(order)) - first[member]
    hit = np.full(len(first), -1)
    inside = np.flatnonzero(np.asarray(there, bool)[order])[::-1]
    hit[member[inside]] = place[inside]  # the first one, for the last assignment counts
    number, left = scores.round[order[first]], (frames - 1 - hit) / frames
    weight = scores.weight[order[first]] / np.bincount(number, weights=scores.weight[order[first]])[number] * (hit >= 0)
    stayed = (hit >= 0) & (scores.starts[order[first + frames - 1]] > 0)
    known = 2 + number[stayed].max(initial=-1)
    return np.stack([np.bincount(number, weights=each)[known:] for each in (weight, weight * left)])


def passage(arrived: np.ndarray, skip: float = 0.5) -> Mean:
    """The mean first passage time from the prepared start to a target, in rounds; infinite when nobody arrived.

    A member that arrives begins anew in the next round, so one passage and what is left of its last round take
    1 / rate rounds on average, the rate being the weight that arrives in a round.

    Args:
        arrived: (2, rounds), see `arrivals`.
        skip: see `mean_of_rounds`.
    Raises: NoAnswerYet: too few rounds.
    Source: Hill (1989), Free energy transduction and biochemical cycle kinetics.
    """
    rate = mean_of_rounds(arrived[0], skip)
    if not rate.value:
        return Mean(np.inf, 0.0, np.inf)
    kept = arrived[:, int(skip * arrived.shape[1]) :].sum(axis=1)
    rest = float(kept[1] / kept[0])
    return Mean(1 / rate.value - rest, 1 / rate.high - rest, 1 / rate.low - rest)


def _check(scores: Scores, value: np.ndarray) -> None:
    if not scores.weight.any():
        raise ValueError("no frame has a weight: those of a run with WeightedEnsemble have")
    if np.shape(value) != (len(scores),):
        raise ValueError(f"values of shape {np.shape(value)} for {len(scores):,} frames; give one number for each")


def _keys(pairs: np.ndarray) -> np.ndarray:
    return np.asarray(pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1])
