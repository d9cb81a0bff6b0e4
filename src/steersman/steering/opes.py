"""Scored frames -> a bias: a potential along a learned coordinate that fills what was sampled, so walkers leave it.

A bias is a pure function of the scored frames and of the energy that each was simulated under. Nothing is deposited by
a simulation, so no kernel can be lost, doubled or out of order. Energies are in kT.

Source: Invernizzi and Parrinello (2020), Rethinking metadynamics; (2022), Exploration vs convergence speed in adaptive-
bias enhanced sampling.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from steersman.steering.bias import Bias, nearest
from steersman.steering.scores import Scores
from steersman.system.errors import BadValue
from steersman.system.numbers import Count, NotNegative, Positive, checked

ENERGY = "bias"  # the score with the energy that each frame was simulated under
HOT = "hot"  # a score that is true of frames that do not count: of another temperature, or not yet settled
MOST_DIMENSIONS = 3
MOST_KERNELS = 2000  # a version takes 56 kB at most
GROWTH = 1.02  # a new version when there are so many times the frames: some 200 in a run
LEAST_STEP = 0.5  # a kernel is at least this wide, in root mean square steps from one frame to the next
ASTRAY = 2  # steps to a frame that lies far out, and back: a width without them
RARE = 100  # one frame in so many may lie anywhere: neither width nor table may hang on it
STORE_IT = (
    'let simulate store with each frame the energy of start.bias in kT, and return it: {"bias": frames["bias"], ...}'
)
LEAST_FRAMES = 20
TOLERANCE_KT = 0.1
SOFTEST_KT, HARDEST_KT = 1.0, 200.0


@checked
class Opes:
    """On-the-fly probability enhanced sampling along one score, in 1 to 3 dimensions.

    Every walker is pushed out of what all of them have sampled. Each segment has a bias that does not change. Frames
    whose score `hot` is true, if there is one, do not count: they were simulated at another temperature.

    Args:
        score: the coordinate, (n,) or (n, d). The score stage also returns `bias`: (n,), the energy in kT that the
            frame was simulated under, 0 without a bias.
        barrier_kT: the highest barrier that is to be crossed; the bias is never stronger.
        width: standard deviation of a kernel, one number or one for each dimension; None: from the fluctuations
            within a segment, smaller as frames come (Silverman's rule).
        periods: of each dimension, or one for all, 0 where it has none; angles in radians have 2 pi.
        most: frames that were made before the model count as at most so many. More would hold the walkers back: the
            density of what is new must catch up with them.
        exploring: fill by how often a place was visited rather than by its weight: sooner elsewhere, later converged.
        lost: a walker whose frames have a mean log weight below this, relative to the mean weight of all frames, sits
            where next to nothing of the equilibrium is, and begins again at a frame that is drawn from it; None: never.
        controls: so many lineages are never pushed, to show what plain dynamics does meanwhile; one less than slots at
            most. Averages are made without them.
    Raises: BadValue: a barrier that cannot be crossed or needs no bias, or another number that is none.
    """

    score: str
    barrier_kT: Annotated[float, Interval(gt=SOFTEST_KT, le=HARDEST_KT)]
    width: Positive | tuple[Positive, ...] | None = None
    periods: NotNegative | tuple[NotNegative, ...] = 0.0
    most: Positive = 40.0
    exploring: bool = False
    lost: Annotated[float, Interval(gt=-inf, lt=0)] | None = None
    controls: Count = 0

    @property
    def name(self) -> str:
        return type(self).__name__

    def __str__(self) -> str:
        how = "explores" if self.exploring else "pushes"
        return f"{self.name} {how} along {self.score}, over barriers of up to {self.barrier_kT:g} kT"

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the scores it is made of."""
        return (self.score, ENERGY)

    def lacks(self, names: Collection[str]) -> str:
        """What to do about the first score that it needs and that is not among these, or ""."""
        if self.score not in names:
            return f"{self.name} needs the score {self.score!r}: return it from the score stage"
        if ENERGY not in names:
            return f"{self.name} needs the score {ENERGY!r}: {STORE_IT}"
        return ""

    def due(self, scores: Scores, model: int, frames: int) -> bool:
        """Whether the frames that came since a version of so many frames, of a model, are worth a new one."""
        if self.lacks(scores.values) or (count := int(counted(scores).sum())) < LEAST_FRAMES:
            return False
        new = len(scores) - frames
        return scores.model != model or new > (GROWTH - 1) * (count - new)

    def check_energy(self, bias: Bias, scores: Scores) -> None:
        """Compare what frames store as their energy with what the version that pushed them has there.

        Raises: BadValue: they differ by more than `TOLERANCE_KT`.
        """
        stored, expected = scores.column(ENERGY), bias.energy(scores.matrix(self.score))
        if len(stored) and not (difference := np.abs(stored - expected)).max() <= TOLERANCE_KT:
            worst = int(np.nan_to_num(difference, nan=np.inf).argmax())
            raise BadValue(
                ENERGY, f"{stored[worst]:.4g} in frame {worst}, where `start.bias.energy` gives {expected[worst]:.4g}",
                "simulate is pushed by start.bias along start.model's coordinate, and stores its energy in kT",
            )  # fmt: skip

    def check_pushed(self, pushed: Scores, plain: Scores) -> None:
        """Compare the coordinate of a segment with that of the same start and seed without the bias.

        Raises: BadValue: it is the same, to the last digit.
        """
        some, others = (each.matrix(self.score)[: min(len(pushed), len(plain))] for each in (pushed, plain))
        if len(some) and np.array_equal(some, others):
            problem = "simulate adds the force of start.bias to its own (`start.bias.along(start.model)`)"
            raise BadValue(self.score, "the same in each frame as without the bias, from the same seed", problem)

    def log_weight(self, scores: Scores, rows: np.ndarray) -> float:
        """Mean log weight of some frames, relative to the mean weight of all that count."""
        energy = scores.column(ENERGY)
        cold = energy[counted(scores)]
        most = cold.max()
        return float(energy[rows].mean() - most - np.log(np.exp(cold - most).mean()))

    def drawn(self, scores: Scores, bias: Bias, rng: np.random.Generator) -> int | None:
        """Draw a frame from the equilibrium under a version of the bias, as far as it was sampled; None: there is none.

        It is one where a segment can begin, and not the newest of a segment that nobody has gone on from.
        """
        frame = (scores.walker.astype(np.int64) << 32) + scores.row
        newest = scores.ends | ~np.isin(frame + 1, frame)
        among = scores.startable(np.flatnonzero((~newest | (scores.starts > 0)) & counted(scores)))
        if not len(among):
            return None
        log = scores.column(ENERGY)[among] - bias.energy(scores.matrix(self.score)[among])
        chance = np.exp(log - log.max())
        return int(rng.choice(among, p=chance / chance.sum()))

    def made(self, scores: Scores) -> Bias:
        """Make the bias of all scored frames that count.

        Raises: BadValue: a score of more than 3 dimensions, of none that changes, or with NaN.
        """
        if not (cold := counted(scores)).all():
            scores = scores.only(cold)
        if not len(scores):
            raise BadValue(HOT, "true of all frames", "simulate some at the temperature of the averages")
        z, energy = scores.matrix(self.score), scores.column(ENERGY)
        dimensions = z.shape[1]
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise BadValue(
                self.score,
                f"of {dimensions} dimensions",
                f"a bias has 1 to {MOST_DIMENSIONS}: return fewer columns of it",
            )
        for name, value in ((self.score, z), (ENERGY, energy)):
            if not np.isfinite(value).all():
                found = f"not finite in {(~np.isfinite(value)).any(axis=-1).sum():,} of {len(value):,} frames"
                raise BadValue(name, found, "look at what the score stage makes of these, e.g. with `steersman try`")
        periods = _each(self.periods, dimensions)
        z = _within_reach(z, periods)
        weight = np.ones(len(z)) if self.exploring else np.exp(energy - energy.max())
        weight *= self._share(scores, weight * np.exp(0.0 if self.exploring else energy.max()))
        effective = weight.sum() ** 2 / (weight**2).sum()
        kernels = _compressed(z, weight, self._width(scores, z, periods, effective), periods)
        return Bias(scores.model, self.barrier_kT, self.exploring, *kernels, periods, float(effective))

    def _share(self, scores: Scores, weight: np.ndarray) -> np.ndarray:
        """(n,) factors that let frames of before the model weigh at most `most` together."""
        before = scores.biased_by != scores.model if len(scores.biased_by) else np.ones(len(weight), bool)
        return np.where(before, min(1.0, self.most / max(weight[before].sum(), 1e-300)), 1.0)

    def _width(self, scores: Scores, z: np.ndarray, periods: np.ndarray, effective: float) -> np.ndarray:
        """(d,): how wide a kernel is, by Silverman's rule from the spread within a segment, and no less than a
        step, of all but one that leads astray."""
        if self.width is not None:
            return _each(self.width, z.shape[1])
        spread, steps = _fluctuation(scores, z, periods)
        silverman = (effective * (z.shape[1] + 2) / 4) ** (-1 / (z.shape[1] + 4))
        usual = np.sort(steps**2, axis=0)[: max(len(steps) - ASTRAY, 1)].mean(axis=0)
        width = np.maximum(spread * silverman, LEAST_STEP * np.sqrt(usual))
        if not (width > 0).all():
            raise BadValue(
                self.score, "the same from frame to frame", "a bias along it would push nothing: name another score"
            )
        return np.asarray(width)


def counted(scores: Scores) -> np.ndarray:
    """(n,) bool, whether a frame is of the system whose averages are wanted."""
    return scores.column(HOT) == 0 if HOT in scores.values else np.ones(len(scores), bool)


def _each(value: Any, dimensions: int) -> np.ndarray:
    try:
        return np.broadcast_to(np.asarray(value, float), (dimensions,))
    except ValueError:
        raise BadValue(
            "width, periods", value, f"give one number, or one for each of {dimensions} dimensions"
        ) from None


def _rare(frames: int) -> int:
    return max(frames // RARE, int(frames > 1))


def _within_reach(z: np.ndarray, periods: np.ndarray) -> np.ndarray:
    """Frames (n, d), those far out nearer: at most as far from the shortest way along a dimension that has all frames
    but the rare ones as this way is long. Farther out, one alone would thin the nodes of the table for all."""
    ordered, rare = np.sort(z, axis=0), _rare(len(z))
    low, high = ordered[: rare + 1], ordered[len(z) - rare - 1 :]
    shortest = (high - low).argmin(axis=0)[None]
    low, high = (np.take_along_axis(each, shortest, axis=0)[0] for each in (low, high))
    length = np.where(periods > 0, np.inf, high - low)
    return np.asarray(np.clip(z, low - length, high + length))


def _fluctuation(scores: Scores, z: np.ndarray, periods: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How a coordinate changes within segments.

    Returns: (d,) its standard deviation, the median of all; (m, d) all steps from a frame to the next one of a segment.
    Raises: BadValue: no segment has two frames.
    """
    _, first, segment = np.unique(
        (scores.walker.astype(np.int64) << 32) + scores.segment, return_index=True, return_inverse=True
    )
    begun = first[segment.ravel()]  # in the order of their first frames: rounding must not depend on who ran them
    order = np.lexsort((scores.row, begun))
    fresh = np.diff(begun[order]) != 0
    steps = np.where(fresh[:, None], 0.0, nearest(np.diff(z[order], axis=0), periods))
    if fresh.all():
        raise BadValue("segments", "one frame in each", "how much the coordinate fluctuates is not known: give width=")
    track = np.concatenate([np.zeros((1, z.shape[1])), np.cumsum(steps, axis=0)])  # without jumps over a period
    segment = np.concatenate([[0], np.cumsum(fresh)])
    count = np.bincount(segment)

    def mean(values: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(segment, column) for column in values.T], axis=1) / count[:, None]

    spread = np.sqrt(mean((track - mean(track)[segment]) ** 2))
    return np.median(spread[count > 1], axis=0), steps[~fresh]


def _compressed(
    z: np.ndarray, weight: np.ndarray, width: np.ndarray, periods: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make one kernel of all frames in a cell that is one width long, twice as long while there are too many.

    Returns: centres and widths (k, d) float32, heights (k,) float64: below a high barrier they are e^-100 and less.
    """
    z = np.where(periods > 0, z % np.where(periods > 0, periods, 1.0), z)
    size = width.astype(float)
    while True:
        cell = np.floor(z / size).astype(np.int64)
        cell -= cell.min(axis=0)
        kinds, which = np.unique(np.ravel_multi_index(tuple(cell.T), tuple(cell.max(axis=0) + 1)), return_inverse=True)
        if len(kinds) <= MOST_KERNELS:
            break
        size = size * 2 ** (1 / z.shape[1])
    which = which.ravel()
    height = np.bincount(which, weight)
    kept = height > 0
    share = weight / np.where(kept, height, 1.0)[which]
    centre = np.stack([np.bincount(which, share * column) for column in z.T], axis=1)
    spread = np.stack([np.bincount(which, share * column) for column in ((z - centre[which]) ** 2).T], axis=1)
    widths = np.sqrt(width**2 + spread[kept])
    return centre[kept].astype(np.float32), widths.astype(np.float32), height[kept] / height.sum()
