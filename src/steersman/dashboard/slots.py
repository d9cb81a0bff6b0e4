"""History -> figure: what every slot did, and what its time went into."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.dashboard.figure import figure
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.slot_time import OTHER, PAUSED, READING, SIMULATING, STARTING, WAITING, shares
from steersman.journal.walkers import ModelVersion

COLOURS = {
    SIMULATING: style.BLUE, STARTING: style.GREY, WAITING: style.VERMILION, READING: style.ORANGE,
    OTHER: style.FAINT, PAUSED: style.YELLOW,
}  # fmt: skip
TALLEST = 4.5  # inches
ENDS = {"stopped": ("|", style.ORANGE), "failed": ("x", style.VERMILION), "lost": ("X", style.INK)}


@figure("slots", "What the slots did", 100)
def draw(history: History) -> tuple[Figure, str]:
    """A Gantt chart of the slots and the trainings, and the share of time by what it went into."""
    if not len(history.segments):
        raise NothingToDraw("no segment began")
    slots = 1 + int(history.segments.slot.max())
    figure = style.sheet(min(TALLEST, 1.6 + 0.3 * slots))
    left, right = figure.subplots(1, 2, width_ratios=(4, 1))
    gantt(left, history)
    where_time_went(right, shares(history.state, history.state.now))
    return figure, _caption(history, slots)


def gantt(axes: Axes, history: History) -> None:
    """One row a slot, and one for the trainings, if there are any."""
    segments, wall = history.segments, history.clock.wall
    slots = 1 + int(segments.slot.max())
    _workers(axes, history)
    _bars(axes, _when(history, segments.began), _when(history, segments.ended), segments.slot, COLOURS[SIMULATING])
    _trainings(axes, history, slots)
    _ends(axes, history)
    ticks = list(range(slots)) if slots <= 12 else list(range(0, slots, max(1, slots // 8)))
    last = [slots] if history.state.models else []
    axes.set_yticks([*ticks, *last], [*(f"slot {slot}" for slot in ticks), *(["training"] if last else [])])
    axes.set(xlabel=wall.label, xlim=(0, None), ylim=(slots + len(last) - 0.4, -0.6))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _workers(axes: Axes, history: History) -> None:
    """A worker starts, works and ends; what no segment covers while it works is waiting."""
    walkers = list(history.state.walkers.values())
    numbers, slots = [walker.number for walker in walkers], np.array([walker.slot for walker in walkers])
    worked = _working_times(history)
    gone = np.array([history.gone(number) for number in numbers])
    first, last = np.array([worked.get(n, (end, end)) for n, end in zip(numbers, gone, strict=True)]).T
    hired = np.array([walker.started for walker in walkers])
    phases = ((hired, first, STARTING), (first, last, WAITING), (last, gone, OTHER))
    for begin, end, doing in phases:
        _bars(axes, _when(history, begin), _when(history, end), slots, COLOURS[doing])
    for begin, end in history.state.wishes.pauses:
        of = (first < end) & (last > begin)
        since, until = _when(history, np.maximum(first, begin)[of]), _when(history, np.minimum(last, end)[of])
        _bars(axes, since, until, slots[of], COLOURS[PAUSED])


def _bars(axes: Axes, begin: np.ndarray, end: np.ndarray, row: np.ndarray, colour: str) -> None:
    """Many boxes as one picture: a run has as many as segments."""
    low, high = row - 0.36, row + 0.36
    corners = np.stack([begin, low, begin, high, end, high, end, low], axis=1).reshape(-1, 4, 2)
    boxes = PolyCollection(
        list(corners), facecolors=colour, linewidths=0, antialiased=False, rasterized=len(corners) > 50
    )
    axes.add_collection(boxes)
    axes.autoscale_view()


def _trainings(axes: Axes, history: History, row: int) -> None:
    few = len(history.state.models) < style.MOST_NAMED
    for model in history.state.models:
        begin, end = _when(history, np.array([model.at, model.fit.t if model.fit else history.state.now]))
        colour = style.PURPLE if model.accepted else style.FAINT
        _bars(axes, np.array([begin]), np.array([end]), np.array([row]), colour)
        axes.annotate(f" {_named(model, few)}", (end, row), va="center", fontsize=7)


def _named(model: ModelVersion, few: bool) -> str:
    if not few:
        return str(model.version)
    return f"model {model.version}" + (" not used" if model.accepted is False else "")


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


def where_time_went(axes: Axes, found: dict[str, float]) -> None:
    """A bar for each thing that the slots spent their time on."""
    causes = list(found)
    widths = [100 * found[cause] for cause in causes]
    axes.barh(np.arange(len(causes)) + 0.24, widths, height=0.22, color=[COLOURS[cause] for cause in causes])
    for row, cause in enumerate(causes):
        axes.annotate(f"{cause}  {100 * found[cause]:.1f} %", (0, row - 0.12), va="center", fontsize=7)
    axes.set(xlim=(0, 100), ylim=(len(causes) - 0.5, -0.5))
    axes.set_axis_off()


def _working_times(history: History) -> dict[int, tuple[float, float]]:
    """When each walker began its first segment and ended its last."""
    segments = history.segments
    walkers, first = np.unique(segments.walker, return_index=True)
    return {
        int(walker): (float(segments.began[at]), float(segments.ended[segments.walker == walker].max()))
        for walker, at in zip(walkers, first, strict=True)
    }


def _when(history: History, moments: np.ndarray) -> np.ndarray:
    return np.asarray(history.clock.elapsed(moments) / history.clock.wall.divisor)


def _caption(history: History, slots: int) -> str:
    found = sorted(shares(history.state, history.state.now).items(), key=lambda item: -item[1])
    words = ", ".join(f"{cause} {100 * share:.1f} %" for cause, share in found if share >= 0.0005)
    before = min(walker.started for walker in history.state.walkers.values())
    ready = history.clock.wall.text(float(history.clock.elapsed(before)))
    who = "one slot spent its" if slots == 1 else f"{slots} slots spent their"
    return f"What {who} time on: {words}. The first worker was hired after {ready}."
