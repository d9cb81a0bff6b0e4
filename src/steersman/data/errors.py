"""What can be wrong with a wish to look at a run."""

from __future__ import annotations

from steersman.system.errors import EngineError


class NothingToDraw(EngineError):
    """The run does not hold what a figure or a view shows."""

    missing: str

    def __str__(self) -> str:
        return f"there is nothing to draw: {self.missing}"


class DamagedPart(UserWarning):
    """A part of a run cannot be read, and is left out; the rest is whole."""


class Unconverted(UserWarning):
    """A quantity without a known unit is written to a file as its numbers are."""
