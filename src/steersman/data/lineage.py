"""Segment -> its lineage: the segments back to the prepared start, and the frames on that way, in continuous time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas
import xarray

from steersman.data import frames
from steersman.data.history import History
from steersman.data.segment_table import no_frame
from steersman.journal.walkers import Walker
from steersman.steering import SECONDS
from steersman.store import FRAME, Frames, MissingVariable, Span, Window
from steersman.store.names import FrameName, walker_name
from steersman.system.errors import BadInput

CF_TIME = {1.0: "seconds", 60.0: "minutes", 3600.0: "hours", 86400.0: "days"}  # by their seconds, of fields on a sphere
BEGINNING = "2000-01-01 00:00:00"  # of a calendar for times that have none


def since_prepared(history: History, walker: np.ndarray, row: np.ndarray) -> np.ndarray:
    """(n,) float: simulated time of stored frames since the prepared start, along the lineage of each.

    NaN where the run stores no `time`, or a group on the way cannot be read.
    """
    segments, stored = history.segments, _stored_times(history)
    before = np.where(segments.lost, np.nan, 0.0)  # of each segment's start
    for i, parent in enumerate(segments.parent.tolist()):  # a parent began before its children
        if parent >= 0:
            of, came = stored[int(segments.walker[parent])], int(segments.parent_row[i])
            before[i] = before[parent] + (of[came] if came < len(of) else np.nan)  # its publication may be lost
    at = segments.of_frames(walker, row)
    own = np.full(len(row), np.nan)
    for number in np.unique(walker).tolist():
        own[walker == number] = stored[number][row[walker == number]]
    return np.where(at >= 0, before[at], np.nan) + own if len(segments) else own


def _stored_times(history: History) -> dict[int, np.ndarray]:
    """`time` of every row of each walker, as it is stored."""
    times = {}
    for number, walker in history.state.walkers.items():
        times[number] = np.full(walker.frames, np.nan)
        try:
            for span in _readable(walker):
                times[number][span.first : span.end] = history.directory.frames.read("time", span)
        except MissingVariable:
            continue
        except Exception as error:  # whatever a damaged group makes its reader raise
            frames.warn_of_damage(f"frames.zarr/{walker.name}", error)
    return times


def _readable(walker: Walker) -> list[Span]:
    if walker.damaged or not walker.frames:
        return []
    if not walker.unreadable:
        return [Span(walker.name, 0, walker.frames)]
    return [Span(walker.name, each.first, walker.rows_end(each)) for each in walker.segments if each.counts]


def rows(history: History, name: str) -> pandas.DataFrame:
    """Where the frames of a lineage lie, in their order: segment, walker, row, and time since the prepared start.

    Args:
        name: of a segment, or of a frame, with which the lineage ends.
    Raises: UnknownName: the journal does not know it. BadInput: no segment of the lineage has a published frame, or
        one of them was set aside. NoFrame: its segment has no such frame.
    """
    segments = history.segments
    chain = np.array(segments.lineage(segments.find(name)))
    if aside := _aside(history, chain):
        problem = f"the lineage of {name} is not known behind {aside}, which was damaged and set aside"
        raise BadInput(f"{problem}; `run.frame` and `run.dataset` give the frames that are there")
    first, end = segments.first[chain], segments.end[chain[-1]]
    if named := FrameName.parse(name):
        if named.frame >= end - first[-1]:
            raise no_frame(name, history.state.frames)
        end = first[-1] + named.frame + 1
    ends = np.append(segments.parent_row[chain[1:]] + 1, end)
    lengths = np.maximum(ends - first, 0)
    if not lengths.any():
        raise BadInput(f"the lineage of {name} has no frames; see `run.segments`")
    spans = [
        Span(walker_name(segments.walker[i]), int(a), int(b))
        for i, a, b in zip(chain, first, ends, strict=True)
        if b > a
    ]
    return pandas.DataFrame({
        "segment": np.repeat([segments.name(i) for i in chain], lengths),
        "walker": np.repeat(segments.walker[chain], lengths),
        "row": np.concatenate([np.arange(span.first, span.end) for span in spans]),
        "time": _times(history.directory.frames, spans),
    })  # fmt: skip


def _times(stored: Frames, spans: Sequence[Span]) -> np.ndarray:
    """(n,) float: time since the prepared start of the frames of a lineage; NaN in a run that stores no `time`."""
    lengths = np.array([span.rows for span in spans])
    if "time" not in stored.variables(spans[0].walker):
        return np.full(lengths.sum(), np.nan)
    time = Window(stored, spans)["time"]  # counted from the start of each segment
    ends = np.cumsum(time[np.cumsum(lengths) - 1])
    return np.asarray(time + np.repeat([0.0, *ends[:-1]], lengths))


def lineage(history: History, name: str, names: Sequence[str] | None = None) -> xarray.Dataset:
    """The frames that led to a segment, and its own, see `Run.lineage`."""
    return dataset(history, rows(history, name), names).assign_attrs(lineage=name)


def frame(history: History, name: str, row: int) -> xarray.Dataset:
    """One row of a segment, see `Run.frame`; without a time where its lineage is not whole."""
    segments = history.segments
    at = segments.find(name)
    if _aside(history, np.array(segments.lineage(at))):
        place = {"segment": name, "walker": segments.walker[at], "row": row, "time": np.nan}
        return dataset(history, pandas.DataFrame([place])).isel({FRAME: 0})
    table = rows(history, name)
    return dataset(history, table[table["row"] == row].tail(1)).isel({FRAME: 0})


def _aside(history: History, chain: np.ndarray) -> str:
    """The first segment of a lineage whose frames cannot be read any more, or ""."""
    segments, walkers = history.segments, history.state.walkers
    for at in chain.tolist():
        walker = walkers[int(segments.walker[at])]
        if segments.lost[at] or walker.damaged or segments.number[at] in walker.unreadable:
            return segments.name(at)
    return ""


def expect_own(history: History, chosen: pandas.DataFrame) -> None:
    """Raises: BadInput: they are rows of another run, which would be read as other frames of this one."""
    run = str(history.directory.path.resolve())
    if chosen.attrs.get("run", run) != run:
        raise BadInput(f"these are rows of {chosen.attrs['run']}, and this run is {run}")


def dataset(
    history: History, chosen: pandas.DataFrame, names: Sequence[str] | None = None, *, lazy: bool = False
) -> xarray.Dataset:
    """Chosen frames, a row of the table each: in memory or lazy, with `segment` and `time` as coordinates.

    Raises: MissingVariable. BadInput: they are of another run.
    """
    expect_own(history, chosen)
    data = frames.dataset(
        history.directory.frames, chosen["walker"].to_numpy(), chosen["row"].to_numpy(), names, lazy=lazy
    )
    made_by = chosen["segment"].to_numpy(str), {"long_name": "segment that made the frame"}
    data = data.assign_coords(segment=(FRAME, *made_by)).assign_attrs(run=str(history.directory.path))
    if chosen["time"].isna().all():
        return data
    described = _described(history.state.time_unit, "lat" in data.coords)
    return data.assign_coords(time=(FRAME, chosen["time"].to_numpy(), described))


def _described(unit: str, on_sphere: bool) -> dict[str, str]:
    """What CF asks of a time; one that is no calendar's stays a duration."""
    name = {"long_name": "simulated time since the prepared start"}
    calendar = CF_TIME.get(SECONDS.get(unit, 0.0))
    if on_sphere and calendar:
        return {"standard_name": "time", "units": f"{calendar} since {BEGINNING}", "calendar": "standard", **name}
    return {"units": unit, **name}
