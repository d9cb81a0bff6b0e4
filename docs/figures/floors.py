"""The rooms as floors, from the table that tests/test_layout.py checks: a room imports only what lies below it.

python docs/figures/floors.py
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from diagram import BLUE, GREEN, INK, PURPLE, VERMILION, box, canvas, note, save  # noqa: E402

from tests.test_layout import MAY_IMPORT  # noqa: E402

WHAT = {
    "system": "the operating system", "site_configs": "shipped site files",
    "client": "C, C++, Fortran", "bus": "the tuple space",
    "store": "frames in Zarr",
    "steering": "policies, rules", "models": "networks, ranks", "executors": "sites to Parsl",
    "journal": "a run as it is recorded", "stages": "a workflow file", "worker": "what runs on a node",
    "apps": "science", "dashboard": "report, live page", "engine": "the driver of a run",
    "checks": "before a run",
    "workflows": "the shipped files", "data": "a run is read", "analysis": "runs are judged",
    "remote": "Globus Compute", "calls": "runs from Python",
    "benchmarks": "one JSON object each",
    "cli": "the command line",
}  # fmt: skip
COLOURS = (INK, GREEN, PURPLE, BLUE, VERMILION)
BACK = {("stages", "workflows")}  # only to find the shipped files
WIDTH, HEIGHT, GAP = 10.4, 0.78, 0.12


@cache
def floor(room: str) -> int:
    """On the floor above the highest room that it imports."""
    if room in ("cli", "benchmarks"):
        return 1 + max(map(floor, MAY_IMPORT.keys() - {"cli", "benchmarks"}))
    below = {each for each in MAY_IMPORT[room] if (room, each) not in BACK}
    return 1 + max(map(floor, below), default=-1)


def main() -> None:
    floors: dict[int, list[str]] = {}
    for room in WHAT:
        floors.setdefault(floor(room), []).append(room)
    axes = canvas(WIDTH, len(floors) * (HEIGHT + GAP) + 0.5)
    for level, rooms in floors.items():
        width = (WIDTH - GAP) / len(rooms)
        for place, room in enumerate(rooms):
            middle = (GAP + (place + 0.5) * width, GAP + level * (HEIGHT + GAP) + HEIGHT / 2)
            colour = COLOURS[level % len(COLOURS)]
            box(axes, f"{room}/", middle, (width - GAP, HEIGHT), colour, [WHAT[room]], fontsize=12)
    words = "A room imports only what lies on a floor below it; stages/ also finds the shipped workflows/."
    note(axes, (WIDTH / 2, len(floors) * (HEIGHT + GAP) + 0.28), words, ha="center", va="center")
    save(axes, __file__)


if __name__ == "__main__":
    assert set(WHAT) == set(MAY_IMPORT)
    main()
