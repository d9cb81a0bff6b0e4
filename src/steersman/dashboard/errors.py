"""What can keep a panel from being drawn."""

from __future__ import annotations

from steersman.system.errors import EngineError


class PanelFails(EngineError):
    """The panel of a workflow file raises an error."""

    cause: str

    def __str__(self) -> str:
        return f"this panel fails: {self.cause}"
