"""A run at a glance, computed here and nowhere else: every view shows this, and every program is given it.

docs/data.md says what each value means; `as_plain` gives them for JSON.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from steersman.data.slot_time import shares
from steersman.journal import calls, copies, records
from steersman.journal.lock import Owner, driven, owner
from steersman.journal.records import Stage
from steersman.journal.state import State
from steersman.journal.walkers import Walker
from steersman.steering import StopRule
from steersman.steering.protocols import Progress
from steersman.steering.stop import Budget
from steersman.system.calls import called
from steersman.system.errors import told

ALIVE = ("running", "paused")  # outcomes of a run that somebody drives
NO_WORKER, STARTING, PAUSED, WAITING, SIMULATING = (
    "waits for a worker", "starts", "is paused", "waits for a start", "simulates",
)  # fmt: skip


@dataclass(frozen=True)
class Fit:
    """A version of the model; `accepted` is None while it is trained."""

    version: int
    accepted: bool | None
    loss: float | None
    held_out: float | None
    reason: str


@dataclass(frozen=True)
class RuleShare:
    """A rule that may end the run, its share of the way, whether it is a goal, and what is said when it is met."""

    rule: str
    share: float
    goal: bool
    met: str


@dataclass(frozen=True)
class Spending:
    """How far the run is on its way to the end; share None: its rule is not known, for its code is not executed.

    Args:
        left_s: seconds, at the pace of late (journal/pace.py); None: not known yet, or nothing goes on.
        spends: budgets alone end it, so `left_s` is what is left; other rules may be met before, which nobody foresees.
    """

    rule: str = ""
    share: float | None = None
    left_s: float | None = None
    parts: tuple[RuleShare, ...] = ()
    spends: bool = False


@dataclass(frozen=True)
class NodeUse:
    """Its walkers, how many of them simulate, when its block ends, and whether it was set aside."""

    node: str
    walkers: int
    busy: int
    ends: float | None
    aside: bool


@dataclass(frozen=True)
class Remark:
    t: float
    text: str


@dataclass(frozen=True)
class Overview:
    """What there is to know of a run at one moment, `now`: of a run that nobody drives, that of its last record.

    Args:
        outcome: how it ended; else running or paused; else "not driven": it can be resumed.
        driver: who drives it, or why nobody does; "" of a run that has ended.
        simulated: in `time_unit`, of all walkers together.
        segments, starts, tasks: how many, by how they ended, who chose them, how they stand.
        counts: of what ways of running count, such as labels, by how they stand.
        versions: in use, of what is learned; 0 before there is one. In JSON each stands by its name: model, bias.
        doing, nodes: of a run that is driven.
        shares: of the slots' time, by what it went into.
        waiting, waits_s: frames without scores, of a run that has some, and for how long the oldest has waited.
        silent_s: seconds for which the most silent of the segments that run gave no frame; 0 where none runs.
        starting: walkers that have come, of how many, while some have not, or "".
        failing: stages of the workflow that fail, in words, by name.
        blind: every segment begins at the prepared start, whatever is chosen.
        notes: the newest last.
        last_note: the newest, if nothing else tells its cause.
        flaws: lines of the journal that are not whole, the first five: what they said is left out.
    """

    name: str
    path: str
    copy: str
    workflow: str
    seed: int
    guided: bool
    outcome: str
    reason: str | None
    driver: str
    paused_by: str | None
    began: float
    now: float
    hours: float
    gpu_hours: float
    frames: int
    simulated: float
    time_unit: str
    slots: int
    walkers: int
    segments: dict[str, int]
    starts: dict[str, int]
    tasks: dict[str, int]
    models: tuple[Fit, ...]
    counts: dict[str, dict[str, int]]
    versions: dict[str, int]
    training: str
    scored: int
    scored_with: int
    waiting: int
    waits_s: float
    metrics: dict[str, float]
    budget: Spending
    doing: dict[str, int]
    nodes: tuple[NodeUse, ...]
    shares: dict[str, float]
    silent_s: float
    starting: str
    failing: dict[str, str]
    blind: bool
    last_cause: str
    last_note: str
    notes: tuple[Remark, ...]
    flaws: tuple[str, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether somebody drives it."""
        return self.outcome in ALIVE

    @property
    def model(self) -> int:
        """The version in use; 0 before there is one."""
        return self.versions["model"]

    @property
    def ended(self) -> bool:
        return self.reason is not None

    def as_plain(self) -> dict[str, Any]:
        """For JSON; hours to 0.04 s."""
        plain = {name: value for name, value in asdict(self).items() if name != "versions"}
        return plain | self.versions | {name: round(getattr(self, name), 5) for name in ("hours", "gpu_hours")}


def overview(
    state: State, path: Path, *, rule: StopRule | None = None, now: float | None = None, driven_here: bool = False
) -> Overview:
    """A run at a glance.

    Args:
        rule: what ends the run, from its workflow file; None: that is not said.
        now: seconds since 1970; None: by the clock, or when a copy was fetched.
        driven_here: this process drives it.
    """
    end, origin = state.end, copies.of(path)
    holder = None if end or driven_here else owner(path)
    alive = end is None and (driven_here or driven(path, holder))
    if not alive:
        now = state.now
    elif now is None:
        now = copies.known_until(path)
    word = end.outcome if end else "not driven" if not alive else "paused" if state.wishes.paused else "running"
    hours = state.hours(now)
    return Overview(
        name=path.name, path=str(path.resolve()), copy=f"a copy of {origin}" if origin else "",
        workflow=state.run.workflow, seed=state.run.seed, guided=state.run.guided,
        outcome=word, reason=_reason(end, path, origin), driver="" if end else _driver(holder, alive=alive),
        paused_by=state.wishes.paused.who if state.wishes.paused and not end else None,
        began=state.run.t, now=now, hours=hours, gpu_hours=state.gpu_hours(now),
        frames=state.frames, simulated=state.simulated, time_unit=state.time_unit,
        slots=state.slots, walkers=len(state.walkers),
        segments=dict(state.ended), starts=dict(state.chosen), tasks=calls.counts(state.calls),
        models=tuple(
            Fit(m.version, m.accepted, getattr(m.fit, "loss", None), getattr(m.fit, "held_out", None), m.reason)
            for m in state.models
        ),
        counts={name: of for mode in state.modes for name, of in mode.counts.items()},
        versions=_versions(state), training=_training(state),
        scored=state.scored, scored_with=state.scored_with, waiting=state.waiting, waits_s=state.waits_s(now),
        metrics={name: values[-1] for name, values in state.metrics.items() if state.has_value(name)},
        budget=_budget(state, rule, now, alive=alive),
        doing=_doing(state) if alive else {}, nodes=_nodes(state) if alive else (),
        shares=shares(state, now), silent_s=_silent_s(state, now) if alive else 0.0,
        starting=_starting(state), failing=_failing(state), blind=state.blind,
        last_cause=state.last_cause, last_note=_last_note(state),
        notes=tuple(Remark(note.t, records.words(note)) for note in state.notes),
    )  # fmt: skip


def _reason(end: records.End | None, path: Path, origin: copies.Origin | None) -> str | None:
    """Why it ended, and the command that continues it, which can be copied whatever folder it is read from."""
    if end is None or origin or end.outcome != "interrupted":
        return end.reason if end else None
    why = end.reason.partition("; `steersman resume ")[0]  # as it was written until 0.2, with where the run lay then
    return f"{why}; `steersman resume {path.resolve()}` continues the run"


def _driver(holder: Owner | None, *, alive: bool) -> str:
    if alive:  # here, or where a copy is from
        return str(holder or "")
    return holder.why_gone if holder else "it has no driver"


def _versions(state: State) -> dict[str, int]:
    return {"model": state.models.newest, **{name: n for mode in state.modes for name, n in mode.in_use.items()}}


def _training(state: State) -> str:
    """`model 2, epoch 3 of 20`: what is being trained."""
    if state.models.under_way is None:
        return ""
    epoch = state.models.under_way.epoch
    return f"model {state.models.under_way.version}" + (f", epoch {epoch.epoch} of {epoch.epochs}" if epoch else "")


def _budget(state: State, rule: StopRule | None, now: float, *, alive: bool) -> Spending:
    if rule is None:
        return Spending()
    rules, progress = rule.either, state.progress(now)
    parts = tuple(_part(each, progress) for each in rules)
    goes_on = alive and not (state.wishes.paused or state.wishes.finish)
    left_s = _left_s(rules, progress, state.pace.lately(state.worked(now))) if goes_on else None
    spends = all(isinstance(each, Budget) for each in rules)
    return Spending(str(rule), max(part.share for part in parts), left_s, parts, spends)


def _left_s(rules: Sequence[StopRule], progress: Progress, late: Progress) -> float | None:
    """By how long all frames and all simulated time would have taken at the pace of late; hours go on by themselves."""
    each = [
        (_hours(progress.frames, late.frames, late), replace(progress, simulated_s=0.0, hours=0.0, gpu_hours=0.0)),
        (_hours(progress.simulated_s, late.simulated_s, late), replace(progress, frames=0, hours=0.0, gpu_hours=0.0)),
        (progress.hours, replace(progress, frames=0, simulated_s=0.0, metrics={})),
    ]
    shares = [(hours, max(_part(rule, spent).share for rule in rules)) for hours, spent in each if hours < math.inf]
    return min((3600 * hours * (1 - share) / share for hours, share in shares if share >= 0.01), default=None)


def _hours(done: float, lately: float, late: Progress) -> float:
    return late.hours * done / lately if lately > 0 else math.inf


def _part(rule: StopRule, progress: Progress) -> RuleShare:
    try:
        return RuleShare(str(rule), called(rule.share, progress), rule.goal, called(rule.reason, progress) or "")
    except Exception as error:  # a user's rule may raise anything; the driver says so, too
        return RuleShare(str(rule), 0.0, rule.goal, f"it failed: {told(error)}")


def _doing(state: State) -> dict[str, int]:
    """How many slots do what, at this moment."""
    return dict(Counter(doing(state, walker) for walker in state.walkers.values() if walker.alive))


def _silent_s(state: State, now: float) -> float:
    heard = (walker.heard for walker in state.walkers.values() if walker.alive and walker.running is not None)
    return max(0.0, now - min(heard, default=now))


def doing(state: State, walker: Walker) -> str:
    if walker.running is not None:
        return SIMULATING
    if not walker.has_come:
        return NO_WORKER
    if state.wishes.paused:
        return PAUSED
    return WAITING if walker.segments else STARTING


def _nodes(state: State) -> tuple[NodeUse, ...]:
    """Nodes, or what is not there yet."""
    found: dict[str, list[Walker]] = {}
    for walker in state.walkers.values():
        if walker.alive:
            found.setdefault(walker.node, []).append(walker)
    uses = (
        NodeUse(name or "not there yet", len(of), sum(walker.running is not None for walker in of), of[0].block_ends,
             name in state.aside)
        for name, of in found.items()
    )  # fmt: skip
    return tuple(sorted(uses, key=lambda node: node.node))


def _starting(state: State) -> str:
    """`1 of 4 have started`, while not all walkers of this session have, or ""; calls are awaited without any."""
    hired = state.hired
    if state.end or not state.sessions or (not hired and any(call.done is None for call in state.calls.values())):
        return ""
    here = [walker for walker in hired if walker.alive]
    come, of = sum(walker.has_come for walker in here), len(here) if hired else state.run.slots
    stages = state.run.stages or ("prepare",)  # an older journal does not say which there are
    first = "" if hired or state.prepared or "prepare" not in stages else ": prepare() comes first"
    return f"{come:,} of {of:,} have started{first}" if come < of else ""


def _failing(state: State) -> dict[str, str]:
    """With the cause of the last failure."""
    return {
        name: ("fails" if stage.worked else "has never worked")
        + (f" ({stage.failures:,} times)" if stage.failures > 1 else "")
        + f": {stage.cause}"
        for name, stage in state.stages.items()
        if stage.failures
    }


def _last_note(state: State) -> str:
    """The newest, but of metrics that have a value again; "" if its cause is told beside it, of a stage or the end."""
    so = {"", *state.valueless}
    note = next((each for each in reversed(state.notes) if getattr(each, "metric", "") in so), None)
    if note is None:
        return ""
    cause = state.last_cause
    if isinstance(note, Stage):
        return "" if state.stages[note.stage].failures else records.words(note)
    told = state.end is not None and bool(cause) and cause in state.end.reason
    return "" if told and cause in records.words(note) else records.words(note)
