"""The loop in one figure, for the README.

python docs/figures/loop.py
"""

from __future__ import annotations

from diagram import BLUE, GREEN, PURPLE, VERMILION, arrow, band, box, canvas, save
from matplotlib.axes import Axes

WIDTH, HEIGHT = 2.5, 1.15  # of a box
ROW, BELOW = 4.1, 1.75

BOXES = {  # name: (x, y, colour, what it does, how)
    "steer": (1.6, ROW, VERMILION, "outliers and novelty choose starts;", "rules stop runs and segments"),
    "simulate": (5.6, ROW, BLUE, "long-lived walkers run", "short segments, one per slot"),
    "store": (9.6, ROW, GREEN, "Zarr, appended while simulating,", "read while training"),
    "train": (9.6, BELOW, PURPLE, "a surrogate on what is there;", "a worse one is not used"),
    "score": (5.6, BELOW, PURPLE, "every frame under", "the newest accepted model"),
}
CARRIERS = (
    ("bus", "every message is a tuple: starts are leased, events are reported, segments are stopped"),
    ("journal", "every event and every choice with its reason: resume, why and the report read it"),
)


def draw() -> Axes:
    axes = canvas(11.2, 4.95, below=0.35)
    for name, (x, y, colour, *lines) in BOXES.items():
        box(axes, name, (x, y), (WIDTH, HEIGHT), colour, lines)
    _arrows(axes)
    for row, (name, text) in enumerate(CARRIERS):
        band(axes, 0.55 - 0.52 * row, 10.5, name, text)
    return axes


def _arrows(axes: Axes) -> None:
    half, tall = WIDTH / 2 + 0.08, HEIGHT / 2 + 0.08
    left, middle, right = (BOXES[name][0] for name in ("steer", "simulate", "store"))
    arrow(axes, (left + half, ROW), (middle - half, ROW), "start, stop", (0, 0.13))
    arrow(axes, (middle + half, ROW), (right - half, ROW), "frames", (0, 0.13))
    arrow(axes, (right, ROW - tall), (right, BELOW + tall), "frames so far", (0.12, 0), ha="left")
    arrow(axes, (right - half, BELOW), (middle + half, BELOW), "model", (0, 0.13))
    arrow(axes, (right - half, ROW - tall), (middle + half, BELOW + tall), "new frames", (-0.18, 0.1), ha="right")
    arrow(axes, (middle - half, BELOW), (left, ROW - tall), "scores", (0.12, 0.02), ha="left", bend=-0.32)


if __name__ == "__main__":
    save(draw(), __file__)
