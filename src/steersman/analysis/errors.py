"""What can keep runs from being analysed.

EngineError
├── TooLittle       there is too little to make a model of
└── BadInput
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
