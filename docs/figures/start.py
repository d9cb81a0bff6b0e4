"""Where the time of a small campaign goes, for the page of speed: bars of wall time, phase by phase.

steersman bench start --json > start.json; python docs/figures/start.py start.json [another.json ...]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from steersman.dashboard.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, YELLOW, applied, sheet

COLOURS = GREY, SKY, BLUE, GREEN, YELLOW, ORANGE, VERMILION, PURPLE
AXIS_INCHES, BAR_INCHES = 1.4, 0.45


def draw(files: list[str]) -> None:
    runs = [json.loads(Path(file).read_text()) for file in files]
    with applied():
        figure = sheet(AXIS_INCHES + BAR_INCHES * len(runs))
        axes = figure.subplots()
        for row, run in enumerate(runs):
            begin = 0.0
            for colour, (name, spent) in zip(COLOURS, run["phases"].items(), strict=True):
                wall = spent["wall_s"]
                axes.barh(row, wall, left=begin, color=colour, edgecolor="white", label=name if row == 0 else None)
                if wall > 0.4:
                    axes.text(begin + wall / 2, row, f"{wall:.1f}", ha="center", va="center", color="white")
                begin += wall
        axes.set_yticks(range(len(runs)), [run["workflow"] for run in runs])
        axes.invert_yaxis()
        axes.set_xlabel("wall time since the command (s)")
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
        figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    draw(sys.argv[1:])
