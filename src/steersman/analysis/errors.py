"""What can keep runs from being analysed, and policies from being compared.

EngineError
├── TooLittle         there is too little to make a model of
├── FolderInUse       another process works in the folder
├── CampaignFailed    a campaign of the comparison did not spend its budget
├── NothingMeasured   no campaign has a value to compare
└── BadInput
    ├── NoYardstick     the workflow has none
    └── UnevenFrames    the time between frames is not the same everywhere
"""

from __future__ import annotations

from steersman.system.errors import BadInput, EngineError


class TooLittle(EngineError):
    what: str

    def __str__(self) -> str:
        return f"there is too little to make a model of: {self.what}"


class UnevenFrames(BadInput):
    shortest: float
    longest: float
    unit: str

    def __str__(self) -> str:
        between = f"{self.shortest:g} to {self.longest:g}{'' if self.unit == '1' else f' {self.unit}'}"
        return (
            f"the time between frames differs: {between}; analyse only runs whose frames are equally far apart in time"
        )


class FolderInUse(EngineError):
    folder: str

    def __str__(self) -> str:
        return f"{self.folder} is in use by another `steersman compare` or `tune`; wait for it, or take another --out"


class CampaignFailed(EngineError):
    run: str
    log: str

    def __str__(self) -> str:
        return f"{self.run} did not come to its end; the same command goes on with the others' runs kept:\n{self.log}"


class NothingMeasured(EngineError):
    measure: str
    seeds: int
    trained: int

    def __str__(self) -> str:
        why = "" if self.trained else ": no model was trained, so take a larger budget, or train with fewer frames"
        return f"{self.measure} has no value in {self.seeds} campaigns of an arm, nor in those of plain sampling{why}"


class NoYardstick(BadInput):
    workflow: str

    def __str__(self) -> str:
        return (
            f"{self.workflow} has no yardstick, and metrics see a run's own latent space, which cannot be compared "
            "between runs; decorate a function of stored frames with @wf.yardstick(), or, where draws are held out, "
            "name a metric of them with --metric"
        )
