"""Boxes and arrows of the diagrams; all places in inches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, SOFT, LINE, PAPER, BAND = "#22272e", "#5b6570", "#aeb6c0", "#ffffff", "#eef1f4"
BLUE, GREEN, PURPLE, VERMILION = "#0072b2", "#009e73", "#b0578f", "#d55e00"

Place = tuple[float, float]


def canvas(width: float, height: float, below: float = 0.0) -> Axes:
    """Axes of a new figure from (0, -below) to (width, height)."""
    figure = Figure(figsize=(width, height + below), facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(-below, height))
    axes.set_axis_off()
    return axes


def save(axes: Axes, program: str) -> None:
    """As an SVG beside the program that drew it, the same at every call."""
    with matplotlib.rc_context({"svg.hashsalt": "steersman"}):
        axes.figure.savefig(Path(program).with_suffix(".svg"), metadata={"Date": None})


def box(
    axes: Axes, name: str, middle: Place, size: Place, colour: str, lines: Sequence[str], *, fontsize: float = 14
) -> None:
    """A frame with a name and what it is below."""
    x, y = middle
    _round(axes, middle, size, 0.12, facecolor=PAPER, edgecolor=colour, linewidth=1.8)
    top = y + 0.085 + 0.092 * len(lines)
    axes.text(x, top, name, ha="center", va="center", color=colour, fontsize=fontsize, fontweight="bold")
    for row, line in enumerate(lines):
        axes.text(x, top - 0.34 - 0.22 * row, line, ha="center", va="center", color=SOFT, fontsize=9.5)


def arrow(
    axes: Axes, begin: Place, end: Place, text: str, shift: Place, *, ha: str = "center", bend: float = 0.0,
    style: str = "-|>",
) -> None:  # fmt: skip
    """An arrow with a word beside its middle."""
    axes.add_patch(
        FancyArrowPatch(
            begin, end, arrowstyle=style, mutation_scale=16, linewidth=1.5, color=INK, shrinkA=0, shrinkB=0,
            connectionstyle=f"arc3,rad={bend}",
        )
    )  # fmt: skip
    x, y = ((a + b) / 2 + d for a, b, d in zip(begin, end, shift, strict=True))
    note(axes, (x, y), text, ha=ha, va="bottom" if ha == "center" else "center")


def note(axes: Axes, place: Place, text: str, **where: str) -> None:
    axes.text(*place, text, color=INK, fontsize=11, fontstyle="italic", **where)


def band(axes: Axes, y: float, width: float, name: str, text: str, begins: float = 1.75) -> None:
    """What everything above goes through."""
    left = 0.35
    _round(axes, (left + width / 2, y), (width, 0.38), 0.1, facecolor=BAND, edgecolor="none")
    axes.text(left + 0.2, y, name, va="center", color=INK, fontsize=11.5, fontweight="bold")
    axes.text(begins, y, text, va="center", color=SOFT, fontsize=10)


def area(axes: Axes, name: str, middle: Place, size: Place) -> None:
    """A shaded place that holds boxes, with its name above them."""
    _round(axes, middle, size, 0.12, facecolor=BAND, edgecolor=LINE, linewidth=1.0)
    (x, y), (width, height) = middle, size
    axes.text(x - width / 2 + 0.15, y + height / 2 - 0.2, name, va="center", color=INK, fontsize=11, fontweight="bold")


def _round(axes: Axes, middle: Place, size: Place, corner: float, **look: object) -> None:
    (x, y), (width, height) = middle, size
    shape = f"round,pad=0,rounding_size={corner}"
    axes.add_patch(FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle=shape, **look))
