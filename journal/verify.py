"""Run directory -> proof that it is whole: checksums, journal against store, models against cards.

What is not whole can be set aside: it is moved to `aside/`, the journal says so, and the run can go on without it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steersman.journal import file as journal
from steersman.journal.file import Journal
from steersman.journal.history import History
from steersman.journal.lock import Lock
from steersman.journal.records import BadRecord, Damaged, Record, Start
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.journal.walkers import Walker
from steersman.store import FRAME, SEGMENT, SEGMENT_FIELDS, Frames, Span, StoreError

READ_ROWS = 2**15  # one read looks at a shard or two
BROKEN = (OSError, ValueError, KeyError, RuntimeError, StoreError)  # what zarr and its codecs raise on damaged data


@dataclass(frozen=True)
class Problem:
    """Something that is not whole.

    Args:
        what: journal, frames, scores, model, decisions or settings.
        where: the path, in the run directory.
        problem: what is wrong with it.
        number: walker or model version, -1 where there is none.
    """

    what: str
    where: str
    problem: str
    number: int = -1


def verify(directory: RunDirectory) -> list[Problem]:
    """Read everything that a run wrote; an empty list means that all of it is whole."""
    history = History(directory)
    state, found = history.state, _journal(history)
    found += _settings(directory)
    found += _decisions(directory)
    for walker in state.walkers.values():
        found += _walker(directory, walker)
    for group in Frames(directory.scores).walkers():
        if problem := _unreadable(Frames(directory.scores), group, FRAME):
            found.append(Problem("scores", f"scores.zarr/{group}", problem))
    for model in state.models:
        if model.accepted and (problem := _model(directory.model(model.version))):
            found.append(Problem("model", f"models/{model.version:04d}", problem, model.version))
    return found


def repair(directory: RunDirectory, problems: list[Problem]) -> None:
    """Set aside what is not whole. Nothing is deleted.

    Raises: RunIsLocked: the run is being driven.
    """
    with Lock(directory.path).held():
        if any(problem.what == "journal" for problem in problems):
            _cut_journal(directory)
        for problem in problems:
            if problem.what in ("frames", "scores", "model"):
                _move_aside(directory, problem.where)
        writer = Journal(directory.journal)
        for problem in problems:
            if problem.what in ("frames", "model"):
                of_model = problem.what == "model"
                fields = {"walker": None if of_model else problem.number, "model": problem.number if of_model else None}
                reason = f"{problem.where}: {problem.problem}; it is set aside"
                writer.append(Damaged(walker=fields["walker"], model=fields["model"], reason=reason))
        writer.close()


def _journal(history: History) -> list[Problem]:
    found = [Problem("journal", "journal.jsonl", str(flaw)) for flaw in history.flaws]
    if torn := history.directory.journal.stat().st_size - history.place.offset:
        words = f"its last {torn} bytes are no whole record; resume cuts them off"
        found.append(Problem("journal", "journal.jsonl", words))
    return found


def _settings(directory: RunDirectory) -> Iterator[Problem]:
    for path in (directory.settings_file, directory.workflow):
        if not path.exists():
            yield Problem("settings", path.name, "it is missing; without it the run cannot go on")


def _chosen(directory: RunDirectory) -> set[int]:
    """Starts that steering chose, not those tried again; of the records that are whole."""
    return {start.start for start in journal.read(directory.journal, Start) if start.again is None}


def _decisions(directory: RunDirectory) -> Iterator[Problem]:
    lines = directory.decisions.read_text().splitlines() if directory.decisions.exists() else []
    explained = set()
    for number, line in enumerate(lines, 1):
        try:
            explained.add(json.loads(line)["start"])
        except (ValueError, KeyError):
            yield Problem("decisions", "decisions.jsonl", f"line {number} is not whole")
    missing = sorted(_chosen(directory) - explained)
    if missing:
        yield Problem(
            "decisions", "decisions.jsonl", f"{len(missing)} starts are not explained, the first is {missing[0]}"
        )


def _walker(directory: RunDirectory, walker: Walker) -> Iterator[Problem]:
    name, frames = f"w{walker.number}", directory.frames
    where = f"frames.zarr/{name}"
    if walker.damaged or not (walker.frames or name in frames):
        return
    problem = "it is missing" if name not in frames else ""
    problem = problem or _unreadable(frames, name, FRAME) or _unreadable(frames, name, SEGMENT)
    problem = problem or _differs(frames, walker)
    if problem:
        yield Problem("frames", where, problem, walker.number)


def _unreadable(frames: Frames, name: str, dimension: str) -> str:
    """Read every row of a group, whose chunks carry checksums; returns what went wrong."""
    variable = ""
    try:
        rows = frames.rows(name, dimension)
        for variable in frames.variables(name, dimension):
            for first in range(0, rows, READ_ROWS):
                frames.read(variable, Span(name, first, min(rows, first + READ_ROWS)), dimension=dimension)
    except BROKEN as error:
        return f"{variable or dimension}: {type(error).__name__}: {str(error)[:200]}"
    return ""


def _differs(frames: Frames, walker: Walker) -> str:
    """The store may know more than the journal, for resume adopts it; never less, and nothing else."""
    name = f"w{walker.number}"
    rows, table = frames.count(name), frames.read_table(name).tolist()
    if rows < walker.frames or len(table) < walker.published_segments:
        counted = f"{walker.frames} frames and {walker.published_segments} segments"
        return f"the journal counts {counted}, it holds {rows} and {len(table)}"
    for segment, values in zip(walker.segments[: walker.published_segments], table, strict=False):
        row = dict(zip(SEGMENT_FIELDS, values, strict=True))
        told = (segment.number, segment.start, segment.first, segment.end)
        if told != (row["number"], row["start"], row["first_row"], row["end_row"]):
            return f"segment {segment.name} is another in the journal than in the store"
    return ""


def _model(folder: Path) -> str:
    try:
        described: dict[str, Any] = json.loads((folder / "model.json").read_text())
        with (folder / "weights.safetensors").open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != described["sha256"]:
                return "the weights are not those of its card (their hash differs)"
        json.loads((folder / "card.json").read_text())
    except (OSError, ValueError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _move_aside(directory: RunDirectory, where: str) -> None:
    source, target = directory.path / where, directory.path / "aside" / where
    if source.exists():
        while target.exists():
            target = target.with_name(f"{target.name}-again")
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)


def _cut_journal(directory: RunDirectory) -> None:
    """Keep the records that are whole and fit those before them, in a new chain; the file as it was goes aside."""
    history = History(directory)
    if history.flaws:
        story = list(_fitting(directory))
        _move_aside(directory, "journal.jsonl")
        journal.rewrite(directory.journal, story)
    journal.cut_torn_end(directory.journal)


def _fitting(directory: RunDirectory) -> Iterator[Record]:
    state = State()
    for record in journal.read(directory.journal):
        with contextlib.suppress(BadRecord):
            state.apply(record)
            yield record
