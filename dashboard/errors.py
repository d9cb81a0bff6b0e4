"""What can keep a figure from being drawn.

DashboardError
└── NothingToDraw     the run does not hold what the figure shows
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
