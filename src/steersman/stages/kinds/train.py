"""`@wf.train`: a model of the frames."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from steersman.journal.state import State
from steersman.stages.kinds.stage import Planned, StageKind, StageView, Trial, Try
from steersman.steering.protocols import StopRule
from steersman.steering.stop import Budget

TRAINING_HANG_S = 24 * 3600.0  # a training takes less

Gate = str | Callable[[Any, Any], float]


@dataclass(frozen=True)
class Train(StageKind):
    kind, kept, arguments = "train", "training", ("params", "frames", "last")
    role, recorded = "training", "train"

    function: Callable[..., Any]
    when: Any
    gpus: int = 0
    window: int = 100_000
    gate: Gate = "error"
    hang_s: float = TRAINING_HANG_S
    ranks: int = 1
    strategy: str = "single"
    most: float = math.inf

    def tried(self, trial: Trial) -> Iterator[Try]:
        scoring = trial.workflow.scoring
        if scoring and scoring.early:
            yield Try("score, before there is a model", trial.score, scoring.function, needed=False)
        yield Try(self.kind, trial.train, self.function)

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        yield Try("train again", trial.train_again, self.function, needed=False)

    def checked(self, plan: Planned) -> Iterator[tuple[str, bool, str]]:
        # A budget of frames may be spent before the first training: a draw that is held out makes one frame at least.
        draws, rule = len(plan.workflow.held_out_draws(plan.params)), plan.workflow.train_rule(plan.params)
        assert rule is not None
        budget = limit(rule.counts, plan.workflow.stop_rule(plan.params))
        spent = draws if rule.counts == "frames" else 0
        fewer = f", on {self.ranks} ranks, or as many as there are full batches; --try says how long those are fewer"
        when = f"{rule}{fewer if self.ranks > 1 else ''}"
        if budget - spent >= rule.first:
            yield "training when", True, when
        else:
            left = f"{budget:g} frames, of which {draws} or more are held out" if spent else f"{budget:g} {rule.counts}"
            yield "training when", False, f"{when}, but the budget is {left}: no model will be trained; raise it"
        if not draws:
            yield "held out", True, "one of each ten starts"

    @classmethod
    def shown(cls, state: State, *, alive: bool) -> StageView:
        if not state.models:
            return StageView("has not run")
        verdicts = Counter(
            {True: "used", False: "not used", None: "running" if alive else "not finished"}[m.accepted]
            for m in state.models
        )
        training = state.models.under_way if alive else None
        epoch = training.epoch if training else None
        now = f"epoch {epoch.epoch} of {epoch.epochs}" if epoch else "runs" if training else "idle"
        ranks = max((m.fit.ranks for m in state.models if m.fit), default=1)
        counts = {"models": str(len(state.models))} | ({"ranks": str(ranks)} if ranks > 1 else {})
        return StageView(now, counts, dict(verdicts))


def limit(name: str, rule: StopRule) -> float:
    """The least limit of this kind among the budgets of a stop rule; inf: there is none."""
    budgets = (each for each in rule.either if isinstance(each, Budget))
    return min((each.limits.get(name, math.inf) for each in budgets), default=math.inf)
