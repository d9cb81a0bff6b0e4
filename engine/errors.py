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
