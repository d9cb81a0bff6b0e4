"""Scores -> starts on the bus: keeps the bag of starts filled a little ahead of the slots."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from steersman.bus import TupleSpace
from steersman.journal.decisions import Alternative, Decision, decoded, encode
from steersman.journal.modes.ensemble import Ensemble
from steersman.journal.modes.held_out import HeldOut
from steersman.journal.recorder import Recorder
from steersman.journal.records import Blame, FrameId, Start
from steersman.journal.scoreboard import ends_without_scores, of_rounds, unscored
from steersman.journal.walkers import Broken, Failed
from steersman.steering import HELD_OUT, NEW, Candidate, Choice, Decider, Scores, Steering
from steersman.steering.decide import NO_POLICY
from steersman.steering.streams import decision_rng, start_seed
from steersman.system.errors import told
from steersman.system.files import replace_file, sync_folder
from steersman.worker.orders import DONE, START, plain

DEATHS = 2  # walkers that may die on a start before it is blamed
LOOK_S = 5.0  # between two looks whether the bus has the starts that wait
WALKERS = 2  # on which a start fails before it is blamed: one alone may be what is broken


class Bag:
    """Chooses starts and puts them on the bus.

    Args:
        seed: the run's; the n-th start's seed and choice depend on it and n alone, so that a resumed run agrees.
        rounds: give each start to a fixed slot, so that a run repeats bit for bit.
        held_out: draws that are started first, and that no training sees.
        amend: gives another start in place of one that was chosen, by the newest scores.
        misses: see `Decider`.
        condition: of the n-th start that is chosen.
        lost_s: a start that waits, and that the bus has not got for so long, was deleted; longer than a walker's lease.
        batch: starts that a slot takes at once.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        recorder: Recorder,
        space: TupleSpace,
        steering: Steering,
        decisions: Path,
        *,
        seed: int,
        rounds: bool,
        held_out: Sequence[Mapping[str, float | Sequence[float]]] = (),
        amend: Callable[[Start, Scores, np.random.Generator], Start] | None = None,
        misses: Callable[[int, int], bool] = lambda walker, row: False,
        condition: Callable[[int], Mapping[str, float]] = lambda turn: {},
        lost_s: float = math.inf,
        batch: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._recorder, self._space = recorder, space
        self._steering, self._misses, self._decider = steering, misses, Decider(steering, misses)
        self._seed, self._rounds, self._held_out, self._amend = seed, rounds, held_out, amend
        self._condition = condition
        self._lost_s, self._batch, self._clock, self._looked = lost_s, batch, clock, clock()
        self._missing: dict[int, float] = {}  # starts that wait and are not on the bus, and since when
        self.hopeless = ""  # why no further start can be chosen
        self._stand_ins: dict[int, int] = {}  # slots without a walker, and those whose walkers run their starts
        self._open: bool | None = None  # whether the waiting starts are on the bus; None: nobody knows
        _cut_decisions(decisions, recorder.state.next_start)
        self._decisions, self._explained = decisions.open("ab"), False
        sync_folder(decisions.parent)

    def name(self, slot: int) -> str:
        """Name of the tuples that the walker of a slot takes."""
        return f"{START}.{slot}" if self._rounds else START

    def _offered_to(self, slot: int) -> str:
        """Name of the tuples with the starts of a slot."""
        return self.name(self._stand_ins.get(slot, slot))

    def steer(self, steering: Steering) -> None:
        """Choose by this from now on: parameters may have been set that it depends on."""
        if steering is not self._steering:
            self._steering, self._decider = steering, Decider(steering, self._misses)

    def align(self, slots: int, *, offered: bool) -> None:
        """Let the waiting starts be on the bus, or none, with the parameters of now; costs nothing when it is so.

        Raises: BusError: it is done again at the next call.
        """
        if self._open != offered:
            self._open = None
            self._restore() if offered else self._empty(slots)
            self._open = offered
        self._renew()

    def share(self, stand_ins: Mapping[int, int], slots: int) -> None:
        """Have the starts of slots that have no walker run by others; what they give does not depend on who runs them.

        Raises: BusError: it is done again at the next call.
        """
        if self._stand_ins != stand_ins:
            self._open = None
            self._empty(slots)
            self._stand_ins = dict(stand_ins)

    def doubt(self) -> None:
        """A server was lost: what is on the bus is to be looked at again."""
        self._open = None

    def lost(self) -> int:
        """How many starts wait that neither the bus nor a walker has: somebody deleted them. Looks now and then.

        Raises: BusError.
        """
        now = self._clock()
        if not self._open or now - self._looked < LOOK_S:
            return 0
        self._looked = now
        self._missing = {start.start: self._missing.get(start.start, now) for start in self._not_offered()}
        return sum(now - since > self._lost_s for since in self._missing.values())

    def fill(
        self,
        newest: Callable[[], Scores],
        slots: int,
        room: Callable[[], float] = lambda: math.inf,
        known: Callable[[], Collection[str]] | None = None,
    ) -> None:
        """Choose as many starts as slots have not got one ahead: explained, then in the journal, then on the bus.

        A patient policy chooses for slots that are free, once it can see where the segment that ended has come to.
        The newest scores are asked for when something is chosen and not otherwise, as a replay does.

        Args:
            room: starts that the budget still allows, asked when a slot wants one. Rounds are whole all the same.
            known: names of the newest scores; None: all that steering needs, once frames are scored.
        """
        state = self._recorder.state
        if self._steering.policy.rounds:
            self._fill_round(newest(), slots)
            return
        names = known() if known else self._steering.needs if state.scored else ()
        policy = self._steering.deciding(names)
        wanted = range(slots * self._batch - (len(state.starts) if policy.patient else state.waiting_starts))
        if wanted and not self._rounds and (allowed := room()) < len(wanted):
            wanted = range(int(allowed))
        if not wanted:
            return
        scores = newest() if policy.needs or not policy.patient else unscored(state)
        if policy.patient:
            wanted = range(len(wanted) - ends_without_scores(state, scores))  # these slots wait for them
        if not wanted:
            return
        if self._rounds:
            self._decider.forget()
        chosen = [self._choose(scores, state.next_start + i, i % slots) for i in wanted]
        if amend := self._amend:
            rng = functools.partial(decision_rng, self._seed)
            chosen = [(amend(start, newest(), rng(start.start)), choice) for start, choice in chosen]
        self._offer(scores, chosen)

    def _fill_round(self, scores: Scores, slots: int) -> None:
        """Choose a whole round at once: the journal knows all of its starts or none. The round before is over."""
        state, number = self._recorder.state, self._recorder.state.next_start
        scores = of_rounds(state, scores, self._steering.policy.needs)
        if words := self._steering.policy.warning(scores):
            self._recorder.note(words)
        try:
            choices = self._decider.choose_round(scores, decision_rng(self._seed, number))
        except Exception as error:  # no fallback keeps the weights
            self.hopeless = f"no further round can be chosen: {told(error)}"
            return
        this = state.mode(Ensemble).newest + 1
        self._offer(scores, [
            (replace(self._begin(scores, number + i, i % slots, choice), round=this), choice)
            for i, choice in enumerate(choices)
        ])  # fmt: skip

    def _offer(self, scores: Scores, chosen: list[tuple[Start, Choice]]) -> None:
        for start, choice in chosen:
            self._explain(scores, start, choice)
        self._decisions.flush()
        self._explained = True
        self._put(*self._recorder.record_all([start for start, _ in chosen]))

    def mend(self, retries: int) -> None:
        """See to the starts that went wrong: try again, go on from what was committed, or give up and blame."""
        state = self._recorder.state
        failures, cut_short = sorted(state.failed.items()), [
            (number, broken) for number, broken in sorted(state.broken.items())
            if (broken.segment.end or 0) <= state.walkers[broken.segment.walker].frames  # its last one is published
        ]  # fmt: skip
        if self._rounds and (len(cut_short) < len(state.broken) or self._others_go_on):
            failures, cut_short = [], []  # the number of a repeated start decides its seed, so it waits for the round
        for number, failed in failures:
            self._try_again(number, failed, retries)
        for number, broken in cut_short:
            self._space.put(DONE, number)
            if deaths := self._deaths(broken.record, broken.losses):
                self._blame(number, broken.record, f"{deaths} walkers died on it")
            else:
                self._go_on(number, broken)
        for number, start in list(state.starts.items()) if state.killed else []:
            if start.segment is None and (deaths := self._deaths(start.record, start.losses)):
                if self._space.take_nowait(self._offered_to(start.record.slot), number, dict) is None:
                    self._space.put(DONE, number)  # it comes back by its lease
                self._blame(number, start.record, f"{deaths} walkers died on it")

    @property
    def _others_go_on(self) -> bool:
        """Whether there are starts beside those that went wrong which are not done with."""
        state = self._recorder.state
        others = (start for number, start in state.starts.items() if number not in state.broken)
        return any(start.segment is None or start.segment.how != "failed" for start in others)

    def _try_again(self, number: int, failed: Failed, retries: int) -> None:
        """A start that fails is tried again, on another walker before it is blamed."""
        record = failed.record
        tried, walkers = record.attempt + 1, tuple(sorted({*record.failed_on, failed.walker}))
        if tried <= retries or len(walkers) < WALKERS:
            again = replace(record, attempt=tried, failed_on=walkers)
            for mode in self._recorder.state.modes:
                again, note = mode.softer(again)
                if note:
                    self._recorder.note(note)
            self._again(again, number)
            return
        cause = f"its segments failed {tried} times: {self._recorder.state.last_cause}"
        self._blame(number, record, cause)

    def _deaths(self, record: Start, losses: int) -> int:
        """Walkers that died on a start, or on others from its frame; 0 while they are too few to blame it."""
        deaths = max(losses, self._recorder.state.deaths[record.parent[:2]] if record.parent else 0)
        return deaths if deaths >= DEATHS else 0

    def _again(self, record: Start, number: int) -> None:
        """Offer a start once more, as a new one that repeats start `number`."""
        state = self._recorder.state
        fresh, learned = state.next_start, state.learned(record)
        again = replace(record, start=fresh, again=number, seed=start_seed(self._seed, fresh), pin="", **learned)
        again = replace(again, set=dict(state.wishes.settings))
        self._put(self._recorder.record(again))

    def _go_on(self, number: int, broken: Broken) -> None:
        segment, record = broken.segment, replace(broken.record, losses=broken.losses, attempt=0, failed_on=())
        assert segment.end is not None
        rows = segment.end - segment.first
        if not rows or record.is_member:
            self._again(record, number)
            return
        if not (segment.state or self._recorder.state.any_frame):
            reason = f"{segment.name} was cut short after {rows} frames and left no state: its start is run again"
            self._again(replace(record, reason=reason), number)
            return
        reason = f"{segment.name} was cut short after {rows} frames: it continues from the last one"
        parent = FrameId(segment.walker, segment.end - 1, segment.number)
        self._again(replace(record, parent=parent, policy="continue", reason=reason, exact=segment.state), number)

    def _blame(self, number: int, record: Start, why: str) -> None:
        frame = "" if record.parent is None else f"frame {self._recorder.state.name_of(record.parent)}"
        what = f"{frame} is not proposed again" if frame else f"start {number} is given up"
        what += ", and no estimate counts the member that it drew" if record.draw else ""
        self._recorder.record(Blame(start=number, parent=record.parent, reason=f"{what}: {why}"))

    def _restore(self) -> None:
        """Offer the waiting starts again that the server lost, or did not take."""
        for start in self._not_offered():
            self._space.put(self._offered_to(start.slot), start.start, plain(start))

    def _not_offered(self) -> list[Start]:
        """The starts that wait and that nobody can take: a walker has them, or they are not on the bus."""
        waiting: dict[str, list[Start]] = {}
        for start in self._recorder.state.starts.values():
            if start.segment is None:
                waiting.setdefault(self._offered_to(start.record.slot), []).append(start.record)
        missing = []
        for name, starts in waiting.items():
            offered = {each[1] for each in self._space.read_many_nowait(name, int, dict)}
            missing += [start for start in starts if start.start not in offered]
        return missing

    def _empty(self, slots: int) -> None:
        """Take every waiting start back."""
        for name in {self.name(slot) for slot in range(slots)}:
            while self._space.take_nowait(name, int, dict) is not None:
                pass

    def _renew(self) -> None:
        """Starts that wait run with the parameters that people have set since they were chosen, and with nothing that
        was set aside."""
        state, settings = self._recorder.state, self._recorder.state.wishes.settings
        for number, start in list(state.starts.items()) if settings or state.unsound else []:
            old = start.record
            if start.segment is not None or (old.set == settings and state.is_sound(old)):
                continue
            if not self._open or self._space.take_nowait(self._offered_to(old.slot), number, dict) is not None:
                self._again(old, number)

    def sync(self) -> None:
        """Wait until the explanations are on the disk: before the journal's records of the same starts."""
        if self._explained:
            self._explained = False
            os.fsync(self._decisions.fileno())

    def close(self) -> None:
        self.sync()
        self._decisions.close()

    def _choose(self, scores: Scores, number: int, slot: int) -> tuple[Start, Choice]:
        state = self._recorder.state
        if number - state.next_start < len(state.wishes.pins):
            pin = state.wishes.pins[number - state.next_start]
            choice = Choice(None, f"pinned by {pin.who}", "pin")
            exact = pin.frame is not None and state.exact and state.can_begin_at(pin.frame)
            return replace(self._begin(scores, number, slot, choice), parent=pin.frame, pin=pin.id, exact=exact), choice
        drawn = state.mode(HeldOut).draws + number - state.next_start - len(state.wishes.pins)
        if drawn < len(self._held_out):
            reason = f"held out: draw {drawn + 1} of {len(self._held_out)}, before steering begins"
            candidate = Candidate(NEW, HELD_OUT, 0.0, reason, draw=self._held_out[drawn])
            choice = Choice(candidate, reason, HELD_OUT)
            return replace(self._begin(scores, number, slot, choice), held_out=True), choice
        choice = self._decider.choose(scores, decision_rng(self._seed, number), state.blamed)
        self._say_how_it_went(choice)
        return self._begin(scores, number, slot, choice), choice

    def _begin(self, scores: Scores, number: int, slot: int, choice: Choice) -> Start:
        chosen = choice.candidate
        state = self._recorder.state
        turn = state.chosen.total() + number - state.next_start  # a start that is run again keeps its condition
        start = Start(
            start=number, seed=start_seed(self._seed, number), slot=slot, set=dict(state.wishes.settings),
            condition=self._condition(turn),
            parent=None if chosen is None else _frame(scores, chosen.index), policy=choice.policy, reason=choice.reason,
            model=scores.model if chosen else 0, exact=bool(chosen and chosen.exact),
            draw={name: _floats(value) for name, value in chosen.draw.items()} if chosen else {},
            weight=chosen.weight if chosen else 0.0,
        )  # fmt: skip
        start = replace(start, share=min(mode.first_share(start, self._steering) for mode in state.modes))
        return replace(start, **state.learned(start))

    def _say_how_it_went(self, choice: Choice) -> None:
        if self._decider.trouble:
            self._recorder.fails_here("steer", self._decider.trouble, "; the fallback policy chooses")
            self._decider.trouble = None
        elif choice.candidate and choice.policy not in (self._steering.fallback.name, *NO_POLICY):
            self._recorder.works("steer")

    def _explain(self, scores: Scores, start: Start, choice: Choice) -> None:
        """Keep the alternatives; before the journal says that the start is chosen, so that no start lacks them."""
        refused = tuple(Alternative(_frame(scores, c.index), c.policy, c.reason) for c in choice.refused)
        ranked_s, self._decider.ranked_s = round(self._decider.ranked_s, 6), 0.0
        now = self._recorder.state.now
        line = encode(Decision.of(start, now, candidates=len(scores), refused=refused, ranked_s=ranked_s))
        self._decisions.write(line)

    def _put(self, *starts: Start) -> None:
        if self._open is not False:
            self._space.put_many((self._offered_to(start.slot), start.start, plain(start)) for start in starts)


def _frame(scores: Scores, index: int) -> FrameId | None:
    """None of a new member."""
    frame = scores.frame(index)
    return FrameId(*frame) if frame else None


def _floats(value: object) -> float | list[float]:
    numbers: float | list[float] = np.asarray(value, float).tolist()
    return numbers


def _cut_decisions(path: Path, next_start: int) -> None:
    """Remove what was explained but, for the driver died then, never begun. It becomes another file: who copies this
    one, and has read that part, begins anew."""
    if not path.exists():
        return
    whole = 0
    with path.open("rb") as file:
        for line in file:
            decision = decoded(line)  # None: it is damaged, and stays for `verify` to name
            if not line.endswith(b"\n") or (decision and decision.start >= next_start):
                break
            whole += len(line)
        if whole < path.stat().st_size:
            file.seek(0)
            replace_file(path, file.read(whole))
