"""In how many files of each room a way of running is named, before modes were objects and after, for docs/design.

python docs/figures/modes.py    (counted by the words of each mode, without comments and docstrings)
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

MODES = ("bias", "rounds", "held_out", "exact", "weight")
COUNTS = {  # room: files before and after, by mode
    "analysis": ((3, 5, 2, 0, 6), (1, 3, 2, 0, 6)),
    "calls": ((1, 2, 0, 0, 0), (1, 1, 0, 0, 0)),
    "checks": ((2, 2, 3, 2, 1), (1, 1, 2, 1, 1)),
    "cli": ((2, 5, 1, 0, 2), (1, 4, 1, 0, 2)),
    "dashboard": ((4, 1, 3, 1, 2), (1, 1, 3, 1, 2)),
    "data": ((11, 4, 6, 1, 8), (2, 3, 5, 1, 8)),
    "engine": ((6, 9, 3, 4, 3), (1, 8, 3, 4, 2)),
    "executors": ((0, 1, 0, 0, 0), (0, 2, 0, 0, 0)),
    "journal": ((6, 5, 5, 5, 5), (4, 4, 3, 5, 3)),
    "remote": ((1, 1, 0, 0, 0), (0, 1, 0, 0, 0)),
    "stages": ((4, 1, 5, 2, 1), (3, 4, 6, 3, 0)),
    "worker": ((2, 0, 3, 1, 0), (1, 0, 3, 1, 0)),
}


def draw() -> Figure:
    figure = Figure(figsize=(7.6, 4.2), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    shades = LinearSegmentedColormap.from_list("files", ["#ffffff", "#0072b2"])
    for column, (axes, title) in enumerate(zip(figure.subplots(1, 2, sharey=True), ("before", "after"), strict=True)):
        counts = np.array([both[column] for both in COUNTS.values()])
        axes.imshow(counts, cmap=shades, vmin=0, vmax=11, aspect="auto")
        for (row, mode), files in np.ndenumerate(counts):
            if files:
                axes.text(mode, row, files, ha="center", va="center", color="white" if files > 6 else "#22272e")
        heads = [f"{mode}\n{total}" for mode, total in zip(MODES, counts.sum(0), strict=True)]
        axes.set_xticks(range(len(MODES)), heads)
        axes.set_yticks(range(len(COUNTS)), list(COUNTS))
        axes.set_title(f"{title}: files of each room that name a mode", fontsize=10)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return figure


if __name__ == "__main__":
    with matplotlib.rc_context({"svg.hashsalt": "steersman"}):
        draw().savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
