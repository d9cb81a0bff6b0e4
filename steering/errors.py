"""What can be wrong with what steering looks at."""

from __future__ import annotations

from steersman.system.errors import EngineError


class BadScores(EngineError, ValueError):
    """What a score function returned cannot be used."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"score {self.name!r}: {self.problem}" if self.name else f"the score stage: {self.problem}"
