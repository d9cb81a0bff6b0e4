"""What splitting by a forecast is worth: the relative error of an estimate of 9,600 member-days, by what steers.

PYTHONPATH=. python docs/figures/extremes.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from lab.extremes import DAYS, MEMBERS, PLAIN, STEERED, summary
from steersman.dashboard import style

LINES = Path(__file__).with_suffix(".jsonl")
SCORES = {
    "bins": "bins of the wind",
    "own": "forecast from the wind",
    "coarse": "coarser solver (T10)",
    "linear": "linear forecast from all fields",
    "network": "network on top of it",
}


def main() -> None:
    rows = summary([json.loads(line) for line in LINES.read_text().splitlines()])
    days = DAYS * MEMBERS * (PLAIN + STEERED)
    with style.applied():
        figure = style.sheet(2.7)
        axes = figure.subplots()
        p = np.geomspace(5e-5, 2e-2, 50)
        axes.plot(p, np.sqrt((1 - p) / p * DAYS / days), color="0.5", ls="--", label="plain sampling (computed)")
        for number, (score, label) in enumerate(SCORES.items()):
            mine = [row for row in rows if row["score"] == score]
            at = np.array([float(str(row["p"])) for row in mine]) * 1.05 ** (number - 2)
            error = np.array([float(str(row["relative_error"])) for row in mine])
            ends = np.array([[float(str(row[n])) for n in ("error_low", "error_high")] for row in mine]).T
            axes.errorbar(at, error, np.abs(ends - error), fmt="o", ms=4, capsize=2, color=f"C{number}", label=label)
        axes.set(xscale="log", yscale="log", xlabel="probability of the storm in a window")
        axes.set_ylabel(f"relative error of\n{days:,} member-days")
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        figure.savefig(Path(__file__).with_suffix(".png"))


if __name__ == "__main__":
    main()
