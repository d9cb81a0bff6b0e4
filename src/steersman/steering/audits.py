"""Audits of a surrogate -> how far it can be trusted, and an answer that need not trust it.

    coverage(scores.values)             # [model 2: 271 of 281 audits inside the bound, 96.4 % (93.5 to 98.3)]
    corrected(scores.values, mean_of)   # 318 (95 %: 314 to 322), from 300 audits

A surrogate walks over configurations so that each of its bins is visited alike; some of them are drawn at random, and
what the simulation says of them is compared with what the surrogate said. These are its audits. Each frame is one, with
the scores `truth` and `said`, and:

`version`    of the model that drew it; 0 where there was none
`scored_by`  of the model that scored it: those audits count that this one drew, none of which it was trained on
`bin`        in which the surrogate put it, 0 to `bins` - 1
`bins`       how many there are
`ln_size`    ln of the share of all configurations that the surrogate puts into this bin
`ln_error`   its standard error
`failed`     the simulation gave no answer
`steps`      configurations that the surrogate judged to draw this one
`trained_steps`  ... and before, to learn where to walk
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from steersman.steering.errors import AuditsRefused

FEWEST = 100  # audits that an answer needs
FEWEST_OF_MEAN = 5  # of a version, for the scatter of its errors
FEWEST_IN_BIN = 3  # below, nobody knows how they scatter
FAILED = 0.1  # of the audits of a bin: more may be what they have in common
LEVEL = 0.95
REPLICATES = 400

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Coverage:
    """How often a bound on the error of one model's surrogate held.

    The bound of each audit is a quantile of the errors of those before it, so nothing that is judged was used to
    calibrate. With a surrogate that stays as it is, it holds in 95 % of the audits, however errors are distributed; in
    more of them where many errors are equal.

    Args:
        version: of the model.
        frame: (n,) int, which of the scores each audit is, in order of time; those left out that only calibrated.
        error: (n,) of each, in the unit of `truth`.
        bounds: (n,) on each of these errors, as it was known before.
        bound: on the error of the next one.
        spoiled: number of the audit, from 1 on, by which the surrogate was seen to have changed; 0: it was not.
    Source: Vovk, Gammerman and Shafer (2005), Algorithmic learning in a random world.
    """

    version: int
    frame: np.ndarray
    error: np.ndarray
    bounds: np.ndarray
    bound: float
    spoiled: int

    @property
    def held(self) -> np.ndarray:
        """(n,) bool, whether the bound of each held."""
        return np.asarray(self.error <= self.bounds)

    @property
    def share(self) -> float:
        """Of the audits inside the bound; NaN: none was judged."""
        return float(self.held.mean()) if len(self.held) else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 % of this share."""
        low, high = clopper_pearson(self.held.sum(), len(self.held))
        return float(low), float(high)

    def __str__(self) -> str:
        if not len(self.held):
            return f"model {self.version}: too few audits for a bound"
        low, high = self.interval
        inside = f"model {self.version}: {self.held.sum()} of {len(self.held)} audits inside the bound"
        return f"{inside}, {100 * self.share:.1f} % (95 %: {100 * low:.1f} to {100 * high:.1f})"


@dataclass(frozen=True)
class Saved:
    """What it cost. Args: expensive: calls of the simulation. surrogate: configurations that a surrogate judged."""

    expensive: int
    surrogate: int

    def __str__(self) -> str:
        return f"{self.expensive:,} expensive calls for {self.surrogate:,} of the surrogate"


@dataclass(frozen=True)
class Corrected:
    """An answer from audits.

    Args:
        value: (...) of all audits.
        low, high: (...) interval of 95 %.
        audits: from which it is.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    audits: int


def coverage(values: Values, level: float = LEVEL) -> list[Coverage]:
    """Say of each model how often its bound held, in the order of versions.

    Args:
        values: scores `truth`, `said`, `version` and, if audits can fail, `failed`, (n,) each in order of time.
        level: of the bound, between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"coverage(level={level!r:.60}): give a share between 0 and 1")
    error = np.abs(_column(values, "truth") - _column(values, "said"))
    version = _column(values, "version")
    counted = np.flatnonzero((version > 0) & ~_failed(values))
    return [
        _coverage(int(each), counted[version[counted] == each], error, level) for each in np.unique(version[counted])
    ]


def clopper_pearson(k: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Interval of 95 % of a share, when k of n (...) were seen, whole numbers or not. Source: Clopper and Pearson
    (1934)."""
    from scipy.stats import beta

    k, n = np.broadcast_arrays(k, n)
    low = np.where(k > 0, beta.ppf(0.025, np.where(k > 0, k, 1), n - k + 1), 0.0)
    return low, np.where(k < n, beta.ppf(0.975, k + 1, np.where(k < n, n - k, 1)), 1.0)


def saved(values: Values) -> Saved:
    """Count calls.

    Args:
        values: scores `version`, `steps` and `trained_steps`, (n,) each.
    """
    version, trained = _column(values, "version"), _column(values, "trained_steps")
    learned = sum(float(trained[version == each].max()) for each in np.unique(version))
    return Saved(len(version), int(_column(values, "steps").sum() + learned))


def audited(values: Values) -> np.ndarray:
    """(n,) bool: the audits of the model that scored last, those left out whose simulation failed."""
    version = _column(values, "version")
    return np.asarray((version > 0) & (version == _column(values, "scored_by")) & ~_failed(values))


def corrected(
    values: Values,
    answer: Callable[[np.ndarray], np.ndarray],
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Corrected:
    """Answer by the audits of the model that scored last: right however wrong the surrogate is.

    The surrogate says how many configurations each of its bins holds, and the audits of a bin stand for these. In each
    replicate the audits of a bin get random weights, whose scatter is that of a mean of so few. So it is wrong, with an
    interval that is too narrow, where the answer hangs on a few configurations of a bin of which none was audited:
    where energies are weighed by exp(-energy/kT), a bin must not be wider than about kT.

    Args:
        values: all scores that this module names, (n,) each.
        answer: weights (..., m) of the m frames for which `audited` is true -> (...) or (..., k); the weights of all
            configurations add up to 1.
    Raises: AuditsRefused: there are fewer than 100 audits, or fewer than 3 in one of the bins; more than a tenth of a
        bin failed; the surrogate is no better than a constant; or the answer is not finite.
    Source: Rubin (1981), The Bayesian bootstrap; the exponent is such that the variance of a mean is not too small.
    """
    used = audited(values)
    truth, said, where = (_column(values, name)[used] for name in ("truth", "said", "bin"))
    if len(truth) < FEWEST:
        raise AuditsRefused(f"there are {len(truth)} audits of this model", f"{FEWEST} or more")
    bins, where = _bins(values, used)
    count = np.bincount(where, minlength=bins)
    if (thin := np.flatnonzero(count < FEWEST_IN_BIN)).size:
        raise AuditsRefused(f"of {bins} bins {len(thin)} have fewer than {FEWEST_IN_BIN} audits", "more audits")
    tried = _column(values, "version") == _column(values, "scored_by")
    lost = np.bincount(_column(values, "bin")[tried & _failed(values)].astype(int), minlength=bins)
    if (lost > FAILED * (lost + count)).any():
        raise AuditsRefused(f"the simulation failed in {lost.sum()} audits, many of one bin", "an answer to each")
    if not (truth - said).std() < truth.std():
        scatter = f"its errors scatter by {(truth - said).std():.3g}, and what it is to predict by {truth.std():.3g}"
        raise AuditsRefused(scatter, "a surrogate that is better than a constant")
    rng, ln_size = np.random.default_rng(seed), _column(values, "ln_size")[used]
    shape = (count[where] - 2) / count[where]
    drawn = np.concatenate([np.ones((1, len(truth))), rng.gamma(shape, size=(replicates, len(truth))) + 1e-300])
    sums = np.stack([drawn @ (where == each) for each in range(bins)], axis=1)
    ln_error = _column(values, "ln_error")[used]
    first = np.unique(where, return_index=True)[1]
    if (ln_error < 0).any() or any((each != each[first][where]).any() for each in (ln_size, ln_error)):
        raise AuditsRefused("ln_size or ln_error differ within a bin, or an error is below 0", "one of each for a bin")
    shift = rng.normal(size=(len(drawn), bins)) * ln_error[first]
    shift[0] = 0.0
    weights = drawn / sums[:, where] * np.exp(ln_size - ln_size.max() + shift[:, where])
    answers = np.asarray(answer(weights / weights.sum(1, keepdims=True)))
    if answers.dtype.kind not in "iuf" or answers.shape[:1] != (len(drawn),):
        raise AuditsRefused(f"the answer is {answers.dtype} {answers.shape}", f"a number for each of {len(drawn)} rows")
    if not np.isfinite(answers).all():
        raise AuditsRefused("the answer is not finite, or that of a replicate", "an answer to any weights")
    low, high = np.quantile(answers[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return Corrected(answers[0], low, high, len(truth))


def mean(values: Values) -> Corrected:
    """The mean of a number over runs: what a surrogate says of all of them, and how wrong it is in the audits.

    It is unbiased however wrong the surrogate is, where runs are independent and audits drawn at random among them.
    Runs of each version stand for themselves; a version with fewer than 5 audits is left out.

    Args:
        values: scores `said`, `truth`, `version` and, where not all are audited, `failed`, (n,) each, a row for a run.
            Runs without a surrogate, of version 0, say the truth.
    Returns: NaN before there are so many.
    Source: Sarndal, Swensson and Wretman (1992), Model assisted survey sampling, the difference estimator.
    """
    from scipy.special import stdtrit

    truth, said, version = (_column(values, name) for name in ("truth", "said", "version"))
    audited = ~_failed(values)
    runs, audits, free, total, variance = 0, 0, 0, 0.0, 0.0
    for each in np.unique(version):
        mine = version == each
        n, known = int(mine.sum()), mine & audited
        if (m := int(known.sum())) >= FEWEST_OF_MEAN:
            error = truth[known] - said[known]
            runs, audits, free = runs + n, audits + m, free + m - 1
            total += n * (said[mine].mean() + error.mean())
            variance += n**2 * (error.var(ddof=1) * (1 / m - 1 / n) + truth[known].var(ddof=1) / n)
    value = np.array(total / runs if runs else math.nan)
    half = stdtrit(free, (1 + LEVEL) / 2) * math.sqrt(variance) / runs if runs else math.nan
    return Corrected(value, value - half, value + half, audits)


def _bins(values: Values, used: np.ndarray) -> tuple[int, np.ndarray]:
    """How many bins there are, and (m,) int in which each of the audits is. Raises: AuditsRefused."""
    bins, where = _column(values, "bins")[used], _column(values, "bin")[used]
    if not ((bins == bins[0]) & (where >= 0) & (where < bins) & (where == where.round())).all():
        raise AuditsRefused("some bins are none of 0 to `bins` - 1, or `bins` differs", "the bins of one model")
    return int(bins[0]), where.astype(int)


def _coverage(version: int, frame: np.ndarray, errors: np.ndarray, level: float) -> Coverage:
    known, bounds, spoiled = list[float](), list[float](), 0
    bound, most, beyond = math.inf, -math.inf, 0  # the largest error, and how many in a row have exceeded it by now
    for number, error in enumerate(map(float, errors[frame]), 1):
        if math.isfinite(bound):
            bounds.append(bound)
        beyond = beyond + 1 if error > most and len(known) >= FEWEST else 0
        if beyond == 2 and not spoiled:  # by chance with a probability below 2 / FEWEST
            spoiled = number
        if not beyond:
            most = known[-1] if known and known[-1] > error else error
        bisect.insort(known, error)
        rank = math.ceil((number + 1) * level)
        bound = known[rank - 1] if rank <= number else math.inf
    judged = frame[len(frame) - len(bounds) :]
    return Coverage(version, judged, errors[judged], np.array(bounds), bound, spoiled)


def _column(values: Values, name: str) -> np.ndarray:
    """(n,) float64. Raises: AuditsRefused: it is not there, not of this length, or not finite."""
    if name not in values or "version" not in values:
        raise AuditsRefused(f"the scores have no {name!r}", "all that steersman.audits names")
    column, n = np.asarray(values[name], float), np.shape(values["version"])
    if column.shape != n or column.ndim != 1:
        raise AuditsRefused(f"{name!r} has the shape {column.shape}, and 'version' {n}", "one number for each frame")
    if not np.isfinite(column).all():
        raise AuditsRefused(f"{name!r} is NaN or infinite in {(~np.isfinite(column)).sum()} frames", "finite numbers")
    return column


def _failed(values: Values) -> np.ndarray:
    n = len(_column(values, "version"))
    return np.asarray(_column(values, "failed") > 0) if "failed" in values else np.zeros(n, bool)
