"""Scores -> starts on the bus: keeps the bag of starts filled a little ahead of the slots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from steersman.apps.walker import START
from steersman.bus import TupleSpace
from steersman.engine.journal import Record
from steersman.engine.recorder import Recorder
from steersman.steering import Candidate, Choice, Decider, Scores, Steering

_STARTS, _DECISIONS = 0, 1  # streams of the run's seed


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
        self._decider = Decider(steering)
        self._seed, self._rounds = seed, rounds
        self._decisions = decisions.open("a", encoding="utf-8")

    def name(self, slot: int) -> str:
        """Name of the tuples that the walker of a slot takes."""
        return f"{START}.{slot}" if self._rounds else START

    def fill(self, scores: Scores, slots: int) -> None:
        """Choose as many starts as slots have not got one ahead."""
        state = self._recorder.state
        for slot in range(slots - state.waiting_starts):
            rng = self._rng(_DECISIONS, state.next_start)
            choice = self._decider.choose(scores, rng, state.blamed)
            if self._decider.trouble:
                self._recorder.note(f"the policy failed, its fallback chooses: {self._decider.trouble}")
                self._decider.trouble = ""
            self._put(self._record(scores, choice, slot))

    def retry(self, failed: Record, attempt: int) -> None:
        """Offer a start again that failed, with another seed."""
        number = self._recorder.state.next_start
        again = {key: failed[key] for key in ("slot", "parent", "policy", "reason", "model", "exact")}
        self._put(self._recorder.record("start", start=number, seed=self._start_seed(number), attempt=attempt, **again))

    def restore(self) -> None:
        """After the loss of the server: offer the waiting starts again that it no longer has."""
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

    def _record(self, scores: Scores, choice: Choice, slot: int) -> Record:
        number = self._recorder.state.next_start
        chosen = choice.candidate
        parent = None if chosen is None else _frame(scores, chosen)
        record = self._recorder.record(
            "start", start=number, slot=slot, parent=parent, seed=self._start_seed(number), policy=choice.policy,
            reason=choice.reason, model=scores.model if chosen else 0, exact=bool(chosen and chosen.exact),
        )  # fmt: skip
        refused = [{"frame": _frame(scores, c), "policy": c.policy, "reason": c.reason} for c in choice.refused]
        line = {"t": record["t"], "start": number, "candidates": len(scores), "model": scores.model}
        line |= {"frame": parent, "policy": choice.policy, "reason": choice.reason, "refused": refused}
        self._decisions.write(json.dumps(line) + "\n")
        self._decisions.flush()
        return record

    def _put(self, record: Record) -> None:
        order = {key: record[key] for key in ("parent", "seed", "model", "exact")}
        self._space.put(self.name(record["slot"]), record["start"], order)

    def _start_seed(self, number: int) -> int:
        return int(self._rng(_STARTS, number).integers(1, 2**63 - 1))

    def _rng(self, stream: int, number: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self._seed, spawn_key=(stream, number)))


def _frame(scores: Scores, candidate: Candidate) -> list[Any]:
    i = candidate.index
    return [int(scores.walker[i]), int(scores.row[i]), int(scores.segment[i])]
