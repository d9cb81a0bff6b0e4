"""What comes before the loop: `prepare`, `task`, `before`, `held_out`; what is asked in it: `answer`; and `after`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from steersman.journal.state import State
from steersman.stages.kinds.stage import Plain, Planned, Several, StageView, Trial, Try
from steersman.stages.shared import RECORDED as SHARED
from steersman.stages.shared import Shared


class Prepare(Plain):
    kind, kept, arguments = "prepare", "prepare_function", ("params",)
    recorded = "prepare"

    def tried(self, trial: Trial) -> Iterator[Try]:
        yield Try(self.kind, trial.prepare, self.function)

    @classmethod
    def shown(cls, state: State, *, alive: bool) -> StageView | None:
        done = bool(state.prepared) or bool(state.starts) or state.next_start > 0
        return StageView("done" if done else "waits", {"sha256": state.prepared[:12]} if state.prepared else {})


class Before(Prepare):
    """A plan that makes what `prepare` would; the page shows its calls."""

    kind, kept = "before", "before_plan"

    @classmethod
    def shown(cls, state: State, *, alive: bool) -> None:
        return None


class Tasks(Several):
    kind, kept, arguments, may_differ = "task", "tasks", None, True


class Answers(Several):
    """What a program that asks is told while it runs, see `steersman.apps.program`."""

    kind, kept, arguments = "answer", "answers", ("params", "model", "inputs")

    def __init__(self, functions: Mapping[str, Any]) -> None:
        super().__init__(functions)
        if any(isinstance(each, Shared) for each in functions.values()):
            self.recorded = SHARED  # type: ignore[misc]  # no stage of the loop: `why` looks for it


class After(Plain):
    kind, kept, arguments, may_differ = "after", "after_plan", ("params", "run"), True

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        yield Try("after", lambda: "not tried: it gets the whole run, when it has ended", needed=False)


class HeldOutDraws(Plain):
    kind, kept, arguments = "held_out", "held_out_function", ("params",)

    def tried(self, trial: Trial) -> Iterator[Try]:
        yield Try(self.kind, trial.hold_out, self.function)

    def checked(self, plan: Planned) -> Iterator[tuple[str, bool, str]]:
        if drawn := len(plan.workflow.held_out_draws(plan.params)):
            yield "held out", True, f"{drawn} draws, simulated first"
