"""Simulations -> the probability of a rare extreme, with far fewer of them than plain sampling needs.

    estimate = guided(lambda rng: rng.standard_normal((20_000, 8)), simulate, threshold, np.random.default_rng(1))
    print(estimate)  # 0.0103 (95 %: 0.0071 to 0.0149), 200 runs, 41 extremes

A surrogate, fitted to the runs so far, says where extremes are likely; runs are drawn there more often and count less.
The weights make each estimate unbiased however wrong the surrogate is: a bad one costs precision, never truth.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DEFENSIVE = 0.2  # share of draws that ignore the surrogate: with 0.1, a run it had missed could outweigh all others
FIRST_WEIGHT = 0.15  # of a plain run of the first round beside a guided one
NOISE = 0.05  # variance of the noise that the fit begins with, of standardized quantities
Z_95 = 1.959964  # standard deviations
ROUNDED = 1e-12  # a sum of shares is 1 to within so much

Surrogate = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Estimate:
    """A probability as measured.

    Args:
        probability: unbiased; with few runs it may be 0, and of none it is NaN.
        error: its standard error, estimated from the same runs.
        runs: simulations used.
        extremes: how many of them were beyond the threshold.
    """

    probability: float
    error: float
    runs: int
    extremes: int

    @property
    def interval(self) -> tuple[float, float]:
        """Of 95 %, after Wilson (1927), for as many plain runs as would have this error.

        From fewer than ten extremes it may be too narrow: it held the truth in 85 % of tries that met four.
        """
        if not self.runs:
            return 0.0, 1.0
        p = min(max(self.probability, 0.0), 1.0)
        known = 0 < p < 1 and self.error > 1e-9 * p  # runs that all came out alike do not show their scatter
        n = p * (1 - p) / self.error**2 if known else float(self.runs)
        middle, half = p + Z_95**2 / (2 * n), Z_95 * math.sqrt(p * (1 - p) / n + Z_95**2 / (4 * n**2))
        return max((middle - half) / (1 + Z_95**2 / n), 0.0), min((middle + half) / (1 + Z_95**2 / n), 1.0)

    def __str__(self) -> str:
        if not self.runs:
            return "not known yet, 0 runs"
        low, high = self.interval
        interval = f"{self.probability:.3g} (95 %: {low:.3g} to {high:.3g})"
        return f"{interval}, {self.runs} runs, {self.extremes} extremes"


def plain(quantities: np.ndarray, threshold: float) -> Estimate:
    """Estimate from runs drawn without guidance. Args: quantities: (n,) of the runs."""
    extreme = np.asarray(quantities) > threshold
    p = float(extreme.mean())
    return Estimate(p, math.sqrt(p * (1 - p) / len(extreme)), len(extreme), int(extreme.sum()))


def weighted(
    quantities: np.ndarray, weights: np.ndarray, trust: np.ndarray, threshold: float, shared: float = 0.0
) -> Estimate:
    """Estimate from runs drawn one after another, each from a distribution of its own.

    Args:
        quantities: (n,) of the runs.
        weights: (n,), the density of the parameters over that from which this run was drawn; 1 without guidance.
        trust: (n,), how much a run counts beside others, settled before its quantity was known.
        shared: guided runs that were drawn from the same candidates, at most, by the number of these: what share of
            its candidates is extreme is chance, too, and the same for all of them.
    """
    extreme, share = quantities > threshold, trust / trust.sum()
    counted = weights * extreme
    p = float(share @ counted)
    squared = np.where(weights == 1, bernoulli(p), (counted - p) ** 2 + shared * bernoulli(p))
    return Estimate(p, math.sqrt(float(share**2 @ squared)), len(quantities), int(extreme.sum()))


def bernoulli(p: float) -> float:
    """Variance of a run without guidance, by what all runs say: its own scatter is none where it met no extreme."""
    return p * (1 - p) if p < 1 - ROUNDED else 0.0


def weighted_so_far(
    quantities: np.ndarray, weights: np.ndarray, trust: np.ndarray, threshold: float, shared: float = 0.0
) -> list[Estimate]:
    """`weighted` of the first run, of the first two, and so on to all n, in one pass over them.

    Source: West (1979), Updating mean and variance estimates; sums of squares would cancel.
    """
    extremes = np.cumsum(quantities > threshold)
    estimates, whole, p, plain, squares, middle, scatter = [], 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for run, (weight, extreme, t) in enumerate(zip(weights, quantities > threshold, trust, strict=True)):
        counted = weight * extreme
        whole += t
        p += t / whole * (counted - p)
        if weight == 1:
            plain += t * t
        else:
            squares += t * t
            away = counted - middle  # middle and scatter are those with the squares of the trusts
            middle += t * t / squares * away
            scatter += t * t * away * (counted - middle)
        of_guided = scatter + squares * ((middle - p) ** 2 + shared * bernoulli(p))
        error = math.sqrt(of_guided + plain * bernoulli(p)) / whole
        estimates.append(Estimate(float(p), error, run + 1, int(extremes[run])))
    return estimates


def guided(
    draw: Callable[[np.random.Generator], np.ndarray],
    simulate: Callable[[np.ndarray], np.ndarray],
    threshold: float,
    rng: np.random.Generator,
    *,
    rounds: Sequence[int] = (60, 35, 35, 35, 35),
    surrogate: Surrogate | None = None,
) -> Estimate:
    """Estimate how often a simulated quantity exceeds a threshold.

    Args:
        draw: gives candidates (n, d) from the distribution of the parameters, new ones for each round: tens of
            thousands, for their own scatter counts in the error. Few of them are simulated.
        simulate: parameters (m, d) -> (m,) quantities, finite.
        rounds: runs of each round; the first is drawn without guidance, the surrogate is fitted before every other.
        surrogate: parameters (m, d) and quantities (m,) of the runs so far, candidates -> mean and spread (n,) of each
            candidate's quantity; None: a Gaussian process.
    Returns: the sum of the rounds' estimates with `round_weights`.
    Raises: ValueError: rounds of fewer than 2 runs, or quantities that are not finite.
    Source: Peherstorfer, Cui, Marzouk and Willcox (2016), Multifidelity importance sampling; Hansen and Hurwitz (1943).
    """
    if not rounds or min(rounds) < 2:
        raise ValueError(f"rounds={tuple(rounds)}: each needs at least 2 runs")
    parameters, quantities = np.empty((0, 0)), np.empty(0)
    means, variances, pools = [], [], []
    for runs in rounds:
        candidates = draw(rng)
        n, share = len(candidates), np.full(len(candidates), 1 / len(candidates))
        if len(quantities):
            share = shares(*(surrogate or gaussian_process)(parameters, quantities, candidates), threshold)
        chosen = rng.choice(n, runs, p=share)
        values = _checked(simulate(candidates[chosen]), runs)
        counted = (values > threshold) / (n * share[chosen])
        means.append(counted.mean())
        variances.append(counted.var(ddof=1) / runs)
        pools.append(n)
        parameters = np.concatenate([parameters.reshape(-1, candidates.shape[1]), candidates[chosen]])
        quantities = np.concatenate([quantities, values])
    weights = round_weights(rounds)
    p = float(weights @ means)
    variances[0] = bernoulli(p) / rounds[0]
    error = math.sqrt(float(weights**2 @ (np.array(variances) + bernoulli(p) / np.array(pools))))
    return Estimate(p, error, len(quantities), int((quantities > threshold).sum()))


def round_weights(rounds: Sequence[int]) -> np.ndarray:
    """How much each round counts, (rounds,), their sum 1: later ones more, settled beforehand so as not to bias."""
    weights = np.array([FIRST_WEIGHT * rounds[0], *(runs * (k + 1) for k, runs in enumerate(rounds[1:]))])
    return np.asarray(weights / weights.sum())


def gaussian_process(
    parameters: np.ndarray, quantities: np.ndarray, candidates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Regress quantities (m,) on parameters (m, d), a length for each. Returns: mean and spread (n,) at candidates."""
    x, y = np.ascontiguousarray(parameters, np.float64), np.ascontiguousarray(quantities, np.float64)
    mean, spread = _process(x.tobytes(), y.tobytes()).predict(candidates, return_std=True)
    return mean, spread


@functools.lru_cache(maxsize=1)
def _process(parameters: bytes, quantities: bytes) -> Any:
    """A fit takes a third of a second, and serves all candidates until there are more runs."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    y = np.frombuffer(quantities)
    x = np.frombuffer(parameters).reshape(len(y), -1)
    kernel = ConstantKernel(1.0) * RBF(np.full(x.shape[1], 2.0)) + WhiteKernel(NOISE)
    with warnings.catch_warnings():  # that a length reaches its bound means: this parameter does not matter
        warnings.simplefilter("ignore")
        return GaussianProcessRegressor(kernel, normalize_y=True).fit(x, y)


def shares(mean: np.ndarray, spread: np.ndarray, threshold: float) -> np.ndarray:
    """How often to draw each candidate, their sum 1: the root of its chance to be extreme gives the least variance."""
    from scipy.special import ndtr

    certain = 1e-6 * max(float(np.ptp(mean)), float(spread.max())) or 1.0
    wanted = np.sqrt(ndtr((mean - threshold) / np.maximum(spread, certain))) + 1e-12
    return np.asarray((1 - DEFENSIVE) * wanted / wanted.sum() + DEFENSIVE / len(wanted))


def _checked(given: np.ndarray, runs: int) -> np.ndarray:
    values = np.asarray(given, float)
    if values.shape != (runs,) or not np.isfinite(values).all():
        raise ValueError(f"simulate gave {values.shape} with NaN or infinity, not {runs} finite quantities")
    return values
