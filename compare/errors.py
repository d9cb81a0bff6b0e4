"""What can keep policies from being compared.

EngineError
├── CampaignFailed    a campaign of the comparison did not spend its budget
└── NoYardstick       the workflow has none
"""

from __future__ import annotations

from steersman.system.errors import EngineError


class CampaignFailed(EngineError):
    def __init__(self, run: str, log: str) -> None:
        super().__init__(run, log)
        self.run, self.log = run, log

    def __str__(self) -> str:
        return f"{self.run} did not come to its end; the same command goes on with the others' runs kept:\n{self.log}"


class NoYardstick(EngineError):
    def __init__(self, workflow: str) -> None:
        super().__init__(workflow)
        self.workflow = workflow

    def __str__(self) -> str:
        return (
            f"{self.workflow} has no yardstick, and metrics see a run's own latent space, which cannot be compared "
            "between runs; decorate a function of stored frames with @wf.yardstick()"
        )
