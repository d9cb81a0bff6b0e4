"""What can keep a figure from being drawn.

DashboardError
├── NothingToDraw     the run does not hold what the figure shows
└── BadYardstick      a yardstick gave something else than one row for each frame
"""

from __future__ import annotations

from steersman.system.errors import EngineError


class DashboardError(EngineError):
    """Anything the dashboard reports."""


class NothingToDraw(DashboardError):
    missing: str

    def __str__(self) -> str:
        return f"there is nothing to draw: {self.missing}"


class BadYardstick(DashboardError, ValueError):
    name: str
    shape: tuple[int, ...]
    frames: int

    def __str__(self) -> str:
        return f"yardstick {self.name!r}: it gave shape {self.shape} for {self.frames} frames; return one row for each"
