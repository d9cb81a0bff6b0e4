"""Problems of a run directory -> one that is whole, without what is damaged. Nothing is deleted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, count

import numpy as np
from msgspec import structs

from steersman.data.history import History
from steersman.data.verify import MOST_DECISIONS, Problem, places_of
from steersman.journal import file as journal
from steersman.journal import manifest, missing
from steersman.journal.decisions import Decision, decoded, encode
from steersman.journal.decisions import read as read_decisions
from steersman.journal.errors import JournalTooNew
from steersman.journal.file import Journal
from steersman.journal.lock import Lock
from steersman.journal.modes.ensemble import Ensemble
from steersman.journal.records import (
    VERSIONED,
    BadRecord,
    Began,
    Damaged,
    Ended,
    Hired,
    Joined,
    Left,
    Lost,
    Merged,
    Published,
    Record,
    Run,
    Session,
    Start,
)
from steersman.journal.run_directory import RunDirectory, sha256
from steersman.journal.scoreboard import unscored
from steersman.journal.state import REPAIRS, State
from steersman.journal.walkers import Walker
from steersman.steering.decide import UNITY
from steersman.store import Frames, StoreError, merge, number_of
from steersman.store.names import walker_name
from steersman.system.errors import DamagedFile
from steersman.system.files import replace_file


def cost(directory: RunDirectory, problems: list[Problem]) -> str:
    """What a repair sets aside, in words: `1,750 of 3,000 frames (w0)`; empty where nothing of the run is lost."""
    parts = [f"{each.what} {each.number}" for each in problems if each.what in VERSIONED]
    with contextlib.suppress(JournalTooNew):  # there is nothing then that could be lost
        parts = [*_lost(directory, problems), *parts]
    return ", ".join(dict.fromkeys(parts))


def _lost(directory: RunDirectory, problems: list[Problem]) -> Iterator[str]:
    """Frames, and models of which a damaged journal does not say any more whether they were accepted."""
    kinds = {each.what for each in problems}
    if not kinds & {"journal", "frames"}:
        return
    history, models = History(directory), list[str]()
    walkers, frames, of = set[int](), 0, history.state.frames
    if "journal" in kinds:
        mended = _mended(directory)
        state, told = State(mended), {record.start for record in mended if isinstance(record, Start)}
        told_before = {start.start for start in journal.read(directory.journal, Start)}
        if state.models.newest and (restored := len(told - told_before)):
            models.append(f"which models {restored} segments were given")
        unknown = {number_of(name): _unknown(directory, name, told) for name in directory.frames.walkers()}
        walkers |= {number for number, rows in unknown.items() if rows}
        frames += sum(unknown.values())
        of = state.frames + frames
        judged = {model.version for model in state.models if model.accepted is not None or not state.end}
        saved = {card["version"] for card in directory.cards()}
        models += [f"model {number}" for number in sorted(saved - judged)]
    if "frames" in kinds:
        lost = [each for each in _settled(history, problems) if each.what == "frames" and each.number >= 0]
        walkers |= {each.number for each in lost}
        frames += sum(_counted(history.state.walkers[each.number], each.segments) for each in lost)
    if walkers:
        yield f"{frames:,} of {of:,} frames ({', '.join(map(walker_name, sorted(walkers)))})"
    yield from models


def _unknown(directory: RunDirectory, walker: str, told: set[int]) -> int:
    """Frames in the store of segments whose start no record tells: they do not count."""
    rows = 0
    with contextlib.suppress(StoreError, DamagedFile, OSError, ValueError, KeyError):
        for row in missing.rows(directory.frames.publication(walker, 0)[1].tolist()):
            rows += (row["end_row"] - row["first_row"]) * (row["start"] not in told)
    return rows


def ends(directory: RunDirectory) -> str:
    """Why a run cannot go on, or "": members of the newest round of a weighted ensemble are lost."""
    state = History(directory).state
    newest_round = state.mode(Ensemble).newest
    if not newest_round or state.starts or state.broken:
        return ""
    members = unscored(state)
    newest = members.ends & (members.round == newest_round)
    if abs(members.weight[newest].sum() - 1) <= UNITY:
        return ""
    return "members of its newest round are lost, so the weighted ensemble cannot go on; it can be read"


def _counted(walker: Walker, segments: tuple[int, ...]) -> int:
    """Frames that count, of some segments of a walker or of all."""
    if not segments:
        return walker.counted_frames
    some = [walker.segments[number] for number in segments]
    return sum(walker.rows_end(each) - each.first for each in some if each.counts)


def _settled(history: History, problems: list[Problem]) -> list[Problem]:
    """One of each thing, the gravest. A group is set aside as a whole: nothing can be copied out of it of a walker of
    which not all can be read."""
    gravest: dict[tuple[str, str, int], Problem] = {}
    for each in problems:
        known = gravest.setdefault((each.what, each.where, each.number), each)
        if known.segments and not each.segments:
            gravest[each.what, each.where, each.number] = each
    aside = {each.where for each in gravest.values() if not each.segments}
    places = places_of(history)
    for number, walker in history.state.walkers.items():
        where = f"frames.zarr/{places.get(number, walker.name)}"
        if walker.unreadable and where in aside and not walker.damaged:
            problem = f"{len(walker.unreadable)} segments of {walker.name} cannot be read"
            gravest.setdefault(("frames", where, number), Problem("frames", where, problem, number))
    return [replace(each, segments=()) if each.where in aside else each for each in gravest.values()]


def repair(directory: RunDirectory, problems: list[Problem]) -> None:
    """Set aside what is not whole. Nothing is deleted.

    Raises: RunIsLocked: the run is being driven.
    """
    with Lock(directory.path).held():
        if any(each.what == "journal" for each in problems):
            _mend_journal(directory)
        damaged = _settled(History(directory), problems)
        saved = _save(directory, damaged)
        for each in damaged:
            odd = each.what in ("settings", "prepared") and not (directory.path / each.where).is_file()
            if odd or (each.what in ("prepared", "frames", "scores", *VERSIONED, "task") and not each.segments):
                _move_aside(directory, each.where)
        if any(each.what in ("decisions", "journal") for each in damaged):
            _mend_decisions(directory)
        if not directory.environment_file.is_file():  # nothing needs to know it
            replace_file(directory.environment_file, json.dumps(directory.environment()))
        writer = Journal(directory.journal)
        writer.append(*saved)
        for each in damaged:
            reason = f"{each.where}: {each.problem}; it is set aside"
            if each.segments:
                reason = f"{each.where}: {each.problem}; their frames count no more"
                writer.append(Damaged(
                    walker=each.number, segments=each.segments, simulated=_simulated(directory, each), reason=reason
                ))  # fmt: skip
            elif each.what == "frames" and each.number >= 0:
                writer.append(Damaged(walker=each.number, reason=reason))
            elif each.what in VERSIONED:
                writer.append(structs.replace(Damaged(reason=reason), **{each.what: each.number}))
            elif each.what == "task":
                writer.append(Damaged(file=each.where, reason=reason))
            elif each.what == "prepared":
                writer.append(Damaged(reason=f"{reason}, and `resume` prepares again"))
            elif each.what == "settings" and (directory.path / each.where).is_file():
                writer.append(Damaged(file=each.where, sha256=sha256(directory.path / each.where), reason=each.problem))
        writer.close()
    if History(directory).state.end is not None:
        manifest.seal(directory)


def _simulated(directory: RunDirectory, problem: Problem) -> float:
    """Time in the segments that a problem costs, in the run's unit, as far as they count."""
    table = History(directory).segments
    lost = (table.walker == problem.number) & np.isin(table.number, problem.segments) & (table.end > table.first)
    return float(table.simulated[lost].sum())


def _save(directory: RunDirectory, problems: list[Problem]) -> list[Merged]:
    """Copy the walkers that are whole out of each merged group that is not; give the records of the groups made so."""
    frames, state, saved = directory.frames, History(directory).state, list[Merged]()
    damaged = {walker_name(each.number) for each in problems if each.what == "frames"}
    damaged |= {walker.name for walker in state.walkers.values() if walker.damaged}
    for group, walkers in frames.merged().items():
        whole = [walker for walker in walkers if walker not in damaged]
        if whole and any(each.where == f"frames.zarr/{group}" and not each.segments for each in problems):
            into = f"m{state.next_merged + len(saved)}"
            merge.merge(frames, whole, into)
            saved.append(Merged(group=into, walkers=tuple(map(number_of, whole))))
    return saved


def _move_aside(directory: RunDirectory, where: str) -> None:
    source, target = directory.path / where, directory.path / "aside" / where
    if source.exists():
        while target.exists():
            target = target.with_name(f"{target.name}-again")
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)


def _mend_journal(directory: RunDirectory) -> None:
    """Keep the records that are whole and fit, in a new chain; the file as it was goes aside."""
    kept = _mended(directory)
    _move_aside(directory, "journal.jsonl")
    journal.rewrite(directory.journal, kept)


def _mended(directory: RunDirectory) -> list[Record]:
    """The records that are whole and fit, and before them what the store knows of those that are not."""
    state, kept, starts = State(), list[Record](), _Starts(directory)
    for record in journal.read(directory.journal):
        for each in chain(_session(state, record), _before(state, directory.frames, record, starts), (record,)):
            with contextlib.suppress(BadRecord):
                state.apply(each)
                kept.append(each)
    if not kept or not isinstance(kept[0], Run):
        settings = directory.settings()
        run = Run(workflow=settings["workflow"], seed=settings["seed"], rounds=settings["rounds"], scattered=True)
        kept.insert(0, run)
    return kept


def _session(state: State, record: Record) -> Iterator[Session]:
    """The session that began before a record of a run that had ended: without it the pause would count."""
    if state.end and not isinstance(record, (Session, *REPAIRS)):
        yield Session(t=record.t, host="", pid=0, after=state.now)


class _Starts:
    """The starts that the journal knows, and what store and decisions say of others.

    None is told in a run whose starts have weights, or are held out: the store does not know which.
    """

    def __init__(self, directory: RunDirectory) -> None:
        known = list(journal.read(directory.journal, Start))
        self._known = {start.start for start in known}
        self._told = not any(start.not_from_frames for start in known)
        self._decisions = {each.start: each for _, each in read_decisions(directory) if each}

    def of(self, state: State, row: dict[str, int], slot: int, t: float) -> Iterator[Start]:
        """The start of a published segment, if no record of it is there. Args: t: of its record."""
        if row["start"] in self._known or not self._told:
            return
        self._known.add(row["start"])
        start = structs.replace(missing.start_of(state, row, slot), t=t)
        decision = self._decisions.get(row["start"])
        pushed = any(mode.weighs for mode in state.modes)  # by which version nobody knows
        if decision and decision.frame == start.parent and not pushed:
            start = structs.replace(start, policy=decision.policy, reason=decision.reason, model=decision.model)
        yield start


def _before(state: State, frames: Frames, record: Record, starts: _Starts) -> Iterator[Record]:
    """What the store knows and a damaged line said before a record of a walker, at the latest when that came: that it
    was hired, what it ran and published, and from where."""
    if not isinstance(record, Joined | Began | Ended | Published | Left | Lost):
        return
    if record.walker not in state.walkers:
        taken = {walker.slot for walker in state.walkers.values() if walker.alive}
        yield Hired(t=record.t, walker=record.walker, slot=next(each for each in count() if each not in taken))
    walker, t = state.walkers[record.walker], record.t
    known = len(walker.segments) - (walker.running is not None)
    before = record.segments if isinstance(record, Published) else getattr(record, "segment", 0)
    with contextlib.suppress(StoreError, DamagedFile, OSError, ValueError, KeyError):
        if isinstance(record, Began):
            for row in missing.rows(frames.publication(walker.name, record.segment)[1][:1].tolist()):
                yield from starts.of(state, row, walker.slot, t)
        if before <= known and not isinstance(record, Left):
            return
        rows, table, _ = frames.publication(walker.name, known)
        for row in missing.rows(table[: None if isinstance(record, Left) else before - known].tolist()):
            yield from starts.of(state, row, walker.slot, t)
            yield from missing.of_segment(frames, walker, row, t)
        if isinstance(record, Left) and rows > walker.frames:
            yield Published(t=t, walker=walker.number, frames=rows, segments=known + len(table), adopted=True)


def _mend_decisions(directory: RunDirectory) -> None:
    """Keep the lines that say what the journal says, and say of the other starts what the journal knows."""
    known = {}
    there = directory.decisions.is_file()
    for line in directory.read(directory.decisions, MOST_DECISIONS).splitlines() if there else []:
        if decision := decoded(line):
            known[decision.start] = decision
    _move_aside(directory, "decisions.jsonl")
    with directory.decisions.open("wb") as file:
        for start in journal.read(directory.journal, Start):
            if start.again is None:
                file.write(encode(_explained(start, known.get(start.start))))


def _explained(start: Start, known: Decision | None) -> Decision:
    return known if known and known.agrees(start) else Decision.of(start, start.t)
