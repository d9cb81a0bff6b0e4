"""History -> figure: what every slot did, and what its time went into."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.dashboard.errors import NothingToDraw
from steersman.dashboard.history import History

SIMULATING, STARTING, WAITING, READING, OTHER = (
    "simulating", "starting a worker", "waiting for a start", "reading the start", "publishing and ending",
)  # fmt: skip
COLOURS = {
    SIMULATING: style.BLUE, STARTING: style.GREY, WAITING: style.VERMILLION, READING: style.ORANGE,
    OTHER: style.FAINT,
}  # fmt: skip
TALLEST = 4.5  # inches
ENDS = {"stopped": ("|", style.ORANGE), "failed": ("x", style.VERMILLION), "lost": ("X", style.INK)}


def shares(history: History) -> dict[str, float]:
    """Share of the slots' time by what it went into, adding up to 1; empty for a run without walkers."""
    seconds = dict.fromkeys(COLOURS, 0.0)
    total = 0.0
    first = _first_begins(history)
    for walker in history.state.walkers.values():
        gone = history.gone(walker.number)
        total += gone - walker.started
        seconds[STARTING] += max(0.0, first.get(walker.number, gone) - walker.started)
        seconds[SIMULATING] += walker.seconds["ran"]
        seconds[WAITING] += walker.seconds["waited"]
        seconds[READING] += walker.seconds["read"]
    seconds[OTHER] = max(0.0, total - sum(seconds.values()))
    whole = sum(seconds.values())
    return {cause: value / whole for cause, value in seconds.items()} if whole else {}


def draw(history: History) -> tuple[Figure, str]:
    """A Gantt chart of the slots and the trainings, and the share of time by what it went into."""
    if not len(history.segments):
        raise NothingToDraw("no segment began")
    slots = 1 + int(history.segments.slot.max())
    figure = style.sheet(min(TALLEST, 1.6 + 0.3 * slots))
    left, right = figure.subplots(1, 2, width_ratios=(4, 1))
    gantt(left, history)
    _where_time_went(right, shares(history))
    return figure, _told(history, slots)


def gantt(axes: Axes, history: History) -> None:
    """One row a slot, the trainings above them; a gap is a slot that waits."""
    segments, wall = history.segments, history.clock.wall
    slots = 1 + int(segments.slot.max())
    _bars(axes, _when(history, segments.began), _when(history, segments.ended), segments.slot, COLOURS[SIMULATING])
    first = _first_begins(history)
    hired = [walker for walker in history.state.walkers.values() if walker.number in first]
    starts = _when(history, np.array([walker.started for walker in hired]))
    begins = _when(history, np.array([first[walker.number] for walker in hired]))
    _bars(axes, starts, begins, np.array([walker.slot for walker in hired]), COLOURS[STARTING])
    _trainings(axes, history, slots)
    _ends(axes, history)
    ticks = list(range(slots)) if slots <= 12 else list(range(0, slots, max(1, slots // 8)))
    axes.set_yticks([*ticks, slots], [*(f"slot {slot}" for slot in ticks), "training"])
    axes.set(xlabel=wall.label, xlim=(0, None), ylim=(slots + 0.6, -0.6))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _bars(axes: Axes, begin: np.ndarray, end: np.ndarray, row: np.ndarray, colour: str) -> None:
    """Many boxes as one picture: a run has as many as segments."""
    low, high = row - 0.36, row + 0.36
    corners = np.stack([begin, low, begin, high, end, high, end, low], axis=1).reshape(-1, 4, 2)
    boxes = PolyCollection(corners, facecolors=colour, linewidths=0, rasterized=len(corners) > 1000)
    axes.add_collection(boxes)
    axes.autoscale_view()


def _trainings(axes: Axes, history: History, row: int) -> None:
    for model in history.state.models:
        begin, end = _when(history, np.array([model.at, model.card.get("t", history.state.now)]))
        colour = {True: style.PURPLE, False: style.VERMILLION, None: style.FAINT}[model.accepted]
        _bars(axes, np.array([begin]), np.array([end]), np.array([row]), colour)
        axes.annotate(f" {model.version}", (end, row), va="center", fontsize=7)


def _ends(axes: Axes, history: History) -> None:
    """Mark the segments that did not end by themselves."""
    segments = history.segments
    for how, (marker, colour) in ENDS.items():
        mine = segments.how == how
        if mine.any():
            at = _when(history, segments.ended[mine])
            label = f"{how} ({int(mine.sum()):,})"
            axes.scatter(at, segments.slot[mine] - 0.42, marker=marker, color=colour, s=18, label=label, clip_on=False)
    if axes.get_legend_handles_labels()[0]:
        style.legend_above(axes)


def _where_time_went(axes: Axes, found: dict[str, float]) -> None:
    causes = list(found)
    axes.barh(range(len(causes)), [100 * found[cause] for cause in causes], color=[COLOURS[cause] for cause in causes])
    for row, cause in enumerate(causes):
        axes.annotate(
            f"{cause}  {100 * found[cause]:.1f} %", (0, row - 0.4), va="bottom", fontsize=7.5,
        )  # fmt: skip
    axes.set(xlim=(0, 100), ylim=(len(causes) - 0.4, -1.0))
    axes.set_axis_off()
    for patch in axes.patches:
        patch.set_height(0.3)


def _first_begins(history: History) -> dict[int, float]:
    """When each walker began its first segment."""
    segments = history.segments
    walkers, first = np.unique(segments.walker, return_index=True)
    return dict(zip(walkers.tolist(), segments.began[first].tolist(), strict=True))


def _when(history: History, moments: np.ndarray) -> np.ndarray:
    return np.asarray(history.clock.elapsed(moments) / history.clock.wall.divisor)


def _told(history: History, slots: int) -> str:
    found = sorted(shares(history).items(), key=lambda item: -item[1])
    told = ", ".join(f"{cause} {100 * share:.1f} %" for cause, share in found if share >= 0.0005)
    return f"What {slots} slots spent their time on: {told}."
