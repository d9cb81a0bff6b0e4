"""Times and values of a few seeds -> medians and intervals, with the seeds that never got there counted as such.

Axes: K seeds, paired: seed k of every arm had the same seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

DRAWS = 2000
LEVEL = 0.95


@dataclass(frozen=True)
class Times:
    """When each seed reached a level, or how long it went on without.

    Args:
        time: (K,) float, when it got there, or where its run ended.
        reached: (K,) bool.
    """

    time: np.ndarray
    reached: np.ndarray

    def of(self, seeds: np.ndarray) -> Times:
        return Times(self.time[seeds], self.reached[seeds])


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval.

    Args:
        at_least: the value is a lower bound, for the runs were too short to say more.
    """

    value: float
    low: float
    high: float
    at_least: bool = False


def survival(times: Times) -> tuple[np.ndarray, np.ndarray]:
    """The share of seeds that are still on their way: the moments at which it falls, and what it falls to.

    Source: Kaplan and Meier (1958), Nonparametric estimation from incomplete observations.
    """
    moments = np.unique(times.time[times.reached])
    waiting = np.array([(times.time >= t).sum() for t in moments])
    arrived = np.array([(times.reached & (times.time == t)).sum() for t in moments])
    return moments, np.cumprod(1 - arrived / np.maximum(waiting, 1))


def median_time(times: Times) -> float:
    """When half of the seeds had got there; infinite when they had not before their runs ended."""
    moments, share = survival(times)
    below = np.flatnonzero(share <= 0.5 + 1e-12)
    return float(moments[below[0]]) if len(below) else np.inf


def speed_up(plain: Times, other: Times, rng: np.random.Generator) -> Interval:
    """How many times sooner the other one got there: ratio of median times, by a paired bootstrap over seeds.

    A median that was not reached lies somewhere behind the end of the runs: the lower bound takes plain's at the end
    and the other's at infinity, the upper bound the other way round.
    """
    draws = rng.integers(len(plain.time), size=(DRAWS, len(plain.time)))
    bounds = np.array([_bounds(plain.of(seeds), other.of(seeds)) for seeds in draws])
    tail, (low, high) = (1 - LEVEL) / 2, _bounds(plain, other)
    lowest = float(np.quantile(bounds[:, 0], tail, method="lower"))
    highest = float(np.quantile(bounds[:, 1], 1 - tail, method="higher"))
    return Interval(low, lowest, highest, at_least=low != high)


def difference(plain: np.ndarray, other: np.ndarray) -> Interval:
    """Mean of other - plain over paired seeds, with Student's interval; both (K,) float.

    Of so few seeds a bootstrap's interval is too narrow: of twelve it holds the truth 86 times in 100.
    """
    pairs = np.asarray(other, float) - np.asarray(plain, float)
    n, mean = len(pairs), float(pairs.mean())
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2) * pairs.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def band(values: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Median over seeds of (K, m) curves, and the 95 % band of it by bootstrap: three of (m,)."""
    drawn = np.median(values[rng.integers(len(values), size=(DRAWS // 10, len(values)))], axis=1)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return np.median(values, axis=0), low, high


def _bounds(plain: Times, other: Times) -> tuple[float, float]:
    """Between which the ratio of the median times lies; both the same where both medians are known."""
    before, after = median_time(plain), median_time(other)
    least = min(before, plain.time.max()) / after if np.isfinite(after) else 0.0
    return least, before / min(after, other.time.max())
