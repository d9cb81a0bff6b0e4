"""What a run of jets has -> figures for its report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from matplotlib.figure import Figure

from steersman.steering import Scores, Splitting, audits
from steersman.steering.errors import NoAnswerYet
from steersman.steering.forecasts import reliability
from steersman.steering.splitting import probability as exceeds

Z_95 = 1.96
ABOVE = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 3}  # where a legend hides nothing


class MeasuredProbability(Protocol):
    """A probability as measured, see steering.rare_events."""

    @property
    def probability(self) -> float: ...

    @property
    def interval(self) -> tuple[float, float]: ...


def probability(estimates: Sequence[MeasuredProbability], event: str) -> tuple[Figure, str] | None:
    """An estimated probability as runs came in, beside what as many plain runs would give.

    Args:
        estimates: after each run.
        event: whose probability it is.
    Returns: None where there is no estimate yet.
    """
    if not estimates:
        return None
    figure = Figure((7.2, 2.7), layout="constrained")
    axes = figure.subplots()
    runs = np.arange(1, len(estimates) + 1)
    known = np.array([estimate.probability for estimate in estimates])
    p, (low, high) = known[-1], 100 * np.array([estimate.interval for estimate in estimates]).T
    half = Z_95 * np.sqrt(p * (1 - p) / runs)
    plain = 100 * np.maximum(p - half, 0), 100 * (p + half)
    axes.fill_between(runs, *plain, color="0.87", label="plain sampling, 95 % of tries")
    axes.fill_between(runs, low, high, color="C0", alpha=0.3, label="this run, 95 % interval")
    axes.plot(runs, 100 * known, color="C0", label="this run")
    axes.set(xlabel="simulated jets", ylabel="extreme (% of jets)", xlim=(0, runs[-1]), ylim=(0, 500 * p or None))
    axes.legend(**ABOVE)
    words = f"{100 * p:.2g} % (95 %: {low[-1]:.2g} to {high[-1]:.2g} %) from {runs[-1]} runs"
    return figure, f"{event}: {words}; as many plain runs would give {plain[0][-1]:.2g} to {plain[1][-1]:.2g} %."


def return_times(rare: Splitting, scores: Scores, window_days: float, outcome: str) -> tuple[Figure, str] | None:
    """How long one waits for an outcome, by the weights of all members, beside plain sampling of as many days.

    Args:
        outcome: what the outcome is, with its unit, as `Splitting` has it: over the event's threshold.
    Returns: None before two windows are over.
    """
    try:
        whole = rare.estimate(scores)
    except NoAnswerYet:
        return None
    ends = scores.column(rare.outcome)[scores.ends & (scores.age == rare.window)]
    levels = np.unique(np.append(np.quantile(ends, np.linspace(0.5, 1, 60)[:-1]), rare.above))
    estimates = [rare.estimate(scores, above=float(level)) for level in levels]
    p, low, high = np.array([(each.probability, each.low, each.high) for each in estimates]).T
    seen, members = p > 0, whole.windows * whole.members
    half = Z_95 * np.sqrt(p * (1 - p) / members)
    figure = Figure((7.2, 3.0), layout="constrained")
    axes = figure.subplots()
    plain = np.where(p * members > 1, window_days / np.maximum(p - half, 1e-12), np.inf)
    axes.fill_between(
        levels, window_days / (p + half), np.minimum(plain, 1e12), color="0.87", label="plain sampling, 95 % of tries"
    )
    axes.fill_between(
        levels[seen],
        window_days / high[seen],
        window_days / low[seen],
        color="C0",
        alpha=0.3,
        label="this run, 95 % interval",
    )
    axes.plot(levels[seen], window_days / p[seen], color="C0", label="this run")
    axes.axvline(rare.above, color="0.3", lw=0.8, ls=":")
    axes.set(xlabel=outcome, ylabel="return time (days)", yscale="log", xlim=(levels[0], levels[-1]))
    axes.set_ylim(window_days / p.max() / 3, 20 * window_days / p[seen].min())
    axes.legend(**ABOVE)
    return figure, f"The event (dotted): once in {whole.return_time(window_days):,.0f} days. {whole}."


def reliable(
    mean: np.ndarray, spread: np.ndarray, outcome: np.ndarray, weights: np.ndarray, levels: Sequence[float], unit: str
) -> tuple[Figure, str] | None:
    """How often an outcome lies above some levels where a forecast gives that a probability.

    Args:
        mean, spread, outcome, weights: (n,) of forecasts and of what came, of members that no training saw.
        levels: in the unit of the outcome.
    Returns: None where there is nothing to compare.
    """
    if not len(outcome):
        return None
    figure = Figure((4.2, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.plot([1e-3, 1], [1e-3, 1], color="0.7", lw=0.8)
    for number, level in enumerate(levels):
        bins = reliability(exceeds(mean, spread, level), outcome > level, weights)
        said, came, low, high = np.array([(each.forecast, each.frequency, each.low, each.high) for each in bins]).T
        seen = (said > 1e-3) & (came > 0)
        ends = np.maximum([came - low, high - came], 0)[:, seen]
        axes.errorbar(
            said[seen], came[seen], ends, fmt="o", ms=4, capsize=2, color=f"C{number}", label=f"above {level:g} {unit}"
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(1e-3, 1.2),
        ylim=(1e-3, 1.2),
        xlabel="forecast probability",
        ylabel="frequency",
    )
    axes.legend()
    return figure, "Of members that no training saw, at any time before the end; on the line a forecast is reliable."


def beside(values: Mapping[str, np.ndarray], what: str, unit: str) -> tuple[Figure, str] | None:
    """What a surrogate said beside the truth, in all audits, and the mean that they correct.

    Args:
        values: of whole runs, as `audits.mean` takes them.
        what: is said, in this unit.
    Returns: None before there is an audit.
    """
    audited = (values["version"] > 0) & (values["failed"] == 0)
    if not audited.any():
        return None
    said, truth = values["said"][audited], values["truth"][audited]
    figure = Figure((3.8, 3.4), layout="constrained")
    axes = figure.subplots()
    ends = [min(said.min(), truth.min()), max(said.max(), truth.max())]
    axes.plot(ends, ends, color="0.7", lw=0.8)
    axes.plot(said, truth, "o", ms=3.5, alpha=0.7)
    axes.set(title=what, xlabel=f"coarse solver + network ({unit})", ylabel=f"fine solver ({unit})")
    mean, fine = audits.mean(values), values["truth"][values["failed"] == 0]
    alone = 1.96 * fine.std(ddof=1) / math.sqrt(len(fine)) if len(fine) > 1 else math.inf
    words = f"Mean of {len(values['said']):,} jets: {mean.value:.4g} {unit} (95 %: {mean.low:.4g} to {mean.high:.4g})"
    return figure, f"{words}; the {len(fine):,} runs of the fine solver alone give {fine.mean():.4g} ± {alone:.2g}."
