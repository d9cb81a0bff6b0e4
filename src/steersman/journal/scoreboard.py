"""Scored frames -> Scores: the values of every frame under the newest model, in memory and in scores.zarr."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

import numpy as np

from steersman.journal import published
from steersman.journal.frame_keys import frame_key, places
from steersman.journal.modes.ensemble import Ensemble
from steersman.journal.segments import FAILED, LOST, RUNNING, STOPPED
from steersman.journal.state import State
from steersman.steering import Scores
from steersman.steering.errors import BadScores
from steersman.steering.scores import some_missing
from steersman.store import FRAME, Frames, GroupWriter, Span, make_root, number_of
from steersman.store.names import walker_name

MISSING = "missing"  # attribute of a group: some of its scores are NaN
STALE = 100
MOST = 2**18  # frames without values that are looked at; to choose among so many takes 30 ms and 5 MB
FEW = MOST // 16  # frames to go on from that are added to an even sample without making it uneven


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
        rows, name = fullest(groups, model)
        rows = min(rows, frames)
        if not rows:
            return board
        span = Span(name, 0, rows)
        block = {variable: groups.read(variable, span) for variable in groups.variables(name)}
        board._blocks, board.frames, board._loaded = [block], rows, True
        for walker in np.unique(block["walker"]):
            board._done[walker_name(walker)] = int(block["row"][block["walker"] == walker].max()) + 1
        return board

    @property
    def names(self) -> Set[str]:
        """Of the scores that it has; none before the first frame is scored."""
        return self._blocks[0].keys() - {"walker", "row"} if self._blocks else set()

    def missing(self, state: State, most: int) -> list[Span]:
        """Published spans that have no scores yet, at most `most` frames of them."""
        found: list[Span] = []
        for span in published.spans_after(state, self._done):
            if most <= 0:
                break
            found.append(Span(span.walker, span.first, min(span.end, span.first + most)))
            most -= span.rows
        return found

    def add(self, spans: Sequence[Span], values: Mapping[str, np.ndarray]) -> None:
        """Add the scores of whole spans, row after row.

        Raises: BadScores, StoreError: other names, shapes or dtypes than those before; nothing is added.
        """
        if self._writer is None:
            group = self.path / f"{self.model:04d}"
            make_root(self.path)
            self._writer = GroupWriter(_unused(group), attributes={"model": self.model, MISSING: False})
            for loaded in self._blocks if self._loaded else []:
                self._extend(self._writer, loaded)
        walker = np.concatenate([np.full(span.rows, number_of(span.walker), np.int32) for span in spans])
        row = np.concatenate([np.arange(span.first, span.end, dtype=np.int64) for span in spans])
        block = {**{name: np.asarray(value) for name, value in values.items()}, "walker": walker, "row": row}
        if self._blocks and (odd := block.keys() ^ self._blocks[0].keys()):
            raise BadScores(min(odd), "some frames have it and others do not")
        self._extend(self._writer, block)
        self._writer.publish()
        self._blocks.append(block)
        self.frames += sum(span.rows for span in spans)
        for span in spans:
            self._done[span.walker] = span.end

    def _extend(self, writer: GroupWriter, block: Mapping[str, np.ndarray]) -> None:
        writer.extend(FRAME, block)
        writer.attributes[MISSING] |= bool(some_missing(block, len(block["row"])).any())

    def scores(self, state: State, frames: int | None = None) -> Scores:
        """What policies look at: of all scored frames, or the first `frames` of them, those of segments that count."""
        if not self._blocks:
            return unscored(state)
        self._blocks = [{name: np.concatenate([block[name] for block in self._blocks]) for name in self._blocks[0]}]
        columns = {name: column[:frames] for name, column in self._blocks[0].items()}
        return _scores(state, published.segments(state), columns.pop("walker"), columns.pop("row"), columns, self.model)


def fullest(groups: Frames, model: int) -> tuple[int, str]:
    """Rows and name of the fullest group of a model: a resumed session writes its own beside the first one's."""
    names = [name for name in groups.walkers() if name.split("-")[0] == f"{model:04d}"]
    return max(((groups.count(name), name) for name in names), default=(0, ""))


def stale(seen: tuple[int, int], published: tuple[int, int], walkers: int) -> bool:
    """Whether what was `unscored` is out of date: by 1 %, for to look at all frames costs time for each of them, and
    for each walker too."""
    return any(abs(now - then) > max(then, walkers) // STALE for then, now in zip(seen, published, strict=True))


def unscored(state: State) -> Scores:
    """Published frames, in order of starts, without values: for policies that need none.

    Of more than `MOST` it is every second, third, ...; and the last ones of segments that nobody went on from, where
    these are few, as in a run whose policy does go on from them (`Unsteered`). Of a run that begins nowhere else it is
    those of all segments that left a state.
    """
    table = published.segments(state)
    order = published.in_order(table)
    ordered = {name: column[order] for name, column in table.items()}
    behind = np.cumsum(ordered["published"] - ordered["first"])
    frames = int(behind[-1]) if len(behind) else 0
    chosen = np.arange(0, frames, max(-(-frames // MOST), 1))
    if frames > MOST:
        last = ordered["state"] & (ordered["published"] == ordered["end"])
        waiting = behind[last if state.exact else _waiting(state, ordered)] - 1
        chosen = np.union1d(chosen, waiting) if len(waiting) <= FEW else chosen
    at = np.searchsorted(behind, chosen, side="right")
    row = ordered["published"][at] - (behind[at] - chosen)
    return _scores(state, table, ordered["walker"][at].astype(np.int32), row, {}, 0)


def of_rounds(state: State, scores: Scores, needs: Iterable[str]) -> Scores:
    """What a policy of rounds looks at: the newest scores; frames without values, where these lack some that it needs
    and members too, as before the first model."""
    early = not set(needs).issubset(scores.values)
    return unscored(state) if early and ends_without_scores(state, scores) else scores


def ends_without_scores(state: State, scores: Scores) -> int:
    """How many ended segments nobody went on from, whose frames are published, and whose last frame is no end in these
    scores: it has none yet, or the end, with the restart state, was not published before.

    What `scores` say of starts may be older than the state.
    """
    table = published.segments(state)
    last = frame_key(table["walker"], table["end"] - 1)
    waiting = _waiting(state, table) & table["counts"] & (table["end"] > table["first"])
    waiting &= ~np.isin(last, list(scores.left_out))  # they will never have any
    return int((~np.isin(last[waiting], frame_key(scores.walker, scores.row)[scores.ends])).sum())


def misses_an_end(state: State, scores: Scores) -> bool:
    """Whether an end was published after these scores were put together, which have its frame."""
    table = published.segments(state)
    settled = _waiting(state, table) & table["settled"] & table["counts"] & (table["end"] > table["first"])
    last = frame_key(table["walker"], table["end"] - 1)[settled]
    return bool(np.isin(last, frame_key(scores.walker, scores.row)[~scores.ends]).any())


def _waiting(state: State, table: Mapping[str, np.ndarray]) -> np.ndarray:
    """Whether a segment has ended, is published, can be gone on with, and none was started from its last frame."""
    last = frame_key(table["walker"], table["end"] - 1)
    return np.asarray(_can_end(state, table) & (table["published"] == table["end"]) & (_times_used(state, last) == 0))


def _can_end(state: State, table: Mapping[str, np.ndarray]) -> np.ndarray:
    """Whether another segment may continue the end of one, once it is published. What was lost has none, what failed
    has another one begun in its place, from where it began, and a member that was stopped is not as old as others."""
    none = (LOST, FAILED, *[STOPPED] * state.mode(Ensemble).weighs)
    return np.asarray(~np.isin(table["how"], none) & state.goes_on_from(table["state"]))


def _scores(
    state: State,
    table: Mapping[str, np.ndarray],
    walker: np.ndarray,
    row: np.ndarray,
    values: Mapping[str, np.ndarray],
    model: int,
) -> Scores:
    # An empty segment shares its first row with the next one, which is the one that made the frame.
    kept = np.flatnonzero((table["end"] == RUNNING) | (table["end"] > table["first"]) | ~table["counts"])
    table = {name: column[kept] for name, column in table.items()}
    keys = frame_key(walker, row)
    starts = _times_used(state, keys)
    at = np.searchsorted(frame_key(table["walker"], table["first"]), keys, side="right") - 1
    known = at >= 0
    known[known] = table["walker"][at[known]] == walker[known]
    segment = (np.where(known, table["number"][at], -1) if len(kept) else np.full(len(row), -1)).astype(np.int32)
    can_end = _can_end(state, table) & table["settled"]
    ends = known & (row == table["end"][at] - 1) & can_end[at] if len(kept) else known
    missing = some_missing(values, len(row))
    counts = ~missing & (~known | table["counts"][at] if len(kept) else True)
    start_of = np.where(known, table["start"][at], -1) if len(kept) else np.full(len(row), -1)
    keep = slice(None) if counts.all() else np.flatnonzero(counts)  # no second copy of all there is, where all of it is
    if state.run.rounds and (np.diff(start_of) < 0).any():
        keep = np.lexsort((row, start_of))
        keep = keep[counts[keep]]
    columns = {name: value[keep] for name, value in values.items()}
    members: dict[str, np.ndarray] = {}
    for mode in state.modes:
        members |= mode.columns(start_of[keep])
    return Scores(
        walker[keep],
        row[keep].astype(np.int32),
        segment[keep],
        starts[keep],
        ends[keep],
        columns,
        model,
        exact=state.exact,
        left_out=frozenset(keys[missing].tolist()),
        **members,
    )


def _times_used(state: State, keys: np.ndarray) -> np.ndarray:
    if not state.used:
        return np.zeros(len(keys), np.int32)
    used, times = np.unique(np.array(state.used, np.int64), return_counts=True)
    at = places(used, keys)
    return np.where(at >= 0, times[at], 0).astype(np.int32)


def _unused(group: Path) -> Path:
    """A resumed session writes beside what an earlier one wrote."""
    session = 1
    path = group
    while path.exists():
        session += 1
        path = group.with_name(f"{group.name}-{session}")
    return path
