"""What can be wrong while a run goes on."""

from __future__ import annotations

from steersman.system.errors import EngineError


class ExecutorLost(EngineError):
    """A part of Parsl died: everything that ran on it is lost, and is started again."""

    cause: str


class TaskFailed(EngineError):
    task: str
    words: str
    cause: str

    def __str__(self) -> str:
        return f"{self.task}({self.words}) failed: {self.cause}"


class PlanFailed(EngineError):
    cause: str
