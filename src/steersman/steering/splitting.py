"""Forecasts of what will come of each member -> members split where a rare event is made, days before it is seen.

    rare = Splitting("outcome", window=10, members=64)
    wf.steer(rare)
    print(rare.estimate(scores))  # 0.00071 (95 %: 0.0005 to 0.001), 30 windows of 64 members

A member is simulated for a window of segments, and its outcome counts at the end. A model says of each member, at any
time before, the mean and the spread of its outcome. After each segment those that may have the event are split and
others merged, by the allocation below; their weights make every average that of plain sampling, however wrong the
forecast is: a bad one costs precision, never truth.

The number of copies of a member is in proportion to its weight times the root of E[q'^2], q' being the probability of
the event as it will be forecast after the next segment. The variance of q' in its place is the better one of infinitely
many members only: it culls those whose event is nearly certain, and the few that are left carry nearly all weight.

Source: Ragone, Wouters and Bouchet (2018), Computation of extreme heat waves in climate models using a large deviation
    algorithm; Aristoff and Zuckerman (2020), Optimizing weighted ensemble sampling of steady states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steersman.steering.errors import NoAnswerYet
from steersman.steering.protocols import NEW, Candidate, Policy, ScoreName
from steersman.steering.scores import Scores
from steersman.system.numbers import Finite, Share, Whole, checked

POINT = "point"  # of a new member: a number from 0 to 1, which `start.point(1, seed)` gives
TOO_MUCH = 1 / 3  # of an estimate that comes from one window, or one first member
FEWEST = 2  # windows of an interval
WHOLE = 1e-6  # by which the weights of a window that lost no member may miss 1
LEVEL = 0.95


@dataclass(frozen=True)
class Rarity:
    """How often a member has the event at the end of its window.

    Args:
        probability: unbiased; low, high: of the 95 % interval.
        windows, members: that it is made of; members of one window.
        events: members that had it.
        largest_window: share of the probability that one window gives; largest_member: that one first member gives,
            with all that descend from it.
    """

    probability: float
    low: float
    high: float
    windows: int
    members: int
    events: int
    largest_window: float
    largest_member: float

    @property
    def too_few(self) -> bool:
        """The interval is not to be believed: nearly all of it comes from one window or one first member, or none."""
        return not max(self.largest_window, self.largest_member) <= TOO_MUCH or self.low == self.high

    @property
    def relative_error(self) -> float:
        """Half of the interval of the logarithm, over 1.96; infinite of no event."""
        return math.log(self.high / self.low) / 2 / 1.96 if self.low > 0 else math.inf

    def return_time(self, window: float) -> float:
        """Mean time between two windows with the event, in the unit of a window's length; infinite of no event."""
        return window / self.probability if self.probability else math.inf

    def __str__(self) -> str:
        few = f"; too few: {100 * max(self.largest_window, self.largest_member):.0f} % of it are of one"
        interval = f"{self.probability:.3g} (95 %: {self.low:.3g} to {self.high:.3g})"
        what = f"{interval}, {self.windows} windows of {self.members} members"
        return what + (few if self.too_few and self.events else "; too few: no event" if self.too_few else "")


@checked
class Splitting(Policy):
    """Members of a window, split and merged by a forecast of their outcome: an unbiased probability of a rare event.

    All segments of a round end before the next begins, each is one step of a window. Before there is a forecast, as in
    the first window or while the gate refuses the model, members just go on: that is plain sampling. New members begin
    at `start.point(1, out.seed)`, evenly spread from 0 to 1, of an archive of starts.

    Args:
        outcome: score that counts at the end of a window, a scalar.
        mean, spread: scores with its forecast for each frame: a standard deviation, for the segments that are left.
        above: what the outcome must exceed. Of an event that depends on parameters, let the score stage take it from
            outcome and mean, and leave this at 0.
        window: segments of a member.
        members: their number, always the same.
        defensive: share of the copies that ignore the forecast.
    """

    outcome: ScoreName
    mean: ScoreName = "mean"
    spread: ScoreName = "spread"
    above: Finite = 0.0
    window: Whole = 10
    members: Whole = 64
    defensive: Share = 0.1

    rounds = True
    example = '("x", mean="x", spread="deviation")'

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        """The whole next round: of a new window, or the members of this one, split and merged."""
        newest = int(scores.round.max(initial=0))
        ends = np.flatnonzero(scores.ends & (scores.round == newest) & (scores.weight > 0))
        weight = scores.weight[ends]
        if newest % self.window == 0:
            return self._new(rng, round(float(weight.sum()), 9) if newest else 1.0)
        if self.mean not in scores.values or self.spread not in scores.values:
            return [self._goes_on(int(i), w, w, "there is no forecast yet") for i, w in zip(ends, weight, strict=True)]
        mean, spread = (scores.column(name)[ends] for name in (self.mean, self.spread))
        worth = worths(mean, spread, self._later(scores, newest % self.window, spread), self.above)
        order = (mean - self.above) / np.maximum(spread, TINY)
        members = split(weight, worth, order, self.members, self.defensive, rng)
        chance = probability(mean, spread, self.above)
        return [
            self._goes_on(int(ends[i]), w, weight[i], f"the event comes with probability {chance[i]:.2g}")
            for i, w in members
        ]

    def warning(self, scores: Scores) -> str:
        """Said at the beginning of each window that is plain sampling, but the first."""
        newest = int(scores.round.max(initial=0))
        if newest % self.window or not newest or self.mean in scores.values:
            return ""
        return f"window {newest // self.window + 1} is plain sampling: there is no forecast {self.mean!r} yet"

    def estimate(self, scores: Scores, above: float | None = None) -> Rarity:
        """The probability of the event, from all windows that are over and lost no member; without those before the
        first forecast, once two others are, for plain sampling seldom meets the event.

        Args:
            above: another threshold than the policy's.
        Raises: NoAnswerYet: fewer than two windows are over, or their outcomes have no scores yet.
        """
        over = np.flatnonzero(scores.ends & (scores.round > 0) & (scores.round % self.window == 0))
        total = np.bincount(scores.round[over], scores.weight[over])
        over = over[np.abs(total[scores.round[over]] - 1) < WHOLE]
        over, windows = self._steered(over, scores.round[over] // self.window, scores.weight[over])
        if len(np.unique(windows)) < FEWEST or self.outcome not in scores.values:
            raise NoAnswerYet(f"{len(np.unique(windows))} windows are over and scored", f"{FEWEST} of them")
        beyond = scores.column(self.outcome)[over] > (self.above if above is None else above)
        counted = scores.weight[over] * beyond
        of_window = np.bincount(np.unique(windows, return_inverse=True)[1], weights=counted)
        of_member = np.bincount(np.unique(scores.root[over], return_inverse=True)[1], weights=counted)
        value, (low, high) = float(of_window.mean()), interval(of_window)
        shares = [float(each.max() / each.sum()) if beyond.any() else math.nan for each in (of_window, of_member)]
        return Rarity(value, low, high, len(of_window), self.members, int(beyond.sum()), *shares)

    def curve(self, scores: Scores, levels: int = 40) -> dict[float, Rarity]:
        """What `estimate` says of thresholds, from the median of all outcomes to the largest one, and of `above`.

        Raises: NoAnswerYet: see `estimate`.
        """
        of = {self.above: self.estimate(scores)}
        outcomes = scores.column(self.outcome)[scores.ends & (scores.age == self.window)]
        above = np.linspace(np.median(outcomes), outcomes.max(), levels, endpoint=False).tolist()
        return dict(sorted((of | {at: self.estimate(scores, at) for at in above}).items()))

    @staticmethod
    def _steered(over: np.ndarray, windows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ends and their windows after the first one of unequal weights: before, there was no forecast to split by.

        That one is left out, too, but no later one of equal weights: to choose by weights is to choose by what came.
        """
        uneven = (each for each in np.unique(windows) if np.ptp(weight[windows == each]) > 0)
        kept = windows > next(uneven, windows.max(initial=0))
        if len(np.unique(windows[kept])) < FEWEST:
            kept[:] = True
        return over[kept], windows[kept]

    def _new(self, rng: np.random.Generator, total: float) -> list[Candidate]:
        """Args: total: what the members of the window before weigh together: no window begins where some are lost."""
        weight = total / self.members
        points = (np.arange(self.members) + rng.random()) * (1 / self.members)
        why = f"begins a window of {self.window} segments with weight {weight:.3g}"
        return [Candidate(NEW, self.name, weight, why, draw={POINT: [p]}, weight=weight) for p in points.tolist()]

    def _goes_on(self, i: int, weight: float, before: float, why: str) -> Candidate:
        what = "split" if weight < before else "merged" if weight > before else "kept"
        reason = f"goes on with weight {weight:.3g}, {what} from {before:.3g}: {why}"
        return Candidate(i, self.name, float(weight), reason, exact=True, weight=float(weight))

    def _later(self, scores: Scores, age: int, spread: np.ndarray) -> np.ndarray:
        """(m,) the spread of the forecasts after the next segment: the usual one of members that old; 0 at the end."""
        left = self.window - age
        older = scores.ends & (scores.round > 0) & (scores.round % self.window == age + 1)
        if left == 1:
            return np.zeros_like(spread)
        later = np.median(scores.column(self.spread)[older]) if older.any() else np.inf
        return np.minimum(later, spread * math.sqrt((left - 1) / left))


TINY = 1e-300


def probability(mean: np.ndarray, spread: np.ndarray, above: float) -> np.ndarray:
    """(n,) of a normal distribution to lie above a number."""
    from scipy.special import ndtr  # importing it takes long, and every process of a campaign imports this file

    return np.asarray(ndtr((mean - above) / np.maximum(spread, TINY)))


def worths(mean: np.ndarray, spread: np.ndarray, later: np.ndarray, above: float) -> np.ndarray:
    """The root of E[q'^2], q' being the probability of the event by the forecast after the next segment.

    The mean of that forecast is spread about the one of today so that both agree, by sqrt(spread^2 - later^2). So
    E[q'^2] is the probability that two draws, normal with this mean and spread and of a correlation that this makes,
    both lie above: by Owen's T function.

    Args:
        mean, spread: (n,) of today's forecasts; later: (n,) the spread of the next ones.
    Source: Owen (1956), Tables for computing bivariate normal probabilities.
    """
    from scipy.special import ndtr, owens_t

    spread = np.maximum(spread, TINY)
    h, kept = (mean - above) / spread, np.minimum(later / spread, 1.0) ** 2  # 1 - correlation
    both = ndtr(h) - 2 * owens_t(h, np.sqrt(kept / (2 - kept)))
    return np.asarray(np.sqrt(np.maximum(both, ndtr(h) ** 2)))


def split(
    weight: np.ndarray, worth: np.ndarray, order: np.ndarray, members: int, defensive: float, rng: np.random.Generator
) -> list[tuple[int, float]]:
    """Share the weights of some members out among a number of copies, in proportion to weight times worth.

    Args:
        weight, worth, order: (n,), weights > 0.
        defensive: share of the copies that goes by weights alone.
    Returns: as of `drawn_along`.
    """
    wanted, share = weight * worth, weight / weight.sum()
    if wanted.sum() > 0:
        share = (1 - defensive) * wanted / wanted.sum() + defensive * share
    return drawn_along(order, share, weight, members, rng)


def drawn_along(
    order: np.ndarray, share: np.ndarray, weight: np.ndarray, members: int, rng: np.random.Generator
) -> list[tuple[int, float]]:
    """Share the weights of some members out among a number of copies.

    Sorted by `order`, each member takes a stretch of a line in proportion to its share; the line is cut into equal
    parts. A part gives its whole weight to one of those that it is of, drawn in proportion to the weight that each has
    in it, all parts by one random number. So weights keep their sum, and no average changes in expectation.

    Args:
        order, share, weight: (n,), shares >= 0, weights > 0.
    Returns: (which member goes on, its weight) for each copy.
    """
    at = np.argsort(order, kind="stable")
    line, held = (np.concatenate([[0.0], np.cumsum(each[at])]) for each in (share, weight))
    cuts = np.interp(np.arange(members + 1) / members * line[-1], line, held)
    cuts[0], cuts[-1] = 0.0, held[-1]  # also where the first or last one takes no stretch
    of_part = np.diff(cuts)
    drawn = np.searchsorted(held, cuts[:-1] + rng.random() * of_part, side="right") - 1
    return [(int(at[min(i, len(at) - 1)]), float(w)) for i, w in zip(drawn, of_part, strict=True) if w > 0]


def interval(values: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the mean of independent windows, none negative: that of its logarithm, for they are skewed.

    Args:
        values: (windows,) the probability by each.
    """
    from scipy.special import stdtrit

    mean, count = float(values.mean()), len(values)
    if not mean:
        return 0.0, 1.0
    half = stdtrit((count - 1) / 2, (1 + LEVEL) / 2) * values.std(ddof=1) / math.sqrt(count) / mean
    return mean * math.exp(-half), min(mean * math.exp(half), 1.0)
