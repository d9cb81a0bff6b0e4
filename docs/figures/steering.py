"""A comparison on alanine dipeptide in one picture: where plain and steered runs have been, and how soon.

steersman compare alanine --seeds 4 --workers 1 --policy 'LocalOutlierFactor("z")' --out runs/steering
python docs/figures/steering.py runs/steering
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure

from steersman import open_run
from steersman.analysis.comparison.arms import PLAIN, RANDOM, Arm
from steersman.analysis.comparison.curves import spread
from steersman.analysis.comparison.verdicts import collect, grid
from steersman.dashboard import style
from steersman.stages import loading

STEERED = 'LocalOutlierFactor("z")'
ARMS = {
    STEERED: ("steered", style.VERMILION),
    PLAIN: ("plain sampling", style.INK),
    RANDOM: ("random restarts", style.SKY),
}
THIN = {"aspect": 50, "pad": 0.02}
CELLS = 18  # per angle, as the yardstick has them


def draw(folder: Path) -> Figure:
    figure = style.sheet(3.1)
    plain, steered, curves = figure.subplots(1, 3, width_ratios=(1, 1, 1.25))
    for axes, arm in (plain, PLAIN), (steered, STEERED):
        found = visits(axes, folder / Arm(arm).slug / "seed-0")
        axes.set_title(ARMS[arm][0], color=ARMS[arm][1])
    steered.set_ylabel("")
    figure.colorbar(found, ax=[plain, steered], label="first visited at simulated time (ps)", location="bottom", **THIN)
    counts(curves, folder)
    return figure


def visits(axes: Axes, run: Path) -> QuadMesh:
    """The cells of phi and psi that a run with one walker visited, coloured by when it first came there."""
    scores = open_run(run).scores.sort_values("row")
    phi, psi = (np.degrees(np.arctan2(scores[f"torsions_{i + 2}"], scores[f"torsions_{i}"])) for i in (0, 1))
    edges = np.linspace(-180, 180, CELLS + 1)
    at = tuple(np.clip(np.digitize(angle, edges) - 1, 0, CELLS - 1) for angle in (psi, phi))
    first = np.full((CELLS, CELLS), np.nan)
    np.fmin.at(first, at, np.arange(1, len(scores) + 1) * 0.1)
    axes.set(
        xlabel="phi (degrees)", ylabel="psi (degrees)", aspect="equal", xticks=(-180, 0, 180), yticks=(-180, 0, 180)
    )
    axes.text(0.97, 0.04, f"{np.isfinite(first).sum()} cells", transform=axes.transAxes, ha="right")
    return axes.pcolormesh(edges, edges, first, cmap=style.TIME_MAP, rasterized=True)


def counts(axes: Axes, folder: Path) -> None:
    """Visited cells against simulated time: the median of the seeds, and each of them."""
    workflow = loading.load(loading.find("alanine"))
    for arm, (name, colour) in ARMS.items():
        runs = collect(Arm(arm), dict(enumerate(sorted((folder / Arm(arm).slug).glob("seed-?")))), workflow)
        time_ps = grid(runs, "cells")
        curves = np.array([curve.at(time_ps) for curve in runs.curves["cells"]])
        spread(axes, time_ps, curves, colour, name)
    axes.set(xlabel="simulated time (ps)", ylabel="visited cells", ylim=(0, None))
    axes.legend(loc="lower right")


if __name__ == "__main__":
    with style.applied():
        draw(Path(sys.argv[1])).savefig(Path(__file__).with_suffix(".png"))
