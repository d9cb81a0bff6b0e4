"""How long two ranks exchange, and the lines through it, from `steersman bench collectives --json`.

python docs/figures/collectives.py collectives.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from steersman.dashboard import style

LOOKS = {
    "allreduce": (style.BLUE, "o"),
    "broadcast": (style.GREEN, "s"),
    "allgather": (style.VERMILION, "^"),
}


def main() -> None:
    measured = json.loads(Path(sys.argv[1]).read_text())
    with style.applied():
        figure = style.sheet(3.2, width=4.8)
        axes = figure.subplots()
        for name, (colour, marker) in LOOKS.items():
            found = measured[name]
            sizes = np.array([int(size) for size in found["bytes"]])
            took = [each["took_s"] for each in found["bytes"].values()]
            line = np.geomspace(sizes[0], sizes[-1], 200)
            axes.loglog(sizes, took, marker, color=colour, markersize=4, label=name)
            axes.loglog(line, found["alpha_s"] + found["beta_s_per_byte"] * line, color=colour, linewidth=1)
        axes.set(xlabel="message (bytes)", ylabel="time of an operation (s)")
        axes.legend(title=f"{measured['ranks']} ranks, {measured['backend']}; lines: alpha + beta bytes")
        figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
