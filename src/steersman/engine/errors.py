"""What can be wrong while a run goes on; each says what to do next."""

from __future__ import annotations

from steersman.journal.errors import FINISHED
from steersman.system.errors import BadInput, EngineError


class NotRunning(BadInput):
    path: str
    outcome: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if self.outcome in FINISHED:
            return f"{self.path} is over ({self.outcome}): {self.reason}"
        state = f"has ended ({self.outcome}): {self.reason}" if self.outcome else "is not running, or does not answer"
        return f"{self.path} {state}; `steersman resume {self.path}` continues it"


class OtherLoop(BadInput):
    """A workflow file that a run is to go on with is not that of the run, and not only in what may be another."""

    path: str
    source: str
    differs: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.path} holds another run: its file and {self.source} differ in {', '.join(self.differs)}. A run "
            "goes on with a file in which only functions under @wf.task, after, yardstick, figure or panel differ, and "
            "the functions and modules beside it that these alone use; until a start is prepared, before and prepare, "
            "too. For another loop start a new run"
        )


class ExecutorLost(EngineError):
    """A part of Parsl died: everything that ran on it is lost, and is started again."""

    cause: str

    def __str__(self) -> str:
        return self.cause


class TaskFailed(EngineError):
    task: str
    words: str
    cause: str

    def __str__(self) -> str:
        return f"{self.task}({self.words}) failed: {self.cause}"


class PlanFailed(EngineError):
    cause: str

    def __str__(self) -> str:
        return self.cause
