"""How every figure looks: colours that colour-blind people distinguish, sizes of a paper, nothing that says nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

WIDTH = 7.2  # inches: two columns of a paper, and the width of the page
INK, FAINT, PAPER = "#22272e", "#c9ced6", "#ffffff"

# Okabe and Ito (2008), Color universal design.
BLUE, ORANGE, GREEN, VERMILION = "#0072b2", "#e69f00", "#009e73", "#d55e00"
PURPLE, SKY, YELLOW, GREY = "#cc79a7", "#56b4e9", "#d8c400", "#8a929c"

POLICY_COLOURS = {
    "prepared": GREY, "explore": ORANGE, "Random": PURPLE, "LocalOutlierFactor": BLUE, "Novelty": GREEN,
    "LeastCounts": YELLOW, "Target": VERMILION, "Unsteered": SKY, "pin": PURPLE, "continue": GREY,
}  # fmt: skip
POLICY_MARKERS = {
    "prepared": "s", "explore": "D", "Random": "o", "LocalOutlierFactor": "^", "Novelty": "v",
    "LeastCounts": "P", "Target": "*", "Unsteered": ">",
}  # fmt: skip
OTHER_COLOURS = (BLUE, GREEN, PURPLE, YELLOW)  # not those of random or continued starts, nor of failures

MOST_NAMED = 6  # models whose lines are marked with a word; more get their number only
ROOM = 0.13  # of the axis that such a word takes

TIME_MAP = LinearSegmentedColormap.from_list("time", ["#f2c14e", "#e0705a", "#93386b", "#2d1e4f"])  # light to dark

SETTINGS = {
    "font.size": 8.5, "axes.titlesize": 9, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.labelsize": 8.5, "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7, "axes.edgecolor": INK,
    "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
    "xtick.major.width": 0.7, "ytick.major.width": 0.7, "legend.frameon": False, "lines.linewidth": 1.4,
    "text.usetex": False,  # whatever a workflow file sets: there may be no LaTeX
    "axes.formatter.useoffset": False,  # a curve says 12.243, not 0.003 beside +1.224e1
    "figure.dpi": 110, "savefig.dpi": 200, "svg.hashsalt": "steersman", "figure.facecolor": PAPER,
}  # fmt: skip


@contextmanager
def applied() -> Iterator[None]:
    """Draw and save inside this, with one thread: on busy cores several would wait for each other."""
    with matplotlib.rc_context(SETTINGS), threadpool_limits(1):
        yield


def sheet(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, inches; without pyplot's list of figures, so it is gone when nobody holds it."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def policy_colour(policy: str, of: Sequence[str] = ()) -> str:
    """Always the same colour for the same policy; a user's own gets one that no other of its run has, while some are
    left."""
    if known := POLICY_COLOURS.get(policy):
        return known
    taken = {POLICY_COLOURS.get(each) for each in of}
    free = [each for each in OTHER_COLOURS if each not in taken] or OTHER_COLOURS
    own = sorted({policy, *of} - POLICY_COLOURS.keys())
    return free[own.index(policy) % len(free)]


def policy_marker(policy: str) -> str:
    return POLICY_MARKERS.get(policy, "h")


def words(name: str) -> str:
    """LocalOutlierFactor -> local outlier factor; radius_nm -> radius (nm); A, mean RMSD and kT as they are."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", " ", name).replace("_", " ")
    spaced = re.sub(r"\b[A-Z][a-z]+\b", lambda word: word[0].lower(), spaced)
    return re.sub(r" (nm|ps|ns)$", r" (\1)", spaced)


def legend_above(axes: Axes, **options: Any) -> None:
    """A legend in one line above the axes, where it hides no data."""
    settings = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 6, "borderaxespad": 0.2, "handlelength": 1.2}
    axes.legend(**{**settings, "columnspacing": 1.2, "handletextpad": 0.5, **options})


def plain_ticks(axes: Axes, x: Sequence[float], y: Sequence[float]) -> None:
    """Numbers instead of powers of ten on logarithmic axes; what is shown stays."""
    shown = axes.axis()  # which ticks would widen
    for axis, ticks in ((axes.xaxis, x), (axes.yaxis, y)):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_minor_formatter("")
    axes.axis(shown)


def mark_models(axes: Axes, moments: list[tuple[float, int]]) -> None:
    """A thin vertical line where each model came into use, with its version above, as far as there is room for it."""
    begin, end = axes.get_xlim()
    gaps = np.diff([x for x, _ in moments], append=np.inf) / (end - begin)
    named = len(moments) < MOST_NAMED and gaps.min(initial=1) > ROOM
    for x, version in moments:
        axes.axvline(x, color=INK, linewidth=0.7, linestyle=(0, (4, 3)), zorder=1)
        side: dict[str, Any] = (
            {"ha": "right", "xytext": (-3, -1)} if x > 0.9 * end else {"ha": "left", "xytext": (3, -1)}
        )
        axes.annotate(
            f"model {version}" if named else str(version), (x, 1),
            xycoords=("data", "axes fraction"), textcoords="offset points", va="top", fontsize=7, color=INK, **side,
        )  # fmt: skip
