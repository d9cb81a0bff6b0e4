"""What comes before the loop: `prepare`, `task`, `before`, `held_out`; and `after`."""

from __future__ import annotations

from collections.abc import Iterator

from steersman.journal.state import State
from steersman.stages.kinds.stage import Plain, Planned, Several, StageView, Trial, Try


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
