"""What can be wrong with a run that is started from Python."""

from __future__ import annotations

from steersman.system.errors import EngineError


class RunFailed(EngineError):
    """It ended without what it was to do."""

    path: str
    outcome: str
    reason: str

    exit_status = 5

    def __str__(self) -> str:
        return f"{self.path} has ended ({self.outcome or 'its driver died'}): {self.reason}; the same call continues it"
