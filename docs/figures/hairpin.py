"""Chignolin from the extended chain: how much of the hairpin each walker has, hot at first, then pushed.

steersman run peptide --workers 2 --set sequence=YYDPETGTWY --set capped=false --set platform=CPU --set sim_ns=16 \
    --set first=10000
python docs/figures/hairpin.py runs/peptide-0001
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from steersman import open_run
from steersman.apps import molecular_dynamics as md
from steersman.dashboard import style

EVERY, MEAN = 10, 21  # frames; points of a running mean


def draw(path: Path) -> Figure:
    frames = open_run(path, trust=True).dataset(variables=["positions", "hot"]).isel(frame=slice(None, None, EVERY))
    alpha = md.build_peptide("YYDPETGTWY").alpha
    made = md.native_fraction(md.contact_maps(frames["positions"].to_numpy()[:, alpha], 0.8), md.hairpin(len(alpha)))
    hot, walker, time = (frames[name].to_numpy() for name in ("hot", "walker", "time"))
    figure = style.sheet(2.6)
    panels = figure.subplots(2, 1, sharex=True, sharey=True)
    for number, axes in zip(np.unique(walker), panels, strict=True):
        mine = walker == number
        smooth = np.convolve(made[mine], np.ones(MEAN) / MEAN, mode="same")
        for which, colour in ((hot[mine], style.ORANGE), (~hot[mine], style.BLUE)):
            axes.plot(time[mine][which] / 1000, made[mine][which], ".", color=colour, markersize=1.5, alpha=0.25)
            axes.plot(time[mine][which] / 1000, smooth[which], color=colour, linewidth=1.2)
        axes.set(ylabel=f"hairpin contacts\nof walker {number}", ylim=(0, 1.02))
    panels[0].set_title("orange: hot, until it is learned; blue: pushed at 300 K", loc="left", fontsize=8)
    panels[-1].set(xlabel="simulated time of each walker (ns)", xlim=(0, time.max() / 1000))
    return figure


if __name__ == "__main__":
    with style.applied():
        draw(Path(sys.argv[1])).savefig(Path(__file__).with_suffix(".png"))
