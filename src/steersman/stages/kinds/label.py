"""`@wf.label`: an expensive answer for a frame that steering chose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from steersman.journal.modes.labels import Labels
from steersman.journal.state import State
from steersman.stages.kinds.stage import Planned, StageKind, StageView, Trial, Try
from steersman.store import Variable

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

    def tried(self, trial: Trial) -> Iterator[Try]:
        yield Try(self.kind, trial.label, self.function)

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
