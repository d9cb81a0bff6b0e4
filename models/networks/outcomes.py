"""Rows and what came of them -> a ridge regression for each time left, and how right what was said of them is.

Axes: n rows, L times left, K numbers that the regression sees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from steersman.models.errors import real
from steersman.system.errors import BadValue

MOST, FEWEST = 16, 20  # times left that have a regression each, and rows that one takes
FOLDS = 4  # parts of the first members, each held out once; the first one judges the network
PENALTIES = 10.0 ** np.arange(-5, 2)  # over the mean variance of the inputs
PRIOR = 50.0  # rows that change a calibration by half of what they say
FARTHEST = 2.5  # deviations of the mean up to which the spread changes with it
SMALLEST = 1e-3  # spread, over that of the outcome
LEAST = 2.0**-53  # share of the weight beyond an outcome: with 0 its normal score would be infinite
KNOTS = 256  # of the curve from outcomes to their normal scores
CALIBRATION = 7  # numbers for each time left, see `calibrated`
UNKNOWN = np.array([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])  # of no rows


@dataclass(frozen=True)
class Outcomes:
    """What came of n rows.

    Args:
        outcome, weights: (n,) float64.
        times, hats: (L,) times left that have a regression, and (n, L) how near each row is to each, see `hats_of`.
        groups, folds: (n,) int, the first member of each, and the part in which it is held out.
    """

    outcome: np.ndarray
    weights: np.ndarray
    times: np.ndarray
    hats: np.ndarray
    groups: np.ndarray
    folds: np.ndarray

    @classmethod
    def of(cls, shape: tuple[int, ...], outcome: Any, lead: Any, weights: Any, groups: Any, seed: int) -> Outcomes:
        """Raises: BadValue: there are none, they do not fit, or are not finite."""
        count = shape[0] if shape else 0
        weights = np.ones(count) if weights is None else weights
        groups = np.arange(count) if groups is None else np.asarray(groups)
        for name, values in (("outcome", outcome), ("lead", lead), ("weights", weights), ("groups", groups)):
            if not shape or np.shape(values) != (count,):
                raise BadValue("shape", shape, f"{name}, {np.shape(values)}, is to be one for each row")
        y, lead, weights = (finite(n, v) for n, v in (("outcome", outcome), ("lead", lead), ("weights", weights)))
        if count and (weights.min() < 0 or not weights.sum()):
            raise BadValue("weights", float(weights.min()), "give 0 or more, and not 0 to all")
        times = times_of(lead) if count else np.zeros(1)
        number = np.unique(groups, return_inverse=True)[1]
        weights = weights / (weights.sum() / max(count, 1) or 1.0)
        return cls(y, weights, times, hats_of(lead, times), number, folds_of(number, seed))

    @property
    def held(self) -> np.ndarray:
        """(n,) bool: the first part."""
        return np.asarray(self.folds == 0)

    @property
    def enough(self) -> bool:
        """Whether there is something to learn, and something to judge it by."""
        several = len(np.unique(self.groups)) >= FOLDS
        return several and self.effective(self.weights) >= FEWEST and self.deviation > 0

    @property
    def deviation(self) -> float:
        centre = self.outcome - self.outcome[0]  # of equal numbers exactly 0
        mean = np.average(centre, weights=self.weights)
        return math.sqrt(np.average((centre - mean) ** 2, weights=self.weights))

    def curve(self) -> np.ndarray:
        """(2, KNOTS) outcomes that ascend, and their normal scores."""
        x, number = np.unique(self.outcome[self.weights > 0], return_inverse=True)
        weight = np.bincount(number, self.weights[self.weights > 0])
        share = np.clip((np.cumsum(weight) - weight / 2) / weight.sum(), LEAST, 1 - LEAST)
        z = torch.special.ndtri(torch.from_numpy(share)).numpy()
        return np.stack([x, z])[:, np.searchsorted(z, np.linspace(z[0], z[-1], KNOTS))]

    def mean(self, values: np.ndarray) -> float:
        return round(float(np.average(values, weights=self.weights)), 4)

    def only(self, chosen: np.ndarray) -> Outcomes:
        fields = ("outcome", "weights", "hats", "groups", "folds")
        return replace(self, **{name: getattr(self, name)[chosen] for name in fields})

    def near(self, at: int) -> np.ndarray:
        """(n,) weights of rows at a time left, whose sum is the number of rows that would say as much if all counted
        alike."""
        weights = self.weights * self.hats[:, at]
        return np.asarray(weights * (self.effective(weights) / (weights.sum() or 1.0)))

    @staticmethod
    def effective(weights: np.ndarray) -> float:
        return float(weights.sum() ** 2 / ((weights**2).sum() or 1.0))

    def each(self) -> Iterator[np.ndarray]:
        return (self.near(at) for at in range(len(self.times)))

    def constant(self) -> np.ndarray:
        mean = np.average(self.outcome, weights=self.weights)
        size = math.log(self.deviation or np.finfo(float).tiny)
        return np.tile([mean, 0.0, 0.0, 1.0, size, 0.0, 0.0], (len(self.times), 1))

    def sizes(self, errors: np.ndarray) -> np.ndarray:
        """(L,) root mean squares of errors (n,)."""
        squares = [(near @ errors**2) / (near.sum() or 1.0) for near in self.each()]
        return np.asarray(np.maximum(np.sqrt(squares), SMALLEST * self.deviation))

    def shares(self, added: np.ndarray, left: np.ndarray) -> np.ndarray:
        """(L,) 0 to 1: how much of what a network adds is worth adding to what is left, (n,) both."""
        below = []
        for near in self.each():
            worth = near @ added**2 * (1 + PRIOR / max(near.sum(), 1.0))
            below.append(near @ (added * left) / worth if worth else 0.0)
        return np.asarray(np.clip(self.smoothed(np.array(below)), 0.0, 1.0))

    def smoothed(self, values: np.ndarray) -> np.ndarray:
        """Numbers (L, ...) of times left, where there are few rows with those of the neighbours."""
        rows = np.array([near.sum() for near in self.each()])
        nearness = np.abs(np.subtract.outer(np.arange(len(rows)), np.arange(len(rows)))) == 1
        shares = np.eye(len(rows)) + nearness * (PRIOR / (PRIOR + rows))[:, None]
        shares = shares * np.maximum(rows, 1e-9)
        return np.asarray(np.tensordot(shares / shares.sum(1, keepdims=True), values, 1))

    def calibrated(self, said: np.ndarray, base: np.ndarray) -> np.ndarray:
        """(L, 7), see `calibrated`, from what was said of rows that it was not learned from."""
        fits, places = [], []
        for near, size in zip(self.each(), base, strict=True):
            total = near.sum() or 1.0
            centre = near @ said / total
            deviation = math.sqrt(near @ (said - centre) ** 2 / total) or 1.0
            u = np.clip((said - centre) / deviation, -FARTHEST, FARTHEST)
            wrong = (self.outcome - said) / size
            line = np.stack([np.ones_like(u), (said - centre) / deviation], 1)
            moved = np.linalg.solve((line.T * near) @ line + np.diag([1e-9, PRIOR]), line.T @ (near * wrong))
            fits.append([*moved, *_log_spread(wrong - line @ moved, u, near)])
            places.append((centre, deviation))
        shift, slope_of_mean, size, slope, bend = self.smoothed(np.array(fits)).T
        centre, deviation = np.array(places).T
        gain = np.maximum(1 + slope_of_mean * base / deviation, 0.0)
        moved = centre + shift * base - gain * centre
        return np.stack([moved, gain, centre, deviation, np.log(base) + size, slope, bend], 1)

    def log_likelihood(self, said: np.ndarray, calibration: np.ndarray) -> np.ndarray:
        mean, spread = calibrated(said, self.hats @ calibration)
        squares = ((self.outcome - mean) / spread) ** 2
        return np.asarray(-np.log(spread) - 0.5 * squares - 0.5 * math.log(2 * math.pi))

    def r2(self, said: np.ndarray, at: int) -> float:
        near = self.near(at)
        mean = near @ self.outcome / (near.sum() or 1.0)
        return round(
            1 - float(near @ (self.outcome - said) ** 2) / (float(near @ (self.outcome - mean) ** 2) or 1.0), 4
        )


def regressed(seen: np.ndarray, rows: Outcomes) -> tuple[np.ndarray, np.ndarray]:
    """Ridge regression for each time left, with the penalty under which first members that it has not seen fare best.

    Args:
        seen: (n, K) float64, the last of which is 1.
    Returns: (L, K), and what it says of each row (n,) when its first member is held out.
    """
    planes, unseen, errors = [], [], []
    for at in range(len(rows.times)):
        mine = np.flatnonzero(rows.hats[:, at])
        x, y, weight, fold = seen[mine], rows.outcome[mine], rows.near(at)[mine], rows.folds[mine]
        middle = weight @ y / (weight.sum() or 1.0)
        parts = [(x[fold == f].T * weight[fold == f], x[fold == f], y[fold == f] - middle) for f in range(FOLDS)]
        squares = [(wx @ each, wx @ left) for wx, each, left in parts]
        square, product = (sum(each) for each in zip(*squares, strict=True))
        said = np.empty((len(mine), len(PENALTIES)))
        for f, (own_square, own_product) in enumerate(squares):
            said[fold == f] = parts[f][1] @ _solved(square - own_square, product - own_product) + middle
        planes.append((_solved(square, product), middle))
        unseen.append((mine, said))
        errors.append(weight @ (said - y[:, None]) ** 2 / (weight @ (y - middle) ** 2 or 1.0))
    best = rows.smoothed(np.array(errors)).argmin(1)
    ridge = np.zeros(len(seen))
    for at, (mine, said) in enumerate(unseen):
        ridge[mine] += rows.hats[mine, at] * said[:, best[at]]
    coefficients = np.stack([solved[:, best[at]] for at, (solved, _) in enumerate(planes)])
    coefficients[:, -1] += [middle for _, middle in planes]
    return coefficients, ridge


def _solved(square: np.ndarray, product: np.ndarray) -> np.ndarray:
    """(K, penalties): the last coefficient, that of 1, is hardly punished."""
    size = np.trace(square[:-1, :-1]) / max(len(square) - 1, 1) or 1.0
    shrunk = np.append(np.ones(len(square) - 1), 1e-6)
    matrices = torch.from_numpy(square + np.stack([np.diag(each * size * shrunk) for each in PENALTIES]))
    right = torch.from_numpy(product)[:, None].expand(len(PENALTIES), -1, 1)
    return torch.cholesky_solve(right, torch.linalg.cholesky(matrices))[..., 0].T.numpy()


def _log_spread(wrong: np.ndarray, u: np.ndarray, near: np.ndarray) -> np.ndarray:
    """(3,) of the spread exp(size + slope u + bend u^2) that makes errors (n,) likeliest, by Fisher's scoring.

    As far as rows are many it is that of errors above 0, which may lie farther: rare events are there.
    """
    terms, total = np.stack([np.ones_like(u), u, u**2], 1), near.sum() or 1.0
    size = np.array([0.5 * math.log(max(near @ wrong**2 / total, 1e-12)), 0.0, 0.0])
    prior = np.diag([1e-9, PRIOR, PRIOR])
    for _ in range(12):
        ratio = wrong**2 * np.exp(-2 * np.clip(terms @ size, -15, 15))
        step = terms.T @ (near * (ratio - 1)) - prior @ size
        size = size + np.clip(np.linalg.solve(2 * (terms.T * near) @ terms + prior, step), -1, 1)
    above = near * (wrong > 0)
    squares = above @ (wrong**2 * np.exp(-2 * np.clip(terms @ size, -15, 15)))
    size[0] += 0.5 * math.log(max(squares, 1e-12) / (above.sum() or 1.0)) * total / (total + PRIOR)
    return size


def calibrated(said: np.ndarray, calibration: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread, (n,) each, of what was said of rows and the calibration of each, (n, 7).

    The mean is `shift` + `gain` x, the spread exp(`size` + `slope` u + `bend` u^2), where u is how many `deviation`s x
    lies above the `centre`: tails of a flow are lighter than those of a normal distribution.
    """
    shift, gain, centre, deviation, size, slope, bend = calibration.T
    u = np.clip((said - centre) / deviation, -FARTHEST, FARTHEST)
    return shift + gain * said, np.exp(size + slope * u + bend * u**2)


def hats_of(lead: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(n, L) how near times left (n,) are to those of the regressions (L,), which ascend; the two nearest sum to 1."""
    place = np.interp(lead, times, np.arange(len(times)))
    return np.asarray(np.maximum(0.0, 1 - np.abs(place[:, None] - np.arange(len(times)))))


def times_of(lead: np.ndarray) -> np.ndarray:
    """(L,) ascending: all times left, if they are few and of many rows each, else some with as many rows between."""
    times, counts = np.unique(lead, return_counts=True)
    if len(times) <= MOST and counts.min() >= FEWEST:
        return times
    some = np.linspace(0, 1, int(np.clip(len(lead) // FEWEST, 1, MOST)))
    return np.asarray(np.unique(np.quantile(lead, some, method="nearest")))


def folds_of(groups: np.ndarray, seed: int) -> np.ndarray:
    """(n,) int, 0 to FOLDS - 1: the part of each row, the same for rows of one group (n,) int."""
    sizes = np.bincount(groups)
    part, filled = np.zeros(len(sizes), int), np.zeros(FOLDS, int)
    for group in np.random.default_rng(seed % 2**63).permutation(len(sizes)).tolist():
        part[group] = filled.argmin()
        filled[part[group]] += sizes[group]
    return np.asarray(part[groups])


def finite(name: str, values: Any) -> np.ndarray:
    """Raises: BadValue: complex numbers, or not finite."""
    numbers = np.asarray(real(np.asarray(values)))
    if numbers.dtype.kind not in "biuf" or not np.isfinite(numbers).all():
        raise BadValue("shape", numbers.shape, f"{name} are to be finite numbers")
    return numbers if name == "inputs" else numbers.astype(float)
