"""What can keep runs from being analysed."""

from __future__ import annotations

from steersman.system.errors import EngineError


class TooLittle(EngineError):
    what: str

    def __str__(self) -> str:
        return f"there is too little to make a model of: {self.what}"
