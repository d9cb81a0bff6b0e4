"""Journal and scores -> what a policy would have chosen at each recorded decision, without any simulation.

Off-policy: the frames to choose from are those that the recorded choices led to, not those that this policy would have
led to. The run's own policy chooses again what it chose.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from steersman.journal import file as journal
from steersman.journal import records
from steersman.journal.modes.labels import Labels
from steersman.journal.records import Record
from steersman.journal.run_directory import RunDirectory
from steersman.journal.scoreboard import Scoreboard, misses_an_end, of_rounds, stale, unscored
from steersman.journal.state import State
from steersman.stages import loading
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.steering import Choice, Decider, Scores, Steering
from steersman.steering.streams import decision_rng
from steersman.system.errors import BadValue, told

SHOWN = 20


def replay(directory: RunDirectory, workflow: Workflow, other: Steering | None = None) -> dict[str, Any]:
    """Decide again.

    Args:
        workflow: that of the run.
        other: how else to steer; None: as the run did. Starts that `explore` drew at random are kept in either case.
    Returns: policy, label, decisions, same, kept, and those that differ: start, recorded and chosen, each with frame
        ([walker, row, segment] or None), policy and reason; failed: what the policy raised, and how often; of the run's
        own bias how many versions were made again, and how many of these have the recorded SHA-256; remade: in words.
    Raises: BadValue: `other` needs scores that were not recorded, or rounds.
    """
    again = _Replay(directory, workflow, other)
    own, chosen = again.own, other or again.own
    if chosen.policy.rounds and not own.policy.rounds:
        raise BadValue("--policy", chosen.policy.name, "it chooses whole rounds, and this run chose its starts singly")
    for record in journal.read(directory.journal):
        again.take(record)
    missing = [name for name in (*chosen.needs, *chosen.fallback.needs) if name not in again.names]
    if other and missing:  # a run that never had a model decided by its own policy's fallback, which is known
        known = ", ".join(sorted(again.names)) or "none"
        raise BadValue("--policy", chosen.policy.name, f"it needs the score {missing[0]!r}; recorded are: {known}")
    return {
        "policy": chosen.policy.name,
        "label": "off-policy" if other else "the run's own policy",
        "decisions": again.decisions,
        "same": again.decisions - again.kept - len(again.different),
        "kept": again.kept,
        "different": again.different,
        "failed": again.failed,
        "labels": again.labels,
        "different_labels": again.different_labels,
        "remade": [str(each) for each in again.remade if any(each.as_plain().values())],
        **{key: value for each in again.remade for key, value in each.as_plain().items()},
    }


def lines(found: dict[str, Any]) -> list[str]:
    """The same as sentences for a terminal."""
    different = found["different"]
    text = [
        f"{found['policy']} ({found['label']}): of {found['decisions']} decisions it chooses {found['same']} as "
        f"recorded, {len(different)} otherwise; {found['kept']} were explored, held out or pinned"
    ]
    for why, times in found["failed"].items():
        text.append(f"the policy failed {times} times, where its fallback chose: {why}")
    text += found["remade"]
    if found["labels"]:
        others = found["different_labels"]
        text.append(f"labels: of {found['labels']} that its rule asked for, {len(others)} otherwise")
        text += [
            f"  label {e['label']:<5} {e['recorded']}; instead {', '.join(e['chosen']) or 'none'}"
            for e in others[:SHOWN]
        ]
    for each in different[:SHOWN]:
        before, now = each["recorded"], each["chosen"]
        text.append(f"  start {each['start']:<5} {_words(before)} ({before['policy']}: {before['reason']})")
        text.append(f"  {'instead':<11} {_words(now)} ({now['policy']}: {now['reason']})")
    if len(different) > SHOWN:
        text.append(f"  and {len(different) - SHOWN} more: --json prints all")
    return text


class _Replay:
    """The decisions of a journal taken again as its records pass by.

    Attributes:
        names: of the scores that were recorded.
        failed: what the policy raised -> at how many decisions; its fallback made them.
        remade: what the modes of the run made, and makes again.
        labels: how many a rule asked for; `different_labels` those that it asks for otherwise.
    """

    def __init__(self, directory: RunDirectory, workflow: Workflow, other: Steering | None) -> None:
        self._directory, self._workflow, self._other = directory, workflow, other
        self._state = State()
        self._misses = partial(workflow.misses, directory.frames)
        self._steer()
        self.remade = [remaking for mode in self._state.modes if (remaking := mode.remaking(self.own))]
        self._boards: dict[int, Scoreboard] = {}
        self._scores: Scores | None = None
        self._seen = (-1, -1)
        self._round = deque[Choice]()  # of a policy of rounds: those that were not compared yet
        self._more = 0  # starts of the same act that follow
        self.names: set[str] = set()
        self.decisions = self.kept = 0
        self.different: list[dict[str, Any]] = []
        self.failed = Counter[str]()
        self._labels, self._asks = deque[records.Asked](), 0  # that are not compared yet; that follow in the journal
        self.labels, self.different_labels = 0, list[dict[str, Any]]()

    @property
    def _params(self) -> Params:
        """Of now."""
        params = loading.checked(self._workflow, self._directory.settings()["params"])
        return loading.changed(self._workflow, params, self._state.wishes.settings)

    def _steer(self) -> None:
        """As the run did, by its parameters of now, or otherwise."""
        self.own = self._workflow.steering or self._workflow.steering_rule(self._params)
        self._decider = Decider(self._other or self.own, self._misses)

    def _label(self, record: records.Asked) -> None:
        """Choose again what a label rule asked for; what a segment or a person asked for is no choice."""
        first, self._asks = not self._asks, record.more
        if first:
            if record.reason == self._state.mode(Labels).wishes.get(record.frame):
                return
            self._labels = deque(self._asked_again(record.version))
        self.labels += 1
        again = [self._labels.popleft()] if self._labels else []
        again += () if record.more else self._labels  # more than were asked for
        if [(each.label, each.frame, each.drawn, each.reason) for each in again] != [
            (record.label, record.frame, record.drawn, record.reason)
        ]:
            now = [f"{self._name(each.frame)}: {each.reason}" for each in again]
            before = f"{self._name(record.frame)}: {record.reason}"
            self.different_labels.append({"label": record.label, "recorded": before, "chosen": now})

    def _asked_again(self, version: str) -> list[records.Asked]:
        state = self._state
        scores = self._board(state.scored_with).scores(state, state.scored) if state.scored else unscored(state)
        if self._workflow.labelling is None:
            return []
        stage = replace(self._workflow.labelling, version=version)
        try:
            return stage.wanted(state, scores, self._workflow.rules(self._params), self._misses)
        except Exception:  # a user's rule may raise anything; it asked for nothing then
            return []

    def take(self, record: Record) -> None:
        for each in self.remade:
            if isinstance(record, each.kind):
                self._scores = self._scores or self._scored(self._state.scored_with, self._state.scored)
                each.take(record, self._scores)
        if isinstance(record, records.Start) and record.again is None:
            self._decide(record)
        if isinstance(record, records.Asked):
            self._label(record)
        self._state.apply(record)
        match record:
            case records.Scored():
                self._scores = self._scored(record.model, record.frames)
            case records.Session() | records.Note(anew=True):  # scores were read back, and ranked anew
                self._scores, self._seen = None, (-1, -1)
            case records.Tell(verb="set") if self._workflow.steering is None and not self._other:
                self._steer()

    def _decide(self, record: records.Start) -> None:
        state = self._state
        first, self._more = not self._more, record.more
        if state.run.rounds and first:
            self._decider.forget()
        self.decisions += 1
        explored = float(record.policy == "explore")
        self._decider.steering = replace(self._decider.steering, explore=explored)
        if record.policy == "pin" or record.held_out:
            self.kept += 1
            return
        scores = self._known()
        rng = decision_rng(state.run.seed, record.start)
        if self._decider.steering.policy.rounds:
            if first:
                self._round = deque(self._decider.choose_round(scores, rng))
            choice = self._round.popleft() if self._round else Choice(None, "the round has no more members", "none")
        else:
            choice = self._decider.choose(scores, rng, state.blamed)
        if explored:
            self.kept += 1
            return
        if self._decider.trouble:
            self.failed[told(self._decider.trouble)] += 1
        candidate = choice.candidate
        chosen = None if candidate is None else scores.frame(candidate.index)
        same = (chosen, dict(candidate.draw), candidate.weight) if candidate else (chosen, {}, 0.0)
        if same != (_frame(record.instead or record.parent), dict(record.draw), record.weight):
            before = self._told(_frame(record.parent), record.policy, record.reason, record.draw)
            now = self._told(chosen, choice.policy, choice.reason, candidate.draw if candidate else {})
            self.different.append({"start": record.start, "recorded": before, "chosen": now})

    def _told(self, frame: Sequence[int] | None, policy: str, reason: str, draw: Mapping[str, Any]) -> dict[str, Any]:
        return {"frame": self._name(frame), "policy": policy, "reason": reason, "draw": dict(draw)}

    def _name(self, frame: Sequence[int] | None) -> str | None:
        return None if frame is None else self._state.name_of(records.FrameId(*frame))

    def _known(self) -> Scores:
        """What the engine knew when it decided."""
        state = self._state
        policy = self._decider.steering.deciding(self._board(state.scored_with).names if state.scored else ())
        if policy.patient and not policy.needs:
            return unscored(state)
        late = policy.patient and self._scores and misses_an_end(state, self._scores)
        if state.scored and (self._scores is None or late):
            self._scores = self._scored(state.scored_with, state.scored)
        elif self._scores is None or (not state.scored and stale(self._seen, state.published, len(state.walkers))):
            self._scores, self._seen = unscored(state), state.published
        own = self._decider.steering.policy
        return of_rounds(state, self._scores, own.needs) if own.rounds else self._scores

    def _board(self, model: int) -> Scoreboard:
        if model not in self._boards:
            self._boards[model] = Scoreboard.load(self._directory.scores, model, sys.maxsize)
        return self._boards[model]

    def _scored(self, model: int, frames: int) -> Scores:
        scores = self._board(model).scores(self._state, frames)
        self.names |= set(scores.values)
        return scores


def _frame(parent: records.FrameId | None) -> list[int] | None:
    return None if parent is None else list(parent)


def _words(choice: dict[str, Any]) -> str:
    drawn = ", ".join(f"{name}={value}" for name, value in choice["draw"].items())
    origin = "the prepared start" if choice["frame"] is None else f"frame {choice['frame']}"
    return f"{origin} with {drawn}" if drawn else origin
