"""What can keep a figure from being drawn.

DashboardError
├── PanelFails        the panel of a workflow file raises an error
├── Moved             a place on the map was meant on one with other coordinates
├── LibrariesMissing  the page's JavaScript libraries are not installed
└── PortTaken         another process listens there
"""

from __future__ import annotations

from steersman.system.errors import BadInput, EngineError


class DashboardError(EngineError):
    """Anything the dashboard reports."""


class PanelFails(DashboardError):
    cause: str

    def __str__(self) -> str:
        return f"this panel fails: {self.cause}"


class Moved(DashboardError, BadInput):
    def __str__(self) -> str:
        return "the map has changed since: the frames have scores of a newer model; it is drawn again, choose again"


class LibrariesMissing(DashboardError):
    names: str

    def __str__(self) -> str:
        return (
            f"the dashboard's JavaScript libraries are missing ({self.names}): reinstall Steersman where npm can "
            "be reached, or run `python hatch_build.py` in the checkout"
        )


class PortTaken(DashboardError, BadInput):
    port: int

    def __str__(self) -> str:
        return f"another process listens on port {self.port} of this machine; leave --port out, or give another"
