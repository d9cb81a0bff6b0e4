"""What can be wrong with a run that is started from Python, or that is to be gone on with.

EngineError
├── RunFailed         it ended without what it was to do
└── BadInput
    └── OtherRun      the directory holds a run with other parameters
"""

from __future__ import annotations

from steersman.system.errors import BadInput, EngineError


class OtherRun(BadInput):
    path: str
    differing: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.path} holds another run: {', '.join(self.differing)}. Give another run_dir; or, to go on with "
            f"other parameters, `steersman resume {self.path} --set key=value`"
        )


class RunFailed(EngineError):
    path: str
    outcome: str
    reason: str

    exit_status = 5

    def __str__(self) -> str:
        return f"{self.path} has ended ({self.outcome or 'its driver died'}): {self.reason}; the same call continues it"
