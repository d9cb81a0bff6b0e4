"""How many walkers one driver keeps busy, from `steersman bench scale --json`, a line for each number of walkers.

python docs/figures/scale.py docs/figures/scale.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.axes import Axes

from steersman.dashboard import style

PANELS = {  # key of the benchmark: (label, factor, ticks)
    "idle_share": ("idle share of the slots (%)", 100, (0.001, 0.01, 0.1, 1)),
    "refill_p95_s": ("95 % of refills within (s)", 1, (0.001, 0.01, 0.1, 1)),
    "driver_cpu_share": ("driver, share of a core (%)", 100, (1, 10, 100)),
    "driver_rss_mb": ("driver's memory (MB)", 1, (10, 100, 1000)),
}
ASKED = {"idle_share": 2.0}


def draw(axes: Axes, key: str, walkers: list[int], values: list[float]) -> None:
    label, factor, ticks = PANELS[key]
    axes.loglog(walkers, [factor * value for value in values], "o-", color=style.BLUE, markersize=4)
    axes.set(xlabel="walkers", ylabel=label, xlim=(7, 15_000), ylim=(0.7 * ticks[0], 4 * ticks[-1]))
    style.plain_ticks(axes, (10, 100, 1000, 10_000), ticks)
    if key in ASKED:
        axes.axhline(ASKED[key], color=style.VERMILION, linewidth=0.8, linestyle="--")
        axes.annotate("asked", (walkers[0], ASKED[key]), color=style.VERMILION, va="bottom", fontsize=8)


def main() -> None:
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    with style.applied():
        figure = style.sheet(4.2)
        for axes, key in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
            draw(axes, key, [row["walkers"] for row in rows], [row[key] for row in rows])
        figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
