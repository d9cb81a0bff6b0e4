"""What can keep a figure from being drawn.

DashboardError
└── NothingToDraw     the run does not hold what the figure shows
"""

from __future__ import annotations

from steersman.system.errors import EngineError


class DashboardError(EngineError):
    """Anything the dashboard reports."""


class NothingToDraw(DashboardError):
    missing: str

    def __str__(self) -> str:
        return f"there is nothing to draw: {self.missing}"
