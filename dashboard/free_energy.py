"""Versions of a bias -> figure: free energy along the biased score as it converges, and what the frames are worth."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from steersman.dashboard import style
from steersman.dashboard.errors import NothingToDraw
from steersman.journal.history import History
from steersman.journal.records import Biased
from steersman.steering import Bias

SHOWN, NODES, FEWEST = 4, 300, 10


def draw(history: History) -> tuple[Figure, str]:
    """Free energy in kT along the first dimension by some versions of the last model, and the effective sample size."""
    versions = history.state.sound_biases
    if not versions:
        raise NothingToDraw("no bias was made")
    of_last = [version for version in versions if version.model == versions[-1].model]
    chosen = sorted(
        {of_last[round(i)].bias: of_last[round(i)] for i in np.linspace(0, len(of_last) - 1, SHOWN)}.items()
    )
    figure = style.sheet(2.7)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    biases = [Bias.from_bytes(history.directory.bias(version).read_bytes()) for version, _ in chosen]
    _surfaces(left, [record for _, record in chosen], biases)
    _worth(right, versions)
    return figure, _caption(versions, of_last, biases[-1])


def _surfaces(axes: Axes, records: list[Biased], biases: list[Bias]) -> None:
    at, barrier = biases[-1].axes[0], biases[-1].barrier_kT
    at = np.linspace(at[0], at[-1], NODES)
    for number, (record, bias) in enumerate(zip(records, biases, strict=True)):
        energy = -np.log(np.maximum(bias.density(at), np.finfo(float).tiny))
        energy = np.where(energy - energy.min() < 1.5 * barrier, energy - energy.min(), np.nan)
        newest = number == len(biases) - 1
        shade = 0.25 + 0.5 * number / max(1, len(biases) - 1)
        look: dict[str, Any] = (
            {"color": style.BLUE, "linewidth": 2} if newest else {"color": style.GREY, "alpha": shade}
        )
        axes.plot(at, energy, label=f"{record.frames:,} frames", **look)
    axes.set(xlabel="first dimension of the biased score", ylabel="free energy / kT", ylim=(0, None))
    axes.legend(title="by", loc="best")


def _worth(axes: Axes, versions: list[Biased]) -> None:
    frames, effective = [each.frames for each in versions], [each.effective for each in versions]
    axes.plot(frames, effective, ".-", color=style.BLUE, markersize=3)
    axes.set(xlabel="scored frames", ylabel="effective size of the sample", yscale="log")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    changes = [
        (float(after.frames), after.model) for before, after in pairwise(versions) if after.model != before.model
    ]
    style.mark_models(axes, changes)


def _caption(versions: list[Biased], of_last: list[Biased], newest: Bias) -> str:
    last = versions[-1]
    few = ""
    if last.effective < FEWEST:
        few = (
            f" The weights have collapsed: {last.frames:,} frames are worth {last.effective:.0f}. The walkers are "
            "where the unbiased system hardly ever is; take fewer dimensions or a lower barrier."
        )
    return (
        f"Version {last.bias} of the bias, of {last.frames:,} frames, along the score of model {last.model}, which has "
        f"had {len(of_last)} versions. By their weights the frames are worth {last.effective:,.0f} unbiased ones. "
        f"The barrier is {newest.barrier_kT:g} kT.{few}"
    )
