"""What a run of jets has -> figures for its report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from matplotlib.figure import Figure

from steersman.steering import audits

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
