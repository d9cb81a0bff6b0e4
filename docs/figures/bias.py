"""Alanine dipeptide with and without a bias in one picture: where the walkers have been, and what the frames weigh.

steersman compare biased --seeds 1 --workers 2 --out runs/bias
steersman run oracle --seed 1 --run-dir runs/bias-oracle
python docs/figures/bias.py runs/bias runs/bias-oracle
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman import open_run
from steersman.compare.arms import PLAIN, Arm
from steersman.dashboard import style

BIASED = ""  # steered as the workflow file says
FRAME_NS, BINS, HIGHEST = 1e-4, 60, 25.0


def draw(folder: Path, oracle: Path) -> Figure:
    figure = style.sheet(2.9)
    track, surface = figure.subplots(1, 2, width_ratios=(1.5, 1))
    paths = {arm: folder / Arm(arm).slug / "seed-0" for arm in (PLAIN, BIASED)}
    for arm, label, colour in ((PLAIN, "plain dynamics", style.INK), (BIASED, "pushed by the model", style.BLUE)):
        run = open_run(paths[arm], trust=True)
        phi = run.scores["phi"].to_numpy()
        when = np.arange(1, len(phi) + 1) * FRAME_NS
        track.plot(when, np.degrees(phi), ".", color=colour, markersize=0.8, label=label, rasterized=True)
    style.mark_models(track, [(FRAME_NS * frames, model) for model, frames in run.models["frames"].items()])
    track.set(
        xlabel="simulated time of all walkers (ns)",
        ylabel="phi (degrees)",
        ylim=(-180, 180),
        yticks=range(-180, 181, 60),
    )
    style.legend_above(track, markerscale=8)
    weighed(surface, paths[BIASED], style.BLUE, "by the learned bias")
    weighed(surface, oracle, style.VERMILION, "along phi and psi")
    surface.set(xlabel="phi (degrees)", ylabel="free energy / kT", ylim=(0, HIGHEST), xticks=range(-180, 181, 90))
    style.legend_above(surface)
    return figure


def weighed(axes: Axes, path: Path, colour: str, label: str) -> None:
    """Free energy along phi with its 95 % band."""
    run = open_run(path, trust=True)
    along = "phi" if "phi" in run.scores else "torsions_0"
    found = run.unbiased.free_energy(along, bins=BINS)
    at = np.degrees(found.index.to_numpy())
    axes.plot(at, found["free_energy"], color=colour, label=label)
    axes.fill_between(at, found["low"], found["high"], color=colour, alpha=0.2, linewidth=0)


if __name__ == "__main__":
    with style.applied():
        draw(Path(sys.argv[1]), Path(sys.argv[2])).savefig(Path(__file__).with_suffix(".png"))
