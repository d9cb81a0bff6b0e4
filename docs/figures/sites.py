"""What runs where on a cluster, for the page of sites.

python docs/figures/sites.py
"""

from __future__ import annotations

from diagram import BLUE, GREEN, INK, PURPLE, VERMILION, area, arrow, band, box, canvas, save
from matplotlib.axes import Axes

LOGIN, SCHEDULER, NODES = 1.65, 4.75, 8.8  # the middle of each column
TOP, LOW = 4.1, 2.15  # of each row
BOX, NODE = (2.2, 1.1), (1.75, 1.0)


def draw() -> Axes:
    axes = canvas(11.2, 5.15)
    area(axes, "login node", (LOGIN, 3.1), (2.6, 3.8))
    box(axes, "bus", (LOGIN, TOP - 0.1), BOX, GREEN, ["the tuple space, on the", "network of the nodes"])
    box(axes, "driver", (LOGIN, LOW - 0.15), BOX, VERMILION, ["steersman run fold", "--site my_cluster.yaml"])
    box(axes, "scheduler", (SCHEDULER, LOW - 0.15), (1.9, 1.1), INK, ["Slurm, PBS Pro,", "LSF, Flux"])
    area(axes, "simulation: a block of two nodes", (NODES, TOP), (4.1, 1.75))
    area(axes, "training", (NODES - 0.45, LOW), (3.2, 1.75))
    for x, node in ((NODES - 0.97, "node 1"), (NODES + 0.97, "node 2")):
        box(axes, node, (x, TOP - 0.17), NODE, BLUE, ["a walker on each", "core or GPU"], fontsize=12)
    box(
        axes,
        "node 3",
        (NODES - 0.45, LOW - 0.17),
        (2.6, 1.0),
        PURPLE,
        ["a rank on each core or GPU;", "scores, too"],
        fontsize=12,
    )
    _arrows(axes)
    band(axes, 0.42, 10.5, "run directory", "on the file system that all share: frames, models, journal, report", 2.15)
    return axes


def _arrows(axes: Axes) -> None:
    login, left, right, nodes = LOGIN + 1.38, SCHEDULER - 1.03, SCHEDULER + 1.03, NODES - 2.13
    row, ground = LOW - 0.15, 0.65
    arrow(axes, (LOGIN, TOP - 0.73), (LOGIN, row + 0.63), "", (0, 0), style="<|-|>")
    arrow(axes, (login, TOP - 0.1), (nodes, TOP - 0.1), "starts and stops, events", (0, 0.1), style="<|-|>")
    arrow(axes, (login, row), (left, row), "asks", (0, 0.1))
    arrow(axes, (right, row), (nodes, row), "blocks", (0, 0.1))
    arrow(axes, (right, row + 0.4), (nodes, TOP - 0.7), "blocks", (-0.1, 0.12), ha="right")
    arrow(axes, (LOGIN, 1.12), (LOGIN, ground), "journal", (0.12, 0), ha="left")
    arrow(axes, (NODES - 0.45, 1.2), (NODES - 0.45, ground), "frames, models", (-0.15, 0), ha="right", style="<|-|>")
    arrow(axes, (NODES + 1.6, TOP - 0.95), (NODES + 1.6, ground), "frames", (0.1, 0), ha="left", style="<|-|>")


if __name__ == "__main__":
    save(draw(), __file__)
