"""The loop in one figure, for the README.

python docs/figures/loop.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, SOFT, LINE, PAPER = "#22272e", "#5b6570", "#aeb6c0", "#ffffff"
BLUE, GREEN, PURPLE, VERMILION = "#0072b2", "#009e73", "#b0578f", "#d55e00"
WIDTH, HEIGHT = 2.5, 1.15  # of a box, in inches, as are all places here
ROW, BELOW = 4.1, 1.75

BOXES = {  # name: (x, y, colour, what it does, how)
    "steer": (1.6, ROW, VERMILION, "outliers and novelty choose starts;", "rules stop runs and segments"),
    "simulate": (5.6, ROW, BLUE, "long-lived walkers run", "short segments, one per slot"),
    "store": (9.6, ROW, GREEN, "Zarr, appended while simulating,", "read while training"),
    "train": (9.6, BELOW, PURPLE, "a surrogate on what is there;", "a worse one is not used"),
    "score": (5.6, BELOW, PURPLE, "every frame under", "the newest accepted model"),
}
CARRIERS = (
    ("bus", "every message is a tuple: starts are leased, events are told, segments are stopped"),
    ("journal", "every event and every choice with its reason: resume, why and the report read it"),
)


def draw() -> Figure:
    figure = Figure(figsize=(11.2, 5.3), facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 11.2), ylim=(-0.35, 4.95))
    axes.set_axis_off()
    for name, (x, y, colour, *lines) in BOXES.items():
        _box(axes, name, (x, y), colour, lines)
    _arrows(axes)
    for row, (name, text) in enumerate(CARRIERS):
        _carrier(axes, 0.55 - 0.52 * row, name, text)
    return figure


def _arrows(axes: Axes) -> None:
    half, tall = WIDTH / 2 + 0.08, HEIGHT / 2 + 0.08
    left, middle, right = (BOXES[name][0] for name in ("steer", "simulate", "store"))
    _arrow(axes, (left + half, ROW), (middle - half, ROW), "start, stop", (0, 0.13))
    _arrow(axes, (middle + half, ROW), (right - half, ROW), "frames", (0, 0.13))
    _arrow(axes, (right, ROW - tall), (right, BELOW + tall), "frames so far", (0.12, 0), ha="left")
    _arrow(axes, (right - half, BELOW), (middle + half, BELOW), "model", (0, 0.13))
    _arrow(axes, (right - half, ROW - tall), (middle + half, BELOW + tall), "new frames", (-0.18, 0.1), ha="right")
    _arrow(axes, (middle - half, BELOW), (left, ROW - tall), "scores", (0.12, 0.02), ha="left", bend=-0.32)


def _box(axes: Axes, name: str, place: tuple[float, float], colour: str, lines: list[str]) -> None:
    x, y = place
    shape = FancyBboxPatch(
        (x - WIDTH / 2, y - HEIGHT / 2), WIDTH, HEIGHT, boxstyle="round,pad=0,rounding_size=0.12",
        facecolor=PAPER, edgecolor=colour, linewidth=1.8,
    )  # fmt: skip
    axes.add_patch(shape)
    axes.text(x, y + 0.27, name, ha="center", va="center", color=colour, fontsize=14, fontweight="bold")
    for row, line in enumerate(lines):
        axes.text(x, y - 0.07 - 0.22 * row, line, ha="center", va="center", color=SOFT, fontsize=9.5)


def _arrow(
    axes: Axes, begin: tuple[float, float], end: tuple[float, float], text: str, shift: tuple[float, float],
    *, ha: str = "center", bend: float = 0.0,
) -> None:  # fmt: skip
    arrow = FancyArrowPatch(
        begin, end, arrowstyle="-|>", mutation_scale=16, linewidth=1.5, color=INK, shrinkA=0, shrinkB=0,
        connectionstyle=f"arc3,rad={bend}",
    )  # fmt: skip
    axes.add_patch(arrow)
    x, y = ((a + b) / 2 + d for a, b, d in zip(begin, end, shift, strict=True))
    va = "bottom" if ha == "center" else "center"
    axes.text(x, y, text, ha=ha, va=va, color=INK, fontsize=11, fontstyle="italic")


def _carrier(axes: Axes, y: float, name: str, text: str) -> None:
    """A band under the loop: what everything above goes through."""
    shape = FancyBboxPatch(
        (0.35, y - 0.19), 10.5, 0.38, boxstyle="round,pad=0,rounding_size=0.1", facecolor="#eef1f4", edgecolor="none"
    )
    axes.add_patch(shape)
    axes.text(0.55, y, name, va="center", color=INK, fontsize=11.5, fontweight="bold")
    axes.text(1.75, y, text, va="center", color=SOFT, fontsize=10)


def main() -> None:
    with matplotlib.rc_context({"svg.hashsalt": "steersman"}):
        draw().savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
