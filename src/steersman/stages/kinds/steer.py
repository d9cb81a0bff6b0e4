"""`wf.steer`: where starts come from. No decorator: every workflow steers, if only by continuing its segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from steersman.journal.state import State
from steersman.stages.kinds.stage import Planned, StageKind, StageView, Trial, Try
from steersman.steering.decide import PRUNES_NONE


class Steer(StageKind):
    kind, kept, arguments = "steer", "steers", None

    def __init__(self, steers: Mapping[str, Any]) -> None:
        self.steers = steers

    def tried(self, trial: Trial) -> Iterator[Try]:
        if trial.steering.policy.draws or trial.steering.fallback.draws:
            yield Try("steer, before there are frames", trial.steer)

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        if trial.steering.pushed:
            yield Try("bias", trial.push)
        yield Try(self.kind, trial.steer)
        if trial.steering.prune:
            yield Try("prune", trial.prune, needed=False)

    def checked(self, plan: Planned) -> Iterator[tuple[str, bool, str]]:
        steering = plan.workflow.steering_rule(plan.params)
        guided = " (guided by a known reference)" if steering.guided else ""
        own = steering.policy.draws or steering.policy.rounds
        at_first = "" if own else f"; {steering.fallback.name} until scores exist"
        pushed = f"; {words}" if (words := steering.pushed) else ""
        pushed += f"; {PRUNES_NONE}" if steering.prune and plan.rounds else ""
        how = f"{steering.policy.name}, {100 * steering.explore:.0f} % random"
        yield "steering", True, f"{how}{at_first}{guided}{pushed}"

    @classmethod
    def shown(cls, state: State, *, alive: bool) -> StageView:
        waiting = state.waiting_starts
        how = "were not begun" if state.end else "wait"
        now = f"{waiting:,} starts {how}" if waiting else ""
        return StageView(now, {"starts": f"{state.chosen.total():,}"})
