"""Why a worker does not do what it is asked to do."""

from __future__ import annotations

from steersman.system.errors import EngineError


class BlockEnds(EngineError):
    needs_s: float
    left_s: float

    def __str__(self) -> str:
        return (
            f"a training takes about {self.needs_s:.0f} s, its block ends in {self.left_s:.0f} s; it waits for the next"
        )


class JudgingFailed(EngineError):
    """A model was fitted, and the score stage failed when it was to be compared with its predecessor."""

    problem: str

    def __str__(self) -> str:
        return self.problem
