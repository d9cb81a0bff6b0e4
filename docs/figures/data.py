"""A run -> the figure of docs/data.md, drawn with `open_run` alone.

python docs/figures/data.py RUN [SEGMENT]
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import steersman


def main(path: str, segment: str = "") -> None:
    run = steersman.open_run(path)
    scores = run.scores
    segment = segment or scores.loc[scores["time"].idxmax(), "segment"]  # the longest way that was gone
    lineage = run.lineage(segment, ["positions"])
    size = np.sqrt(((lineage.positions - lineage.positions.mean("atom")) ** 2).sum("xyz").mean("atom"))

    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    walkers = lineage.walker.values
    for walker in np.unique(walkers):
        own = walkers == walker
        left.plot(lineage.time[own], size[own], ".", markersize=3, label=f"made by w{walker}")
    left.set(
        xlabel="time since the prepared start (ps)", ylabel="radius of gyration (nm)", title=f"The lineage of {segment}"
    )
    left.legend(frameon=False, markerscale=3)

    right.scatter(scores["z_0"], scores["z_1"], s=3, c="#c9ced6", linewidths=0)
    way = lineage[["time"]].to_dataframe().merge(scores, on=["walker", "row"], how="left", suffixes=("", "_"))
    right.plot(way["z_0"], way["z_1"], color="#22272e", linewidth=0.5)
    shown = right.scatter(way["z_0"], way["z_1"], s=6, c=way["time"], cmap="viridis", zorder=3)
    figure.colorbar(shown, label="time (ps)")
    right.set(xlabel="z_0", ylabel="z_1", title="Its way among all frames")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).with_name("data.png"), dpi=170)


if __name__ == "__main__":
    main(*sys.argv[1:])
