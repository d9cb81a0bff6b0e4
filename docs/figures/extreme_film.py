"""A film of one storm, from its cause: the days of a window that led to the member with the strongest one of a run.

    python docs/figures/extreme_film.py RUN     # a run of `steersman run gales`

The lineage goes through every split: each day goes on exactly from the one above it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.patches import Rectangle
from scipy.special import ndtr

import steersman
from steersman.dashboard import style

BOX = 30, 60, 0, 45  # degrees: south, north, west, east
BOUND = 40.0  # m/s
EAST = 60.0  # degrees at the right edge: what comes to the box comes from the west


def main(run: steersman.Run) -> None:
    scores = run.scores.reset_index()
    last = scores.loc[scores["storm"].where(scores["time"] == scores["time"].max()).idxmax()]
    days = run.lineage(str(last["segment"]), ["v"])
    said = scores.set_index(["walker", "row"]).loc[list(zip(days["walker"].values, days["row"].values, strict=True))]
    chance = ndtr(said["mean"] / said["spread"]).to_numpy()
    east = (days["lon"] - EAST) % 360 + EAST - 360
    days = days.assign_coords(lon=east).sortby("lon").sel(lat=slice(90, 0))
    with style.applied():
        figure = style.sheet(4.6)
        panels = figure.subplots(5, 2, sharex=True, sharey=True).T.ravel()
        for number, (axes, v, p) in enumerate(zip(panels, days["v"].values, chance, strict=True)):
            mesh = axes.pcolormesh(days["lon"], days["lat"], v, cmap="RdBu_r", vmin=-BOUND, vmax=BOUND, rasterized=True)
            axes.add_patch(Rectangle((BOX[2], BOX[0]), BOX[3] - BOX[2], BOX[1] - BOX[0], fill=False, lw=1.2))
            words = (
                "the storm"
                if number == len(panels) - 1
                else f"forecast {100 * p:.1f} %"
                if p > 1e-3
                else "forecast below 0.1 %"
            )
            axes.set_title(f"day {number + 1}: {words}", fontsize=7, pad=2)
            axes.set(ylim=(15, 80), yticks=(30, 60), xticks=(-270, -180, -90, 0))
        for axes in panels[[4, 9]]:
            axes.set_xlabel("degrees east of the mountain")
        panels[2].set_ylabel("degrees north")
        figure.colorbar(mesh, ax=panels.tolist(), label="wind from the south (m/s)", shrink=0.6)
        figure.savefig(Path(__file__).with_suffix(".png"))


if __name__ == "__main__":
    main(steersman.open_run(sys.argv[1]))
