"""Runs of all arms -> figure: each yardstick against what was spent, the median of the seeds and their spread."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman.analysis.comparison.statistics import ENOUGH, band
from steersman.analysis.comparison.verdicts import Runs, grid
from steersman.dashboard import style

COLOURS = (
    style.INK, style.VERMILION, style.BLUE, style.GREEN, style.ORANGE, style.PURPLE, style.SKY, style.YELLOW, style.GREY
)  # fmt: skip
WIDEST = 95  # letters of a label that fit into a line


def draw(all_runs: Sequence[Runs]) -> Figure:
    """One panel for each yardstick."""
    names = list(all_runs[0].curves)
    arms = [fill(runs.arm.marked, WIDEST) for runs in all_runs]
    figure = style.sheet(2.8 + 0.16 * sum(1 + arm.count("\n") for arm in arms))
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        for runs, arm, colour in zip(all_runs, arms, COLOURS * len(all_runs), strict=False):
            x = grid(runs, name)
            values = np.array([curve.at(x) for curve in runs.curves[name]])
            spread(axes, x, values, colour, arm)
        axes.set(xlabel=_spent(all_runs[0].unit), ylabel=style.words(name))
        if not (axes.dataLim.y0 % 1 or axes.dataLim.y1 % 1):
            axes.locator_params(axis="y", integer=True)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=1, title=meaning(runs.seeds), alignment="left")
    return figure


def spread(axes: Axes, x: np.ndarray, values: np.ndarray, colour: str, label: str) -> None:
    """The median of curves (K, m), and its band, or each of them where they are too few for one."""
    axes.plot(x, np.median(values, axis=0), color=colour, label=label)
    if len(values) < ENOUGH:
        axes.plot(x, values.T, color=colour, linewidth=0.6, alpha=0.5)
    else:
        low, high, _ = band(values)
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def meaning(seeds: Sequence[int]) -> str:
    """What the lines are."""
    if len(seeds) < ENOUGH:
        return f"thick lines: median of {len(seeds)} seeds; thin lines: each seed"
    level = band(np.zeros((len(seeds), 1)))[-1]
    return f"lines: median of {len(seeds)} seeds; bands: its {100 * level:.0f} % intervals"


def _spent(unit: str) -> str:
    return unit if unit == "frames" else "simulated time" + (f" ({unit})" if unit != "1" else "")
