"""Chosen frames of a run as named arrays, and which of them came of which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from steersman.store.errors import DamagedShard, StoreError, shape_mismatch
from steersman.store.frames import Frames, Span, number_of
from steersman.store.lineages import EVEN, Fate, Lineages
from steersman.system.errors import BadValue, UnknownName
from steersman.system.numbers import Positive, Whole, check


class LabelledFrame(NamedTuple):
    """A frame, and where its label lies: a group of the run's labels, and a row of it.

    Without a walker it is of before the run: its variables lie with its label.
    """

    walker: str
    row: int
    group: str
    at: int


class Labelled(Mapping[str, np.ndarray]):
    """n frames and what the label function answered for each: (n, ...) by name, read when they are first asked for.

    An answer hides the variable of the frame that has the same name, which `frames` still has: the forces of the
    expensive code those that the simulation followed.

    Args:
        frames, labels: of the run.
        places: which they are.
    Attributes:
        frames: variables of the frames alone, (n, ...) by name.
        answers: what was answered alone, (n, ...) by name.
    """

    def __init__(self, frames: Frames, labels: Frames, places: Sequence[LabelledFrame]) -> None:
        self.places = list(places)
        at = [(labels, each.group, each.at) for each in places]
        self.answers = _Rows(at)
        self.frames = _Rows([
            (frames, one.walker, one.row) if one.walker else of for one, of in zip(places, at, strict=True)
        ])  # fmt: skip

    @property
    def rows(self) -> int:
        return len(self.places)

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self.answers:
            return self.answers[name]
        if name not in self.frames:
            raise UnknownName("variable of labelled frames", name, list(self))
        return self.frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.answers, *self.frames]))

    def __len__(self) -> int:
        return len(list(iter(self)))


class _Rows(Mapping[str, np.ndarray]):
    """Single rows of groups, in their order; the variables that all of them have."""

    def __init__(self, rows: Sequence[tuple[Frames, str, int]]) -> None:
        self._rows = rows
        self._kept: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._kept:
            each = [frames.read(name, Span(group, row, row + 1)) for frames, group, row in self._rows]
            self._kept[name] = np.concatenate(each) if each else np.empty(0)
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        groups = {(id(frames), group): frames for frames, group, _ in self._rows}
        first, *others = [frames.variables(group) for (_, group), frames in groups.items()] or [[]]
        return iter([name for name in first if all(name in other for other in others)])

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __len__(self) -> int:
        return len(list(iter(self)))


class Window(Mapping[str, np.ndarray]):
    """Chosen frames as named arrays: a variable is read from disk once, when it is first asked for.

    Args:
        labelled: kept as `labels`; None: nothing is labelled.
    Attributes:
        spans: what it covers; row i of every array belongs to the i-th row of these spans, one after another.
    """

    def __init__(self, frames: Frames, spans: Sequence[Span], labelled: Labelled | None = None) -> None:
        if not any(span.rows for span in spans):
            raise StoreError(f"{frames.path}: this window has no frames; wait for more")
        self.frames, self.spans = frames, [span for span in spans if span.rows]
        self.labels = labelled
        self._kept: dict[str, np.ndarray] = {}  # no cache of a bound method: it would keep the window, until gc comes

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._kept:
            self._kept[name] = self._read_variable(name)
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.frames.variables(self.spans[0].walker))

    def __len__(self) -> int:
        return len(self.frames.variables(self.spans[0].walker))

    def changed(self) -> str | None:
        """Name a variable whose array is not any more what was read: who had it changed it in place."""
        read = Window(self.frames, self.spans)
        return next((name for name, each in self._kept.items() if each.tobytes() != read[name].tobytes()), None)

    @property
    def labelled(self) -> Labelled:
        """Frames of the run that have labels, with these, whether or not they are in this window; none before there
        are some. Those that the gate has are not among those of a training.

        Raises: BadValue: nothing is labelled here.
        """
        if self.labels is None:
            raise BadValue("frames.labelled", None, "it is there in train and in a gate, with @wf.label in the file")
        return self.labels

    @property
    def rows(self) -> int:
        return sum(span.rows for span in self.spans)

    def only(self, rows: np.ndarray) -> Window:
        """Some of the frames: (rows,) bool. Raises: StoreError: there are none."""
        spans, at = list[Span](), 0
        for span in self.spans:
            ends = np.flatnonzero(np.diff(rows[at : at + span.rows], prepend=False, append=False))
            spans += [replace(span, first=span.first + a, end=span.first + b) for a, b in ends.reshape(-1, 2).tolist()]
            at += span.rows
        return Window(self.frames, spans, self.labels)

    @property
    def ids(self) -> np.ndarray:
        """(rows,) int64, one for each frame: the same in every window of a run."""
        return np.concatenate([(number_of(s.walker) << 40) + np.arange(s.first, s.end) for s in self.spans])

    @property
    def weight(self) -> np.ndarray:
        """(rows,) float64, of the member that made each frame; 1.0 where members have none."""
        return np.repeat([span.weight for span in self.spans], [span.rows for span in self.spans])

    def lagged(self, lag: int | None = None, *, time: float | None = None) -> np.ndarray:
        """(m, 2) int64: rows of all pairs of frames, the second of which came of the first a lag later.

        Over the end of a segment, too, where another goes on exactly from the restart state that it left, under the
        same bias and parameters. A frame whose segment was split is the first of several pairs: a policy that prefers
        some ends to others prefers their pairs.

        Args:
            lag: in frames.
            time: instead of it, in units of the variable `time`; pairs may be off by 1 % of it.
        Raises: BadValue: neither or both, or a lag that is no whole number of 1 or more. MissingVariable: no `time`.
        """
        if (lag is None) == (time is None):
            raise BadValue("lag", lag, f"give it in frames, or time=, which is {time}")
        if time is not None:
            check("frames.lagged", Positive, time=time)
            return self._lineages.lagged(np.asarray(self["time"], float), time, EVEN * time)
        check("frames.lagged", Whole, lag=lag)
        pieces = self._lineages
        place = np.arange(1.0, self.rows + 1) - np.repeat(pieces.first, pieces.end - pieces.first)
        return pieces.lagged(place, float(lag or 0), 0.25)

    def fate(self, outcome: str, *, window: float | Iterable[float]) -> Fate:
        """What came of frames: for each one an entry for each member that descended from it until a window's end.

        A member descends by segments that go on exactly where another ended, also if that was split. Its first frame is
        that of a segment before which the variable `age` falls, or that goes on from none. One that was pruned, killed
        or stopped has no fate, nor has one whose window is not over.

        Args:
            outcome: a variable; that of the last frame of the member's last segment counts.
            window: of how many segments it is. The workflow stores as `age` how many of them are over with a frame, 1
                with the last frame of the first segment. Several: what members had come to at each of these ages.
        Raises: MissingVariable.
        """
        age, pieces, values = np.asarray(self["age"], float), self._lineages, self[outcome]
        fates = list(pieces.fates(age, np.ravel(list(window) if isinstance(window, Iterable) else window)))
        rows = np.concatenate([np.empty(0, np.int64), *(each for each, *_ in fates)])
        counts = [len(each) for each, *_ in fates]
        member, root = (np.repeat(np.array([each[at] for each in fates], np.int64), counts) for at in (1, 2))
        weight = np.array([span.weight for span in self.spans])[pieces.span[member]]
        last = pieces.end[member] - 1
        return Fate(rows, last, values[last], weight, root, age[last] - age[rows])

    @cached_property
    def _lineages(self) -> Lineages:
        return Lineages(self.frames, self.spans)

    def _read_variable(self, name: str) -> np.ndarray:
        """One read for each walker, however many spans it has here: segments are short."""
        first: dict[str, int] = {}
        end: dict[str, int] = {}
        for span in self.spans:
            first[span.walker] = min(span.first, first.get(span.walker, span.first))
            end[span.walker] = max(span.end, end.get(span.walker, span.end))
        try:
            rows = {walker: self.frames.read(name, Span(walker, first[walker], end[walker])) for walker in first}
        except DamagedShard:  # maybe in a gap between spans
            return np.concatenate([self.frames.read(name, span) for span in self.spans])
        (of, like), *others = rows.items()
        for walker, other in others:
            if other.shape[1:] != like.shape[1:]:
                raise shape_mismatch(
                    name, f"shape {like.shape[1:]} (of {of})", f"shape {other.shape[1:]} (of {walker})"
                )
        at = first.__getitem__
        return np.concatenate([rows[s.walker][s.first - at(s.walker) : s.end - at(s.walker)] for s in self.spans])
