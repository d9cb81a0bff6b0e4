"""Runs of all arms -> figure: each yardstick against what was spent, median of the seeds with its 95 % band."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure

from steersman.compare.comparison import SEED, Runs, grid
from steersman.compare.statistics import band
from steersman.dashboard import style

COLOURS = (
    style.INK, style.SKY, style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.ORANGE, style.YELLOW, style.GREY
)  # fmt: skip
WIDEST = 95  # letters of a label that fit into a line


def draw(all_runs: Sequence[Runs]) -> Figure:
    """One panel for each yardstick."""
    names = list(all_runs[0].curves)
    arms = [fill(runs.arm.label + (" (guided)" if runs.arm.guided else ""), WIDEST) for runs in all_runs]
    figure = style.sheet(2.8 + 0.16 * sum(1 + arm.count("\n") for arm in arms))
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        for runs, arm, colour in zip(all_runs, arms, COLOURS * len(all_runs), strict=False):
            x = grid(runs, name)
            values = np.array([curve.at(x) for curve in runs.curves[name]])
            middle, low, high = band(values, np.random.default_rng(SEED))
            axes.plot(x, middle, color=colour, label=arm)
            axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.set(xlabel=_spent(all_runs[0].unit), ylabel=style.words(name))
        if not (axes.dataLim.y0 % 1 or axes.dataLim.y1 % 1):
            axes.locator_params(axis="y", integer=True)
    handles, labels = panels[0].get_legend_handles_labels()
    what = f"lines: median of {len(all_runs[0].seeds)} seeds; bands: 95 % intervals of the median"
    figure.legend(handles, labels, loc="outside upper left", ncols=1, title=what, alignment="left")
    return figure


def _spent(unit: str) -> str:
    return unit if unit == "frames" else "simulated time" + (f" ({unit})" if unit != "1" else "")
