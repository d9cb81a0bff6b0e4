"""`@wf.simulate`: one segment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from steersman.journal.state import State
from steersman.stages.kinds.stage import AWorkflow, Planned, StageKind, StageView, Trial, Try
from steersman.store import Variable

HANG_S = 600.0  # a frame, or a batch of scores, takes less


@dataclass(frozen=True)
class Simulate(StageKind):
    kind, kept, arguments = "simulate", "simulation", ("params", "start", "out")
    role, recorded = "simulation", "simulate"

    function: Callable[..., None]
    gpus: int = 0
    retries: int = 2
    variables: Mapping[str, Variable] = field(default_factory=dict)
    hang_s: float = HANG_S
    exact: bool | None = None
    batch: int = 0
    conditions: Any = None
    workflow: AWorkflow = None

    def call(self, params: Any, start: Any, out: Any) -> None:
        """Call the function, of a batch with lists; `program` needs the parameters and the workflow."""
        known = {"params": params, "learns": self.workflow.training is not None}
        starts = [replace(each, **known) for each in (start if self.batch else [start])]
        for each in out if self.batch else [out]:
            each.workflow = self.workflow
        self.function(params, starts if self.batch else starts[0], out)

    @property
    def one(self) -> Callable[..., None]:
        """The function as of one segment, whether or not it takes several."""
        return (lambda params, start, out: self.call(params, [start], [out])) if self.batch else self.call

    def checked(self, plan: Planned) -> Iterator[tuple[str, bool, str]]:
        if self.exact:
            yield self.kind, True, "segments begin only where others gave their state"

    def tried(self, trial: Trial) -> Iterator[Try]:
        yield Try(self.kind, trial.simulate, self.function)

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        steering, chosen = trial.steering, trial.candidate
        pushed = ", pushed" if steering.pushed else ""
        yield Try(f"simulate from there{pushed}", trial.simulate, self.function, needed=False)
        if chosen is not None and chosen.exact and not steering.policy.rounds:
            yield Try("simulate from a frame without a state", trial.simulate_without_state, self.function, False)

    @classmethod
    def shown(cls, state: State, *, alive: bool) -> StageView:
        walkers = list(state.walkers.values())
        jobs = Counter(
            ("at work" if walker.has_come else "waits in the queue") if walker.alive and alive
            else "stopped" if walker.alive else "went home"
            for walker in walkers
        )  # fmt: skip
        lost = sum(walker.was_lost for walker in walkers)
        if lost:
            jobs["lost"] = lost
            jobs["went home"] -= lost
        busy = sum(walker.running is not None for walker in walkers if walker.alive) if alive else 0
        counts = {"segments": f"{state.ended.total():,}", **{how: f"{n:,}" for how, n in state.ended.items()}}
        return StageView(f"{busy:,} run" if busy else "idle", counts, {k: n for k, n in jobs.items() if n > 0})
