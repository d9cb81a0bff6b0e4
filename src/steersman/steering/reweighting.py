"""Frames of biased segments -> what each counts in equilibrium: averages and free energies of the unbiased system.

Every version of a bias is a frozen function. So the frames of all versions are one sample of a mixture that is known
but for one number per version, its normalisation, and MBAR finds these. A frame counts the inverse of the mixture's
density: a function of where it lies, whichever version it was simulated under.

Axes: k versions, n frames, m of them that count. Energies in kT.
Source: Shirts and Chodera (2008), Statistically optimal analysis of samples from multiple equilibrium states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from steersman.steering.errors import NoAnswerYet
from steersman.steering.weighted_ensemble import FEWEST, Mean, half_width

MOST_STEPS, LONGEST_STEP, TOLERANCE = 200, 2.0, 1e-7
SAMPLE = 20_000  # frames that the normalisations are found from, evenly chosen
SKIP = 0.2  # of the frames of a lineage
PIECES = 100  # of the frames, in order of lineages and time: between them the autocorrelation is measured
FEW_PASSAGES, EACH = 5, 2  # in either direction, of all lineages and of each: an interval from fewer is too narrow
COLLAPSED, FEW_EFFECTIVE = -10.0, 10.0  # mean log weight of the newest frames; effective size of the sample
NEWEST = 0.1  # share of the frames


def log_normalisations(energies: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(k,) float: the logarithm of the equilibrium average of exp(-V) of each version, but for a common constant.

    Args:
        energies: (k, n) float, V of each version at all frames; zeros for no bias.
        counts: (k,) int > 0, how many of the frames were simulated under each.
    """
    offered = np.log(counts)[:, None] - energies
    free = -energies.mean(axis=1)  # so that a constant in a version changes nothing
    for _ in range(MOST_STEPS):
        chance = offered - free[:, None]
        chance = np.exp(chance - chance.max(axis=0))
        chance /= chance.sum(axis=0)  # that a frame is of a version
        expected = chance.sum(axis=1)
        excess = expected - counts
        if np.abs(excess / counts).max() < TOLERANCE:
            break
        step = np.linalg.lstsq(np.diag(expected) - chance @ chance.T, excess)[0]
        free += step * min(1.0, LONGEST_STEP / np.abs(step).max())
    return np.asarray(free - free[0])


def weights(version: np.ndarray, energy: Callable[[int, slice], np.ndarray]) -> np.ndarray:
    """(n,) float: what each frame counts in equilibrium; their sum is 1.

    Args:
        version: (n,) int, of the bias that each frame was simulated under.
        energy: gives V of a version at the frames of a slice, (m,) float.
    """
    sample = slice(None, None, -(-len(version) // SAMPLE))
    used, counts = np.unique(version[sample], return_counts=True)
    logs = log_normalisations(np.stack([energy(k, sample) for k in used.tolist()]), counts)
    mixture = np.full(len(version), -np.inf)
    for k, log in zip(used.tolist(), logs, strict=True):
        mixture = np.logaddexp(mixture, np.log((version == k).sum()) - log - energy(k, slice(None)))
    unscaled = np.exp(mixture.min() - mixture)
    return np.asarray(unscaled / unscaled.sum())


def settled(lineage: np.ndarray) -> np.ndarray:
    """(m,) bool, whether a frame is behind the first fifth of its lineage, in which that still knows where it began.

    Args:
        lineage: (m,) int, of each frame: one lineage after the other, each in order of time.
    """
    _, first, which, count = np.unique(lineage, return_index=True, return_inverse=True, return_counts=True)
    return np.asarray(np.arange(len(lineage)) - first[which] >= (SKIP * count[which]).astype(int))


@dataclass(frozen=True)
class Reweighted:
    """Frames, and what each counts.

    Args:
        weight: (n,) float, their sum is 1; 0 of a frame that is left out.
        order: (m,) int, positions of the frames that count: one lineage after the other, each in order of time.
        lineage: (m,) int, which one that is.
        newest: mean logarithm of the weights of the newest frames under the biases they had, in kT.
        odd: how many frames of the same model are left out, for their stored energy is not that of their version.
    """

    weight: np.ndarray
    order: np.ndarray
    lineage: np.ndarray
    newest: float = 0.0
    odd: int = 0

    def __len__(self) -> int:
        return len(self.order)

    def check(self) -> None:
        """Raises: NoAnswerYet: too few frames count."""
        if len(self) < FEWEST:
            raise NoAnswerYet(f"{len(self)} frames were biased along the newest model", f"{FEWEST} or more")

    @property
    def effective(self) -> float:
        """How many independent frames would say as much, if those that there are were independent."""
        total = float(np.square(self.weight).sum())
        return 1 / total if total else 0.0

    @property
    def collapsed(self) -> bool:
        """Whether the weights say next to nothing."""
        return self.newest < COLLAPSED or self.effective < FEW_EFFECTIVE

    def difference(self, state: np.ndarray, other: np.ndarray) -> Mean:
        """Free energy of a state less that of another, in kT, with its 95 % interval; infinite where one has no frame.

        Args:
            state, other: (n,) bool, whether a frame is in it.
        Raises: NoAnswerYet: fewer than 10 frames count.
        """
        above, below = (self._pieces(np.asarray(each, float)) for each in (state, other))
        if not above.sum() or not below.sum():
            value = np.inf if below.sum() else -np.inf if above.sum() else np.nan
            return Mean(value, np.nan, np.nan)
        value = float(np.log(below.sum() / above.sum()))
        half = half_width(above / above.mean() - below / below.mean())
        return Mean(value, value - half, value + half)

    def population(self, state: np.ndarray) -> Mean:
        """Share of a state, (n,) bool, with its 95 % interval, which is that of its free energy above all others: 0 to
        1 where all frames are in it, or none."""
        share = self._pieces(np.asarray(state, float)).sum()
        if not 0 < share < 1 - 1e-12:
            return Mean(float(round(share)), 0.0, 1.0)
        energy = self.difference(state, ~np.asarray(state, bool))
        value, high, low = (float(1 / (1 + np.exp(each))) for each in (energy.value, energy.low, energy.high))
        return Mean(value, low, high)

    def average(self, value: np.ndarray) -> Mean:
        """Average of a value, (n,) float, with its 95 % interval; the logarithm's where no value is negative.

        Of what no frame has, as a state that was never seen, the interval has no upper end.

        Raises: NoAnswerYet: fewer than 10 frames count.
        """
        value = np.asarray(value, float)
        total, weight = self._pieces(value), self._pieces(np.ones(len(value)))
        mean = float(total.sum() / weight.sum())
        if not value[self.order].any():
            return Mean(0.0, 0.0, np.inf)
        half = half_width((total - mean * weight) / weight.mean())
        if mean > 0 and value[self.order].min() >= 0:
            factor = float(np.exp(half / mean))
            return Mean(mean, mean / factor, mean * factor)
        return Mean(mean, mean - half, mean + half)

    def free_energy(self, along: np.ndarray, edges: Sequence[np.ndarray]) -> np.ndarray:
        """(b, ..., 3) float: free energy in kT of each bin above the lowest, and its 95 % interval; NaN without frames.

        The interval is that of the bin against all frames.

        Args:
            along: (n, d) float.
            edges: of the bins, evenly spaced, in each of the d dimensions.
        """
        counted, weight, piece = along[self.order].T, self.weight[self.order], self._of_pieces
        shape = tuple(len(each) - 1 for each in edges)
        inside, cell, pieces = np.ones(len(weight), bool), np.zeros(len(weight), int), piece[-1] + 1
        for column, each in zip(counted, edges, strict=True):
            inside &= (column >= each[0]) & (column <= each[-1])
            cell = cell * (len(each) - 1) + np.digitize(column, each[1:-1])
        size = int(np.prod(shape))
        sums = np.bincount((cell * pieces + piece)[inside], weight[inside], minlength=size * pieces)
        sums = sums.reshape(size, pieces)
        whole = np.bincount(piece, weight)
        energies = np.full((len(sums), 3), np.nan)
        for i in np.flatnonzero(sums.sum(axis=1)):
            value, half = -np.log(sums[i].sum()), half_width(sums[i] / sums[i].mean() - whole / whole.mean())
            energies[i] = value, value - half, value + half
        return np.asarray(energies - np.nanmin(energies[:, 0])).reshape(*shape, 3)

    def passages(self, state: np.ndarray, other: np.ndarray) -> tuple[int, int]:
        """How often a lineage came from one state, (n,) bool, to the other, and back.

        Of two states that overlap, the frames of both are in neither; but of one within the other, in the inner one.
        """
        _, change = self._passages(state, other)
        return int((change < 0).sum()), int((change > 0).sum())

    def passages_apart(self, state: np.ndarray, other: np.ndarray) -> tuple[int, int]:
        """The same, but those of one piece as one: what flickers over the edge of a state has been there once."""
        at, change = self._passages(state, other)
        piece = at * min(PIECES, len(self)) // max(len(self), 1)
        return len(np.unique(piece[change < 0])), len(np.unique(piece[change > 0]))

    def _passages(self, state: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(m,) int each: where in the order of frames a state was left, -, or entered, +; 0 is neither."""
        state, other = np.asarray(state, bool)[self.order], np.asarray(other, bool)[self.order]
        inner = -1 if (other <= state).all() else 1 if (state <= other).all() else 0
        side = np.where(state & other, inner, state.astype(np.int8) - other)
        known = np.flatnonzero(side)
        same = self.lineage[known[1:]] == self.lineage[known[:-1]]
        return known[1:], np.where(same, np.diff(side[known]), 0)

    @property
    def enough_passages(self) -> int:
        """How many passages in either direction it takes for an interval that can be trusted."""
        long = np.bincount(self.lineage) * PIECES >= len(self)
        return max(FEW_PASSAGES, EACH * int(long.sum()))

    @property
    def _of_pieces(self) -> np.ndarray:
        """(m,) int: the piece of each frame that counts. Raises: NoAnswerYet: see `check`."""
        self.check()
        return np.arange(len(self)) * min(PIECES, len(self)) // len(self)

    def _pieces(self, value: np.ndarray) -> np.ndarray:
        """(pieces,) float: sum of the weighted value over each."""
        return np.bincount(self._of_pieces, (self.weight * value)[self.order])
