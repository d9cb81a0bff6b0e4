"""Scored frames -> Scores: the values of every frame under the newest model, in memory and in scores.zarr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steersman.engine.state import State
from steersman.steering import Scores
from steersman.store import FRAME, Frames, GroupWriter, Span


class Scoreboard:
    """Scores of the frames under one model version.

    Args:
        path: the run's scores.zarr; the version's group is made there with the first values.
        model: version of the model; 0 for scores without a model.
    """

    def __init__(self, path: Path, model: int) -> None:
        self.path, self.model = path, model
        self.frames = 0
        self._blocks: list[dict[str, np.ndarray]] = []
        self._done: dict[str, int] = {}
        self._loaded = False
        self._writer: GroupWriter | None = None

    @classmethod
    def load(cls, path: Path, model: int, frames: int) -> Scoreboard:
        """What an earlier session scored: the first `frames` of them, for the journal knows of no more."""
        board = cls(path, model)
        groups = Frames(path)
        names = [name for name in groups.walkers() if name.split("-")[0] == f"{model:04d}"]
        rows, name = max(((groups.count(name), name) for name in names), default=(0, ""))
        rows = min(rows, frames)
        if not rows:
            return board
        span = Span(name, 0, rows)
        block = {variable: groups.read(variable, span) for variable in groups.variables(name)}
        board._blocks, board.frames, board._loaded = [block], rows, True
        for walker in np.unique(block["walker"]):
            board._done[f"w{walker}"] = int(block["row"][block["walker"] == walker].max()) + 1
        return board

    def missing(self, state: State, most: int) -> list[Span]:
        """Published spans that have no scores yet, at most `most` frames of them."""
        found: list[Span] = []
        for span in state.spans_after(self._done):
            if most <= 0:
                break
            found.append(Span(span.walker, span.first, min(span.end, span.first + most)))
            most -= span.rows
        return found

    def add(self, spans: Sequence[Span], values: Mapping[str, np.ndarray]) -> None:
        """Add the scores of whole spans, row after row."""
        if self._writer is None:
            group = self.path / f"{self.model:04d}"
            self.path.mkdir(exist_ok=True)
            self._writer = GroupWriter(_unused(group), attributes={"model": self.model})
            for loaded in self._blocks if self._loaded else []:
                self._writer.extend(FRAME, loaded)
        walker = np.concatenate([np.full(span.rows, int(span.walker[1:]), np.int32) for span in spans])
        row = np.concatenate([np.arange(span.first, span.end, dtype=np.int64) for span in spans])
        block = {"walker": walker, "row": row, **{name: np.asarray(value) for name, value in values.items()}}
        self._writer.extend(FRAME, block)
        self._writer.publish()
        self._blocks.append(block)
        self.frames += sum(span.rows for span in spans)
        for span in spans:
            self._done[span.walker] = span.end

    def scores(self, state: State, frames: int | None = None) -> Scores:
        """What policies look at: of all scored frames, or the first `frames` of them, those of segments that count."""
        if not self._blocks:
            return unscored(state)
        self._blocks = [{name: np.concatenate([block[name] for block in self._blocks]) for name in self._blocks[0]}]
        columns = {name: column[:frames] for name, column in self._blocks[0].items()}
        return _scores(state, columns.pop("walker"), columns.pop("row"), columns, self.model)


def unscored(state: State) -> Scores:
    """All published frames, without values: for policies that need none."""
    spans = state.spans()
    walkers = np.array([int(span.walker[1:]) for span in spans], dtype=np.int32)
    walker = np.repeat(walkers, [span.rows for span in spans])
    row = np.concatenate([np.arange(span.first, span.end) for span in spans]) if spans else np.empty(0, np.int64)
    return _scores(state, walker, row, {}, 0)


def _scores(state: State, walker: np.ndarray, row: np.ndarray, values: Mapping[str, np.ndarray], model: int) -> Scores:
    segment, ends, counts = np.full(len(row), -1), np.zeros(len(row), bool), np.ones(len(row), bool)
    starts = _times_used(state, walker, row)
    for number, known in state.walkers.items():
        mine = np.flatnonzero(walker == number)
        segments = [each for each in known.segments if each.end is None or each.end > each.first or not each.counts]
        if not len(mine) or not segments:
            continue
        at = np.searchsorted([each.first for each in segments], row[mine], side="right") - 1
        segment[mine] = np.array([each.number for each in segments])[at]
        counts[mine] = np.array([each.counts for each in segments])[at]
        last = np.array([-1 if each.end is None else each.end - 1 for each in segments])
        ends[mine] = row[mine] == last[at]
    keep = np.flatnonzero(counts)
    kept = {name: value[keep] for name, value in values.items()}
    return Scores(walker[keep], row[keep], segment[keep], starts[keep], ends[keep], kept, model)


def _times_used(state: State, walker: np.ndarray, row: np.ndarray) -> np.ndarray:
    if not state.used:
        return np.zeros(len(row), np.int64)
    used = np.array([(_key(*frame), times) for frame, times in state.used.items()], dtype=np.int64)
    used = used[np.argsort(used[:, 0])]
    keys = _key(walker.astype(np.int64), row.astype(np.int64))
    at = np.minimum(np.searchsorted(used[:, 0], keys), len(used) - 1)
    return np.where(used[at, 0] == keys, used[at, 1], 0)


def _key(walker: Any, row: Any) -> Any:
    return walker * 2**40 + row


def _unused(group: Path) -> Path:
    """A resumed session writes beside what an earlier one wrote."""
    session = 1
    path = group
    while path.exists():
        session += 1
        path = group.with_name(f"{group.name}-{session}")
    return path
