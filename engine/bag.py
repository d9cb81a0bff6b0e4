"""Scores -> starts on the bus: keeps the bag of starts filled a little ahead of the slots."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steersman.bus import TupleSpace
from steersman.journal.file import Record
from steersman.journal.recorder import Recorder
from steersman.journal.scoreboard import ends_without_scores, unscored
from steersman.journal.walkers import Broken
from steersman.steering import Choice, Decider, Scores, Steering
from steersman.steering.streams import decision_rng, start_seed
from steersman.worker.walker import DONE, START

AGAIN = ("slot", "parent", "policy", "reason", "model", "exact", "draw", "set")  # kept when a start is tried again
DEATHS = 2  # walkers that may die on a start before it is blamed


class Bag:
    """Chooses starts and puts them on the bus.

    Args:
        seed: the run's; the n-th start's seed and choice depend on it and n alone, so that a resumed run agrees.
        rounds: give each start to a fixed slot, so that a run repeats bit for bit.
    """

    def __init__(
        self, recorder: Recorder, space: TupleSpace, steering: Steering, decisions: Path, *, seed: int, rounds: bool
    ) -> None:
        self._recorder, self._space = recorder, space
        self._steering, self._decider = steering, Decider(steering)
        self._seed, self._rounds = seed, rounds
        _cut_decisions(decisions, recorder.state.next_start)
        self._decisions = decisions.open("a", encoding="utf-8")

    def name(self, slot: int) -> str:
        """Name of the tuples that the walker of a slot takes."""
        return f"{START}.{slot}" if self._rounds else START

    def fill(self, newest: Callable[[], Scores], slots: int) -> None:
        """Choose as many starts as slots have not got one ahead: explained, then in the journal, then on the bus.

        A patient policy chooses for slots that are free, once it can see where the segment that ended has come to.
        The newest scores are asked for when something is chosen and not otherwise, as a replay does.
        """
        state = self._recorder.state
        policy = self._steering.deciding(scored=state.scored > 0)
        wanted = range(slots - (len(state.starts) if policy.patient else state.waiting_starts))
        if not wanted:
            return
        scores = newest() if policy.needs or not policy.patient else unscored(state)
        if policy.patient:
            wanted = range(len(wanted) - ends_without_scores(state, scores))  # these slots wait for them
        if not wanted:
            return
        if self._rounds:
            self._decider.forget()
        chosen = [self._choose(scores, state.next_start + i, slot) for i, slot in enumerate(wanted)]
        for fields, choice in chosen:
            self._explain(scores, fields, choice)
        self._decisions.flush()
        self._put(*self._recorder.record_all("start", [fields for fields, _ in chosen]))

    def mend(self, retries: int) -> None:
        """See to the starts that went wrong: try again, go on from what was committed, or give up and blame."""
        state = self._recorder.state
        for number, failed in list(state.failed.items()):
            tried = failed.get("attempt", 0) + 1
            if tried <= retries:
                self._again(failed, number, attempt=tried)
            else:
                self._blame(number, failed["parent"], f"its segments failed {tried} times: {state.last_cause}")
        for number, broken in list(state.broken.items()):
            if (broken.segment.end or 0) > state.walkers[broken.segment.walker].frames:
                continue  # its last frame is not published yet
            self._space.put(DONE, number)
            if deaths := self._deaths(broken.record, broken.losses):
                self._blame(number, broken.record["parent"], f"{deaths} walkers died on it")
            else:
                self._go_on(number, broken)
        for number, start in list(state.starts.items()) if state.killed else []:
            if start.segment is None and (deaths := self._deaths(start.record, start.losses)):
                self._space.take_nowait(self.name(start.record["slot"]), number, dict)
                self._space.put(DONE, number)
                self._blame(number, start.record["parent"], f"{deaths} walkers died on it")

    def _deaths(self, record: Record, losses: int) -> int:
        """Walkers that died on a start, or on others from its frame; 0 while they are too few to blame it."""
        parent = record["parent"]
        deaths = max(losses, self._recorder.state.deaths[tuple(parent[:2])] if parent else 0)
        return deaths if deaths >= DEATHS else 0

    def _again(self, record: Record, number: int, **more: Any) -> None:
        fresh = self._recorder.state.next_start
        again = {key: record[key] for key in AGAIN if key in record} | more
        self._put(
            self._recorder.record("start", start=fresh, seed=start_seed(self._seed, fresh), again=number, **again)
        )

    def _go_on(self, number: int, broken: Broken) -> None:
        segment, losses = broken.segment, broken.losses
        assert segment.end is not None
        rows = segment.end - segment.first
        if not rows or "draw" in broken.record:  # a drawn member counts as a whole, so it is run from its beginning
            self._again(broken.record, number, losses=losses)
            return
        reason = f"{segment.name} was cut short after {rows} frames: it goes on from the last of them"
        self._again(
            broken.record, number, parent=[segment.walker, segment.end - 1, segment.number], policy="continue",
            reason=reason, exact=broken.exact, losses=losses,
        )  # fmt: skip

    def _blame(self, number: int, parent: list[int] | None, why: str) -> None:
        what = f"start {number} is given up" if parent is None else f"{_words(parent)} is not proposed again"
        self._recorder.record("blame", start=number, parent=parent, reason=f"{what}: {why}")

    def restore(self) -> None:
        """Offer the waiting starts again that the server lost, or did not take."""
        for start in self._recorder.state.starts.values():
            if start.segment is None:
                name = self.name(start.record["slot"])
                if not self._space.count(name, start.record["start"], dict):
                    self._put(start.record)

    def empty(self, slots: int) -> None:
        """Take every waiting start back."""
        for name in {self.name(slot) for slot in range(slots)}:
            while self._space.take_nowait(name, int, dict) is not None:
                pass

    def close(self) -> None:
        self._decisions.close()

    def _choose(self, scores: Scores, number: int, slot: int) -> tuple[Record, Choice]:
        state = self._recorder.state
        if number - state.next_start < len(state.pins):
            return self._pinned(state.pins[number - state.next_start], number, slot)
        choice = self._decider.choose(scores, decision_rng(self._seed, number), state.blamed)
        if self._decider.trouble:
            self._recorder.note(f"the policy failed, its fallback chooses: {self._decider.trouble}")
            self._decider.trouble = ""
        chosen = choice.candidate
        fields: Record = {
            "start": number, "slot": slot, "parent": None if chosen is None else scores.frame(chosen.index),
            "seed": start_seed(self._seed, number), "policy": choice.policy, "reason": choice.reason,
            "model": scores.model if chosen else 0, "exact": bool(chosen and chosen.exact),
        }  # fmt: skip
        fields |= {"draw": dict(chosen.draw)} if chosen and chosen.draw else {}
        return fields | ({"set": state.settings} if state.settings else {}), choice

    def _pinned(self, pin: Record, number: int, slot: int) -> tuple[Record, Choice]:
        choice = Choice(None, f"pinned by {pin['who']}", "pin")
        fields = {
            "start": number, "slot": slot, "parent": pin["frame"], "seed": start_seed(self._seed, number),
            "policy": "pin", "reason": choice.reason, "model": 0, "exact": False, "pin": pin["id"],
        }  # fmt: skip
        settings = self._recorder.state.settings
        return fields | ({"set": settings} if settings else {}), choice

    def _explain(self, scores: Scores, fields: Record, choice: Choice) -> None:
        """Keep the alternatives; before the journal says that the start is chosen, so that no start lacks them."""
        refused = [{"frame": scores.frame(c.index), "policy": c.policy, "reason": c.reason} for c in choice.refused]
        line = {"t": self._recorder.state.now, "candidates": len(scores), "frame": fields["parent"], "refused": refused}
        line |= {key: fields[key] for key in ("start", "model", "policy", "reason")}
        line |= {"ranked_s": round(self._decider.ranked_s, 6)}
        self._decider.ranked_s = 0.0
        self._decisions.write(json.dumps(line) + "\n")

    def _put(self, *records: Record) -> None:
        keys = ("parent", "seed", "model", "exact", "draw", "set")
        self._space.put_many(
            (self.name(record["slot"]), record["start"], {key: record[key] for key in keys if key in record})
            for record in records
        )


def _words(frame: list[int]) -> str:
    return f"frame {frame[1]} of w{frame[0]}.{frame[2]}"


def _cut_decisions(path: Path, next_start: int) -> None:
    """Remove what was explained but, for the driver died then, never begun."""
    if not path.exists():
        return
    whole = 0
    with path.open("r+b") as file:
        for line in file:
            if not line.endswith(b"\n") or json.loads(line)["start"] >= next_start:
                break
            whole += len(line)
        file.truncate(whole)
