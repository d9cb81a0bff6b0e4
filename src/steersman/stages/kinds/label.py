"""`@wf.label`: an expensive answer for a frame that steering chose."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from steersman.journal.frame_keys import frame_key
from steersman.journal.modes.labels import Labels
from steersman.journal.records import Asked, FrameId
from steersman.journal.state import State
from steersman.stages.kinds.stage import Planned, Rules, StageKind, StageView, Trial, Try
from steersman.stages.kinds.train import limit
from steersman.steering import Scores
from steersman.steering.labelling import LabelRule, Wanted
from steersman.steering.streams import label_rng
from steersman.store import Variable
from steersman.system.calls import called

LABEL_HANG_S = 24 * 3600.0  # a call takes less


@dataclass(frozen=True)
class Label(StageKind):
    kind, kept, arguments = "label", "labelling", ("params", "frame")
    role, recorded = "labelling", "label"

    function: Callable[..., Mapping[str, Any]]
    retries: int = 2
    variables: Mapping[str, Variable] = field(default_factory=dict)
    hang_s: float = LABEL_HANG_S
    version: str = ""
    error: Callable[[Any, Any, Any], float] | None = None

    def room(self, state: State, rules: Rules) -> int:
        """Labels that may be asked for: as many as may wait, as the budget allows, and where labels make trainings due,
        as the next one needs: what else is worth a label its model decides."""
        labels = state.mode(Labels)
        most = limit("labels", rules.stop) - _kept(labels, labels.asked)
        if next_one := self._next_training(state, rules):
            most = min(most, next_one - state.known_labels - _kept(labels, labels.asked_by(self.version)))
        waiting = (rules.steering.label or LabelRule).most - len(labels.waiting)
        return int(max(0, min(waiting, most)))

    def wanted(self, state: State, scores: Scores, rules: Rules, misses: Callable[[int, int], bool]) -> list[Asked]:
        """What a label rule asks for: a function of a run so far and its newest scores, so a replay has the same.

        Args:
            misses: (walker, row) -> whether a variable of this frame is missing.
        """
        labels, rule, newest, given = state.mode(Labels), rules.steering.label, state.models.newest, scores.given_model
        soon = newest or rules.train is None  # there is nothing that scores wait for
        if rule is None or (soon and not set(rule.needs) <= set(scores.values)):
            return []
        frames = frame_key(scores.walker.astype(np.int64), scores.row)
        asked = np.isin(frames, labels.keys(self.version))
        drawn = [each.drawn for each in labels.asked.values() if each.model]  # before a model none can be
        visited = np.flatnonzero(given == newest) if newest and len(given) else np.zeros(0, np.int64)
        segments = frame_key(scores.walker.astype(np.int64), scores.segment)[visited]
        visited = visited[~np.isin(segments, labels.audited(newest, self.version, state.running))]
        wanted: list[Wanted] = called(
            partial(rule.chosen, final=math.isinf(self._next_training(state, rules))),
            scores, asked, self.room(state, rules), label_rng(state.run.seed, len(labels.asked)),
            (sum(drawn), len(drawn)), visited,
        )  # fmt: skip
        places = [(FrameId(*scores.frame(each.at) or ()), each) for each in wanted]
        whole = [(frame, each) for frame, each in places if not misses(*frame[:2])]
        return [
            self.asked(state, frame, each.reason, i, drawn=each.drawn, doubt=each.doubt)
            for i, (frame, each) in enumerate(whole)
        ]

    def asked(self, state: State, frame: FrameId, reason: str, after: int = 0, **more: Any) -> Asked:
        """The record of a label, after so many that are not recorded yet."""
        number, newest = len(state.mode(Labels).asked) + after, state.models.newest
        return Asked(label=number, frame=frame, reason=reason, model=newest, version=self.version, **more)

    def _next_training(self, state: State, rules: Rules) -> float:
        """The labels of the training that comes next, after one that is under way; of the first one, before it. inf:
        none comes any more. 0: trainings count frames."""
        rule, models, last = rules.train, state.models, state.mode(Labels).trained(self.version)
        if rule is None or rule.counts != "labels":
            return 0
        if last is None:
            return int(rule.first)
        if models.under_way and not models.newest:
            return last
        return float(rule.next(last)) if models.under_way or last < rule.last else math.inf

    def tried(self, trial: Trial) -> Iterator[Try]:
        yield Try(self.kind, trial.label, self.function)

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        if self.error and trial.workflow.training:
            yield Try("label, error of the model", trial.misjudge, self.error)

    def checked(self, plan: Planned) -> Iterator[tuple[str, bool, str]]:
        rule = plan.workflow.steering_rule(plan.params).label
        yield "labels", True, str(rule or "those alone that segments ask for by out.label()")

    @classmethod
    def shown(cls, state: State, *, alive: bool) -> StageView | None:
        labels = state.mode(Labels)
        if cls.recorded not in state.run.stages:  # an older journal does not say which there are; no older run has it
            return None
        begun = sum(each.label in labels.begun for each in labels.waiting)
        counts = labels.counts.get("labels", {})
        now = f"{begun:,} at work" if begun and alive else ""
        return StageView(now, {how: f"{number:,}" for how, number in counts.items()})


def _kept(labels: Labels, numbers: Iterable[int]) -> int:
    """How many of these labels wait or are there: one that failed counts for nothing."""
    return sum(number not in labels.answers or bool(labels.answers[number].group) for number in numbers)
