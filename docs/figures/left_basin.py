"""A run of `examples/left_basin.py`: what it says of both lives the longer it goes on, beside what plain runs say.

steersman run examples/left_basin.py --seed 2 --set sim_ns=6; python docs/figures/left_basin.py RUN
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from steersman import open_run
from steersman.dashboard import style
from steersman.steering import life

REPORT_NS = 1e-4
BASINS = (("the way to the left-handed basin", 134, 22), ("life there", 3.0, 0.5))  # ns, and the standard error


def main(run: str) -> None:
    scores = open_run(run, trust=True).scored
    order = np.argsort(scores.segment, kind="stable")
    hot, basin, left, faster = (scores.values[name][order] for name in ("hot", "basin", "left", "faster"))
    frames = np.arange(600, len(order), 600)
    with style.applied():
        figure = style.sheet(2.8)
        axes = figure.subplots()
        for number, (label, known, error) in enumerate(BASINS):
            there, gone = (hot == 0) & (basin == number), (hot == 0) & (basin != number) & (left > 0)
            time, passages = np.cumsum(REPORT_NS * faster * there), np.cumsum(gone)
            shown = frames[passages[frames] > 0]
            value, low, high = np.array([life(time[n], int(passages[n])) for n in shown]).T
            axes.fill_between(shown * REPORT_NS, low, high, alpha=0.3, lw=0, color=f"C{number}")
            axes.plot(shown * REPORT_NS, value, color=f"C{number}", label=f"{label}, 95 % interval")
            axes.axhspan(known - error, known + error, color="0.6", alpha=0.5, lw=0, label="plain" if number else None)
        axes.axvspan(0, REPORT_NS * hot.sum(), color="0.93", lw=0, label="hot")
        axes.set(yscale="log", ylim=(0.5, 5e4), xlim=(0, None))
        axes.set(xlabel="simulated time (ns)", ylabel="mean life (ns)")
        axes.legend(ncols=2, fontsize="small", loc="upper right")
        figure.savefig(Path(__file__).with_suffix(".png"))


if __name__ == "__main__":
    main(sys.argv[1])
