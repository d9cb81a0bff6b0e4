"""What can keep a figure from being drawn.

DashboardError
├── NothingToDraw     the run does not hold what the figure shows
└── BadYardstick      a yardstick gave something else than one row for each frame
"""

from __future__ import annotations


class DashboardError(Exception):
    """Anything the dashboard reports."""


class NothingToDraw(DashboardError):
    def __init__(self, missing: str) -> None:
        super().__init__(missing)
        self.missing = missing

    def __str__(self) -> str:
        return f"there is nothing to draw: {self.missing}"


class BadYardstick(DashboardError, ValueError):
    def __init__(self, name: str, shape: tuple[int, ...], frames: int) -> None:
        super().__init__(name, shape, frames)
        self.name, self.shape, self.frames = name, shape, frames

    def __str__(self) -> str:
        return f"yardstick {self.name!r}: it gave shape {self.shape} for {self.frames} frames; return one row for each"
