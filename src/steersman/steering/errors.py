"""What can be wrong with what steering looks at."""

from __future__ import annotations

from steersman.system.errors import BadInput, EngineError

BadBias = BadInput  # its name until 0.2, for scripts that catch it


class BadScores(EngineError, ValueError):
    """What a score function returned cannot be used."""

    name: str
    problem: str

    def __str__(self) -> str:
        return f"score {self.name!r}: {self.problem}" if self.name else f"the score stage: {self.problem}"


class NoAnswerYet(EngineError, ValueError):
    """What an estimate cannot say of so little; a metric that raises it has no value yet, and has not failed."""

    found: str
    needed: str

    def __str__(self) -> str:
        return f"{self.found}; it takes {self.needed}"


class AuditsRefused(NoAnswerYet):
    """What audits of a surrogate cannot answer, or not yet."""

    def __str__(self) -> str:
        return f"no answer from these audits: {super().__str__()}"
