"""Run directory -> proof that it is whole, or what is not.

A run that has ended is sealed: its manifest has the SHA-256 of each file. Of one that goes on, or whose driver was
killed, the parts are held against each other: journal against its own chain, store, models, decisions, settings
against the journal. What is not whole can be set aside: it is moved to `aside/`, the journal records it, and the run
can go on without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steersman.data.history import History
from steersman.journal import copies, manifest
from steersman.journal import file as journal
from steersman.journal.calls import RESULT, TASKS, Call
from steersman.journal.decisions import decoded
from steersman.journal.lock import driven
from steersman.journal.records import Run, Start
from steersman.journal.run_directory import RunDirectory, check_readable, sha256
from steersman.journal.state import State
from steersman.journal.walkers import ModelVersion, Walker
from steersman.store import FRAME, RESTART, SEGMENT, SEGMENT_FIELDS, DamagedShard, Frames, finish, merge, number_of
from steersman.store.check import damages, differing, read_walkers, unreadable, whose
from steersman.store.frames import STATE
from steersman.store.names import SegmentName
from steersman.store.states import rows_of

MOST_DECISIONS = 2**32  # bytes
MOST_MERGES = 10  # of one walker while it is looked at
MOST = 100  # problems of one kind that are listed


@dataclass(frozen=True)
class Problem:
    """Something that is not whole.

    Args:
        what: journal, frames, scores, model, bias, task, decisions, settings, prepared or manifest.
        where: the path, in the run directory.
        problem: what is wrong with it.
        number: walker, or version of a model or of the bias, -1 where there is none.
        segments: of the walker, that it costs; empty: all.
    """

    what: str
    where: str
    problem: str
    number: int = -1
    segments: tuple[int, ...] = ()


def verify(directory: RunDirectory) -> list[Problem]:
    """Read everything that a run wrote; an empty list means that all of it is whole.

    Raises: BadDirectory: this user may not read all of it.
    """
    check_readable(directory.path, manifest.UNSEALED[1:], deep=True)  # the manifest is read, too
    went_on = driven(directory.path)  # asked before anything is read, and again behind it
    try:
        history = History(directory)
    except OSError as error:
        return [Problem("journal", "journal.jsonl", str(error))]
    state = history.state
    if not went_on and state.end is None:  # its driver was killed; what has ended is sealed
        for walker in state.walkers.values():
            finish(directory.frames.path / walker.name)
    frames, scores, places = directory.frames, Frames(directory.scores), places_of(history)
    doubled = set() if went_on else {*merge.left_over(frames)} - state.merged.keys()  # else a merge may be under way
    checks: list[tuple[str, str, int, Iterable[str | Problem]]] = [  # each looks when it is asked
        ("journal", "journal.jsonl", -1, _journal(history, went_on)),
        *(
            ("settings", name, -1, _file(directory.path / name, digest, directory.ready / name))
            for name, digest in state.run.files.items()
        ),
        ("decisions", "decisions.jsonl", -1, _decisions(directory, went_on)),
        *(("frames", f"frames.zarr/{name}", -1, _group(frames, name)) for name in sorted({*places.values()})),
        *(("frames", f"frames.zarr/{name}", -1, _doubled(frames.path / name)) for name in sorted(doubled)),
        *(
            ("frames", f"frames.zarr/{places.get(w.number, w.name)}", w.number, _frames(frames, w))
            for w in _to_read(history)
        ),
        *(("scores", f"scores.zarr/{name}", -1, damages(scores, name)) for name in _groups(directory.scores)),
        *(("model", f"models/{m.version:04d}", m.version, _model(directory, m)) for m in state.models if m.accepted),
        *(check for mode in state.modes for check in mode.files(directory)),
    ]
    checks += [
        ("task", str(Path(TASKS, call.key, RESULT)), -1, _result(directory, call))
        for call in state.calls.values()
        if call.sha256
    ]
    if state.prepared:
        checks.append(("prepared", "prepared.pkl", -1, _file(directory.prepared, state.prepared)))
    problems = [
        problem if isinstance(problem, Problem) else Problem(what, where, problem, n)
        for what, where, n, look in checks
        for problem in _seen(look)
    ]
    return problems if went_on else [*problems, *_sealed(directory, state, {problem.where for problem in problems})]


def _seen(look: Iterable[str | Problem]) -> Iterator[str | Problem]:
    """What a check finds; whatever damaged data make it raise is what it found."""
    try:
        yield from look
    except Exception as error:
        yield f"{type(error).__name__}: {str(error)[:200]}"


def _sealed(directory: RunDirectory, state: State, known: set[str]) -> Iterator[Problem]:
    """What differs from the manifest and was not found otherwise."""
    if state.end is None:  # it goes on, or its driver was killed
        return
    at_once = state.end.outcome == "interrupted"  # by a second Ctrl-C, which leaves no time for a seal
    if at_once and not directory.manifest.exists():
        return
    if driven(directory.path) or (copies.of(directory.path) and not directory.manifest.exists()):  # a copy has a part
        return
    top = directory.path.resolve()
    try:
        for name, problem in manifest.changes(directory):
            file = (top / name).resolve()  # of a link to a file that was found: that file
            if not any(file.is_relative_to(top / where) for where in known):
                yield Problem("manifest", name, problem)
    except OSError as error:
        what = "it was not written, or is gone" if isinstance(error, FileNotFoundError) else error.strerror
        yield Problem("manifest", manifest.UNSEALED[0], f"{what}; `resume` or `verify --repair` writes it again")


def _journal(history: History, went_on: bool) -> Iterator[str]:
    if not isinstance(next(journal.read(history.directory.journal), None), Run):
        yield "its first record does not describe the run"
    yield from map(str, history.flaws[:MOST])
    torn = history.directory.journal.stat().st_size - history.place.offset
    if torn and not (went_on or driven(history.directory.path)):  # else it is being written, or was
        yield f"its last {torn} bytes are not a complete record; `resume` removes them"


def _file(path: Path, digest: str, ready: Path | None = None) -> Iterator[str]:
    """Of a file; or of one that lies ready to take its place, when the run goes on."""
    if ready and ready.is_file() and sha256(ready) == digest:
        return
    if not path.is_file():
        needed = {"environment.json": "", "prepared.pkl": "; `resume` prepares again"}
        yield f"it is missing{needed.get(path.name, '; without it the run cannot be resumed')}"
    elif digest and sha256(path) != digest:
        yield "it was changed since the run began"


def _decisions(directory: RunDirectory, went_on: bool) -> Iterator[str]:
    """Each start that steering chose is explained once, with what the journal says of it.

    What is chosen at one moment is explained, and then in the journal: so it is read in this order, and read again.
    """
    chosen = {start.start: start for start in journal.read(directory.journal, Start) if start.again is None}
    explained = dict[int, float]()  # and when
    text = directory.read(directory.decisions, MOST_DECISIONS) if directory.decisions.exists() else b""
    if went_on or driven(directory.path):
        text = text[: text.rfind(b"\n") + 1]  # behind it a line is being written, or was
    elif text[-1:] not in (b"", b"\n") and decoded(text.splitlines()[-1]):
        yield "its last line has no end; `resume` would leave it out"
    for number, line in enumerate(text.splitlines(), 1):
        if (decision := decoded(line)) is None:
            yield f"line {number} is damaged"
            continue
        start = decision.start
        same = start not in chosen or decision.agrees(chosen[start])
        again = start in explained
        if again or not same:
            yield f"line {number}: {'a second decision for this start' if again else 'the journal has another choice'}"
        explained[start] = decision.t
    if missing := sorted(chosen.keys() - explained.keys()):
        yield f"the decisions for {len(missing)} starts are missing, the first is start {missing[0]}"
    known = {start.start for start in journal.read(directory.journal, Start)}
    beyond = {start: explained[start] for start in sorted(explained.keys() - known)}
    many = len(beyond) > max(2, _slots(directory)) and len(set(beyond.values())) > 1
    if many and not (went_on and copies.of(directory.path)):  # the journal of a copy was read before, once
        first = next(iter(beyond))
        yield f"it has decisions for {len(beyond)} starts that are not in the journal, the first is start {first}"


def _slots(directory: RunDirectory) -> int:
    run = next(journal.read(directory.journal, Run), None)
    return run.slots if run else 0


def _to_read(history: History) -> list[Walker]:
    there = set(history.directory.frames.walkers())
    walkers = history.state.walkers.values()
    return [each for each in walkers if not each.damaged and (each.frames or each.name in there)]


def places_of(history: History) -> dict[int, str]:
    """The merged groups that walkers are in, by the journal, and by the store, which may know more."""
    places = {walker: group for group, walkers in history.state.merged.items() for walker in walkers}
    there = history.directory.frames.merged()
    return places | {number_of(walker): group for group, walkers in there.items() for walker in walkers}


def _group(frames: Frames, group: str) -> Iterator[str | Problem]:
    """The files of a merged group, and the array that says whose its frames are: that of its table, once more.

    A group that is not there, or goes meanwhile, is looked for with its walkers.
    """
    problems = list(_seen(differing(frames.path / group)))
    problems += [] if problems else _seen(_read_walkers(frames, group))
    if frames.own(group):
        yield from problems


def _read_walkers(frames: Frames, group: str) -> Iterator[str]:
    read_walkers(frames, group)
    yield from ()


def _doubled(path: Path) -> Iterator[str]:
    if path.exists():
        yield "a merge has left it, and its frames are in another group too; `resume` removes it"


def _frames(frames: Frames, walker: Walker) -> Iterator[str | Problem]:
    """A walker that is merged with others meanwhile is looked at again, where it is then."""
    problems: list[str | Problem] = [f"{walker.name} is missing"]
    for _ in range(MOST_MERGES):
        try:
            group = frames.group(walker.name)
        except FileNotFoundError:
            break
        problems = list(_seen(_of_walker(frames, walker, group)))
        if frames.own(group):
            break
    yield from problems


def _of_walker(frames: Frames, walker: Walker, group: str) -> Iterator[str | Problem]:
    """The store may know more than the journal, for resume adopts it; never less, and nothing else."""
    name = walker.name
    if group == name:
        yield from differing(frames.path / name)
    else:
        with contextlib.suppress(DamagedShard):  # that is a problem of the group, and costs its walkers nothing
            if (whose(frames, name) != walker.number).any():
                yield f"where {name} is said to lie there are frames of others"
                return
    if lost := tuple(each for each in unreadable_segments(frames, walker) if each not in walker.unreadable):
        words = f"{len(lost)} segments of {name} cannot be read, the first is {SegmentName(walker.number, lost[0])}"
        yield Problem("frames", f"frames.zarr/{group}", words, walker.number, lost)
    rows, table = frames.count(name), frames.read_table(name).tolist()
    if rows < walker.frames or len(table) < walker.published_segments:
        counted = f"{walker.frames} frames and {walker.published_segments} segments"
        yield f"the journal counts {counted}, but the group has {rows} and {len(table)}"
    for segment, values in zip(walker.segments[: walker.published_segments], table, strict=False):
        row = dict(zip(SEGMENT_FIELDS, values, strict=True))
        end = row["end_row"] if segment.end is None else segment.end  # None: the record that it ended was lost
        repeats = row["repeats"] != 0
        recorded = (segment.number, segment.start, segment.first, end, segment.repeats or segment.end is None)
        if recorded != (row["number"], row["start"], row["first_row"], row["end_row"], repeats or segment.end is None):
            yield f"the entries for segment {segment.name} in journal and store differ"
            return


def _groups(path: Path) -> list[str]:
    """By name; a folder that holds nothing is one that is being made."""
    return sorted(entry.name for entry in path.glob("*") if entry.is_dir() and any(entry.iterdir()))


def _model(directory: RunDirectory, model: ModelVersion) -> Iterator[str]:
    folder = directory.model(model.version)
    for name, digest in model.fit.files.items() if model.fit else ():
        if not (folder / name).is_file():
            yield f"{name} is missing"
        elif sha256(folder / name) != digest:
            yield f"{name} was changed since it was trained"


def _result(directory: RunDirectory, call: Call) -> Iterator[str]:
    file = directory.task(call.key) / RESULT
    if not file.is_file():
        yield f"the result of {call} is missing"
    elif sha256(file) != call.sha256:
        yield f"the result of {call} was changed since it was made"


def unreadable_segments(frames: Frames, walker: Walker) -> tuple[int, ...]:
    """The numbers of the segments of which a frame or the state cannot be read.

    Raises: DamagedShard: all of the walker is lost: its table of segments is, or a segment that is not published yet.
    """
    lost = unreadable(frames, walker.name)
    table = frames.read_table(walker.name)
    rows, ended, states = (lost.pop(dimension, np.zeros(0, bool)) for dimension in (FRAME, SEGMENT, RESTART))
    numbers = set(np.flatnonzero(ended).tolist())  # in runs of before, states lie there
    for number, (first, size) in enumerate(table[:, STATE : STATE + 2].tolist()):
        if size > 0 and states[first : first + rows_of(size)].any():
            numbers.add(number)
    numbers.update(each.number for each in walker.segments if rows[each.first : walker.rows_end(each)].any())
    known = walker.published_segments if walker.alive else len(walker.segments)
    if rows[walker.frames :].any() or any(each.any() for each in lost.values()) or max(numbers, default=-1) >= known:
        raise DamagedShard(str(frames.path / frames.group(walker.name)))
    return tuple(sorted(numbers))
