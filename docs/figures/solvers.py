"""Who talks to whom when a program in Fortran or C++ calls steersman.h: for docs/solvers.md.

python docs/figures/solvers.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

from diagram import BLUE, GREEN, INK, PURPLE, VERMILION, area, arrow, box, canvas, note, save  # noqa: E402


def main() -> None:
    axes = canvas(10.4, 3.9)
    area(axes, "a node of the simulations", (4.55, 2.2), (8.5, 3.1))
    box(axes, "your solver", (1.75, 2.55), (2.3, 1.0), VERMILION, ["Fortran, C or C++;", "rank 0 of an MPI program"])
    box(axes, "walker", (6.75, 2.55), (2.6, 1.0), BLUE, ["Python: program(...),", "@wf.answer and its model"])
    arrow(axes, (2.95, 2.75), (5.4, 2.75), "socket: calls, arrays up to 64 kB", (0, 0.06), style="<|-|>")
    arrow(axes, (2.95, 2.3), (5.4, 2.3), "shared memory: larger arrays", (0, -0.3), style="<|-|>")
    box(axes, "other ranks", (1.75, 1.15), (2.3, 0.6), VERMILION, [])
    arrow(axes, (1.75, 2.03), (1.75, 1.47), "MPI", (0.12, 0), ha="left", style="<|-|>")
    box(axes, "frames", (9.6, 3.2), (1.3, 0.6), GREEN, [])
    box(axes, "models", (9.6, 2.35), (1.3, 0.6), PURPLE, [])
    box(axes, "tuple space", (9.6, 1.5), (1.3, 0.6), INK, [], fontsize=11)
    arrow(axes, (8.07, 2.75), (8.93, 3.15), "", (0, 0))
    arrow(axes, (8.93, 2.4), (8.07, 2.55), "", (0, 0))
    arrow(axes, (8.07, 2.3), (8.93, 1.6), "", (0, 0), style="<|-|>")
    note(
        axes,
        (5.2, 0.25),
        "The solver waits for each answer; only the walker talks to the run.",
        ha="center",
        va="center",
    )
    save(axes, __file__)


if __name__ == "__main__":
    main()
