"""Twelve estimates of a molecule's rare crossing by each way to steer, beside the reference and plain sampling.

PYTHONPATH=. python docs/figures/crossings.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.stats import binom

from lab.crossings import MEMBERS, WINDOWS, table
from steersman.dashboard import style

LINES = Path(__file__).with_suffix(".jsonl")
ARMS = {
    "bins": "WeightedEnsemble, bins of psi",
    "psi": "Splitting by psi of now",
    "outlook": "Splitting by Outlook",
    "ranks": "Splitting by Outlook of ranks",
}
LEAST = 0.06  # percent; what is below is drawn there


def main() -> None:
    lines = [json.loads(line) for line in LINES.read_text().splitlines()]
    p = float(str(table(lines)["p"]))
    low, high = 100 * binom.ppf((0.025, 0.975), WINDOWS * MEMBERS, p) / (WINDOWS * MEMBERS)
    with style.applied():
        figure = style.sheet(2.2)
        axes = figure.subplots()
        axes.axvspan(low, high, color="0.87", lw=0, label="plain sampling, 95 % of tries")
        axes.axvline(100 * p, color="0.3", lw=1, label="reference")
        for place, arm in enumerate(ARMS):
            found = 100 * np.array([line["estimate"] for line in lines if line["score"] == arm])
            axes.plot(
                np.maximum(found, LEAST), np.full(len(found), place), "o", ms=5, alpha=0.6, mew=0, color=f"C{place}"
            )
            axes.plot(found.mean(), place, "|", ms=16, mew=2, color=f"C{place}")
        axes.set(xscale="log", xlabel="estimated probability of the crossing (%)", ylim=(len(ARMS) - 0.5, -0.5))
        axes.set_yticks(range(len(ARMS)), list(ARMS.values()))
        axes.set_xticks([0.1, 0.3, 1, 3], ["0.1", "0.3", "1", "3"])
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        figure.savefig(Path(__file__).with_suffix(".png"))


if __name__ == "__main__":
    main()
