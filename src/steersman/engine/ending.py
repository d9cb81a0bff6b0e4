"""State and stop rule -> how a run ends, or None: a pure function, asked after every step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from steersman.journal.records import End
from steersman.journal.state import State
from steersman.steering import StopRule
from steersman.steering.decide import STAGES
from steersman.system.calls import called
from steersman.system.errors import place, told

FAILURES = 6  # segments that fail in a row, while none has ended well since parameters were set, end the run
UNTRIED = 30  # times as many until every slot and node has ended one, for a broken node may be the first to come; and
# where some have ended well
HALF = 0.5  # of a budget
ROUNDING = 1e-6  # of a segment: a quotient that should be whole
NEVER = 3  # failures in a row of a stage that has never worked


def met(state: State, rule: StopRule, now: float) -> End | None:
    """The stop rule, at a moment in seconds since 1970; without one that works a run would not end."""
    progress = state.progress(now)
    try:
        reason = called(rule.reason, progress)
        goal = bool(reason) and rule.reached(progress)
    except Exception as error:  # a user's rule may raise anything
        return _failed(f"the stop rule failed: {told(error)}{place(error)}")
    if not reason:
        return None
    if not isinstance(reason, str):
        return _failed(f"the stop rule gave {reason!r:.60}: its `reason` gives words, or None")
    return End(outcome="goal", reason=reason) if goal else spent(state, reason)


def spent(state: State, reason: str) -> End:
    """The end by a budget. One that is spent without a model, say, bought nothing."""
    for name in STAGES:
        stage = state.stages.get(name)
        if stage and not stage.worked:
            return _failed(f"{reason}, but the {name} stage has never worked: {stage.cause}")
    return End(outcome="budget", reason=reason)


def room(state: State, rule: StopRule) -> float:
    """Further starts that a budget of frames or of simulated time allows, by what segments have brought so far.

    While anything of it is left there is a start: a run without one would neither go on nor end.

    Returns: 0 or more; inf where no budget, or no segment, says how many.
    """
    segments, progress = state.whole
    allowed = segments * rule.room(progress) if segments else math.inf
    if allowed == 0 or math.isinf(allowed):
        return allowed
    return max(0, max(1, math.ceil(allowed - ROUNDING)) - state.open_starts)


def without_model(state: State, rule: StopRule, first: int, draws: int, now: float) -> str:
    """In words that the budget will be spent before there is a model, as far as can be foreseen; "" if not.

    Args:
        first: frames that the first training needs, those that are held out not counted.
        draws: segments that are held out, before all others.
        now: seconds since 1970.
    """
    segments, progress = state.whole
    # Of a lost walker frames may be published, and no segment.
    if state.models.newest or not (segments and progress.frames):
        return ""
    if state.models.last_frames is None:
        frames = progress.frames * (1.0 + rule.room(progress))
        counted = frames - draws * progress.frames / segments
        if counted > first - 0.5:  # infinite, where no budget of frames or of simulated time says how many
            return ""
        words = f"the budget allows about {frames:.0f} frames, of which {max(counted, 0):.0f} are not held out"
        return f"{words}: too few for the first training, which needs {first}; no model will steer this run"
    if state.run.rounds or state.models.under_way is None or rule.share(state.progress(now)) < HALF:
        return ""  # in rounds nothing is spent meanwhile
    if len(state.models) > 1:
        return "half of the budget is spent, and no model was used yet: nothing steers or pushes until one is"
    words = "half of the budget is spent while the first model is trained, which may come too late to steer"
    return f"{words}; a larger budget gives it time, and with --rounds walkers wait for it"


def failed(
    state: State, rule: StopRule, slots: int, nodes: float, bounds: Mapping[str, int], errors: Path
) -> End | None:
    """A run that gets nowhere.

    Args:
        rule: that is to end it.
        nodes: on which there will be walkers; inf: nobody knows.
        bounds: stages whose failure ends the run, and how many in a row do once the stage has worked.
        errors: where the causes of failed segments lie.
    """
    enough = max(FAILURES, 2 * slots)
    if max(state.failures_in_a_row, state.frameless_in_a_row) >= enough and not _tried(state, slots, nodes):
        enough *= UNTRIED
    ended_well = state.ended["finished"] + state.ended["stopped"]
    if ended_well == state.well_before and state.failures_in_a_row >= enough:
        since = f" since {', '.join(state.wishes.settings)} was set" if ended_well else ""
        return _failed(f"every segment failed{since}: {state.last_cause}; see {errors}")
    if state.failures_in_a_row >= UNTRIED * max(FAILURES, 2 * slots) and not any(
        each.alive and each.running and each.since < state.failing_since for each in state.walkers.values()
    ):  # else a segment still runs that began before the others failed one after another
        return _failed(f"{state.failures_in_a_row} segments in a row failed: {state.last_cause}; see {errors}")
    if not state.frames and state.frameless_in_a_row >= enough:
        ended = f"{state.ended.total()} segments have ended, and none produced a frame"
        return _failed(f"{ended}: does simulate() call out.append? Does a reader read the right file?")
    if rule.counts_simulated and not state.whole[1].simulated_s and ended_well >= enough:
        ended = f"{ended_well} segments have ended, and none simulated any time, which the stop rule counts ({rule})"
        return _failed(f"{ended}: write out.append(time=...), the simulated time since the segment's start")
    for name, most in bounds.items():
        stage = state.stages.get(name)
        if stage and stage.failures >= (most if stage.worked else min(NEVER, most)):
            history = f"has failed {stage.failures} times in a row" if stage.worked else "has never worked"
            waits = "; a metric that has no value yet returns NaN" if name.startswith("metric ") else ""
            return _failed(f"the {name} stage {history}: {stage.cause}{waits}")
    return None


def _tried(state: State, slots: int, nodes: float) -> bool:
    """Whether a segment has ended in every slot and on every node of this session, whichever walker ran it."""
    ended = [walker for walker in state.hired if any(segment.end is not None for segment in walker.segments)]
    return len({walker.slot for walker in ended}) >= slots and len({walker.node for walker in ended}) >= nodes


def _failed(reason: str) -> End:
    return End(outcome="failed", reason=reason)
