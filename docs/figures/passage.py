"""A run of `passage`: where its members are, and how long it says that a passage takes, beside the exact answer.

steersman run passage --seed 2; PYTHONPATH=. python docs/figures/passage.py RUN
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lab.weighted_ensemble import double_well_passage
from steersman import open_run
from steersman.dashboard import style
from steersman.steering import arrivals, passage

LENGTH = 0.01  # of a segment, in simulated time
EVERY = 10  # rounds between two estimates


def main(run: str) -> None:
    scores = open_run(run, trust=True).scored
    came, exact = arrivals(scores, scores.values["there"] > 0), double_well_passage(12.0)
    rounds = np.arange(60, came.shape[1] + 1, EVERY)
    said = LENGTH * np.array([passage(came[:, :n]) for n in rounds])
    with style.applied():
        figure = style.sheet(2.4)
        left, right = figure.subplots(1, 2)
        kept = scores.weight > 0
        dots = left.scatter(
            scores.round[kept], scores.values["x"][kept], c=np.log10(scores.weight[kept]), s=0.4, lw=0, cmap="viridis",
            rasterized=True,
        )  # fmt: skip
        figure.colorbar(dots, ax=left, label="log10 of the weight")
        for edge in (-0.8, 0.8):
            left.axhline(edge, color="0.3", lw=0.8)
        left.set(xlabel="round of 100 members", ylabel="x", xlim=(0, came.shape[1]))
        right.fill_between(rounds, said[:, 1], np.minimum(said[:, 2], 1e9), alpha=0.3, lw=0, label="95 % interval")
        right.plot(rounds, said[:, 0], label="estimate")
        right.axhline(exact, color="0.3", lw=1, label="exact")
        right.plot(rounds, LENGTH * 100 * rounds, "--", color="C1", label="simulated so far")
        right.set(yscale="log", xlabel="round", ylabel="mean first passage time", ylim=(20, 3e8))
        right.legend(loc="upper right", fontsize="small")
        figure.savefig(Path(__file__).with_suffix(".png"))


if __name__ == "__main__":
    main(sys.argv[1])
