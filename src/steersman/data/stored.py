"""Frames of a run -> samples spread over it, enough to draw; and all of them where these are few bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steersman.data.history import History
from steersman.store import FRAME, Span, Stored, number_of
from steersman.store.names import walker_name

POSITIONS = "positions"  # variable of a frame: (atom, 3)
ANGSTROM = {"nm": 10.0, "angstrom": 1.0, "A": 1.0, "Å": 1.0, "pm": 0.01, "m": 1e10}  # by the unit of a length
MOST_BLOCKS = 300  # a block is some frames of one segment
MOST_ROWS = 20  # of a block
MOST_BYTES = 400 * 2**20  # of the frames for one figure
MOST_WHOLE = 16 * 2**20  # bytes of a variable that is read as a whole
AT_ONCE = 2**20  # bytes of a segment that is read as a whole
GOLDEN = (5**0.5 - 1) / 2  # its multiples are spread evenly from 0 to 1, however many there are
LATITUDE, LONGITUDE = ("lat", "latitude"), ("lon", "longitude")  # names of dimensions; else their units say it
_RAISED = dict(zip("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹", strict=True))


@dataclass(frozen=True)
class StoredVariable:
    """One per-frame variable: the shape of a row, and what its attributes say.

    Args:
        dims: names of its axes.
        sphere: its last two axes are a Gaussian grid of the whole sphere: latitude and longitude, (n, 2n).
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    units: str
    long_name: str
    dims: tuple[str, ...] = ()
    sphere: bool = False

    @property
    def label(self) -> str:
        return self.named(self.long_name)

    def named(self, quantity: str) -> str:
        """A quantity in this variable's unit, as an axis shows it: `kJ mol-1` becomes kJ mol⁻¹."""
        if self.units in ("", "1"):
            return quantity
        return f"{quantity} ({re.sub(r'-([0-9])', lambda power: '⁻' + _RAISED[power[1]], self.units)})"


@dataclass(frozen=True)
class TimedRows:
    """Some rows: their values, when they were made, in seconds since 1970, and where they lie, (n,) walker and row."""

    values: np.ndarray
    moments: np.ndarray
    walker: np.ndarray
    row: np.ndarray


def variables(history: History) -> dict[str, StoredVariable]:
    """What every frame of the run holds, by name."""
    frames = history.directory.frames
    walker = next((walker for walker in frames.walkers() if frames.count(walker)), None)
    if walker is None:
        return {}
    arrays, described = frames.stored(walker), {}
    units = {name: str(each.attributes.get("units", "1")) for name, each in arrays.items()}
    for name, stored in arrays.items():
        if stored.dims[0] == FRAME:
            shape, dims = stored.like.shape, stored.dims[1:]
            sphere = on_sphere(dims[-2:], units) and shape[-1] == 2 * shape[-2]
            long_name = str(stored.attributes.get("long_name", name))
            described[name] = StoredVariable(name, shape, stored.like.dtype.kind, units[name], long_name, dims, sphere)
    return described


def on_sphere(dims: Sequence[str], units: Mapping[str, str]) -> bool:
    """Whether a field's dimensions are latitude and longitude, by their names or the units of their coordinates."""
    kinds = ((LATITUDE, "north"), (LONGITUDE, "east"))
    return len(dims) == 2 and all(
        name.lower() in names or re.fullmatch(f"degrees?_{way}", units.get(name, "")) is not None
        for name, (names, way) in zip(dims, kinds, strict=True)
    )


def blocks(history: History, variable: StoredVariable, *, first: float = 0.0, last: float = 1.0) -> Iterator[TimedRows]:
    """Rows of one variable, block after block, spread evenly over a part of the run, and over each of its segments:
    their first rows are close to where steering began them, and no sample of what they did.

    Args:
        first, last: which part, as shares of the segments in the order in which they began.
    """
    segments = history.segments
    made = segments.made
    part = made[int(first * len(made)) : max(int(first * len(made)) + 1, round(last * len(made)))]
    number = min(len(part), MOST_BLOCKS)
    chosen = part[np.linspace(0, len(part) - 1, number).round().astype(int)]
    most = int(np.clip(MOST_BYTES // (_row_bytes(variable) * max(1, number)), 1, MOST_ROWS))
    arrays: dict[str, Stored] = {}
    for count, i in enumerate(chosen.tolist()):
        span = Span(walker_name(segments.walker[i]), int(segments.first[i]), int(segments.end[i]))
        if span.walker not in arrays or span.end > arrays[span.walker].rows:  # a publication is read once
            arrays[span.walker] = history.directory.frames.array(variable.name, span)
        number = min(most, span.rows)
        rows = span.first + ((np.arange(number) + count * GOLDEN % 1) * span.rows / number).astype(int)
        walker = np.full(number, segments.walker[i])
        values, moments = _read(arrays[span.walker], span, rows, variable), segments.moments(np.full(number, i), rows)
        yield TimedRows(values, moments, walker, rows)


def whole(history: History, variable: StoredVariable) -> TimedRows | None:
    """Every row that counts; None where these are too many bytes to be read for a figure."""
    segments, frames = history.segments, history.directory.frames
    spans = [Span(each.name, 0, each.frames) for each in history.state.walkers.values() if each.counted_frames]
    if sum(span.rows for span in spans) * _row_bytes(variable) > MOST_WHOLE:
        return None
    walker = np.concatenate([np.full(span.rows, number_of(span.walker)) for span in spans])
    rows = np.concatenate([np.arange(span.rows) for span in spans])
    made_by = segments.of_frames(walker, rows)
    counts = made_by >= 0
    values = np.concatenate([frames.read(variable.name, span) for span in spans])
    moments = segments.moments(made_by[counts], rows[counts])
    return TimedRows(values[counts], moments, walker[counts], rows[counts])


def _read(array: Stored, span: Span, rows: np.ndarray, variable: StoredVariable) -> np.ndarray:
    if span.rows * _row_bytes(variable) <= AT_ONCE or len(rows) == span.rows:
        return np.asarray(array.read(span.first, span.end)[rows - span.first])
    return np.concatenate([array.read(row, row + 1) for row in rows.tolist()])


def _row_bytes(variable: StoredVariable) -> int:
    return max(1, int(np.prod(variable.shape, dtype=np.int64))) * 8
