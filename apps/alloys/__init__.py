"""Order and disorder in alloys of two metals: a surrogate walks, and some hundred expensive energies audit it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from steersman.apps.alloys.frames import VARIABLES
from steersman.apps.alloys.thermodynamics import transition, width_K
from steersman.system.errors import MissingExtra

if find_spec("ase") is None:
    raise MissingExtra("ase", "alloys")

if TYPE_CHECKING:
    from steersman.apps.alloys.figures import curves as curves
    from steersman.apps.alloys.lattice import Lattice as Lattice
    from steersman.apps.alloys.surrogate import Surrogate as Surrogate
    from steersman.apps.alloys.surrogate import audits as audits
    from steersman.apps.alloys.surrogate import judged as judged

_HOMES = {
    "Lattice": "lattice",
    "Surrogate": "surrogate",
    "audits": "surrogate",
    "curves": "figures",
    "judged": "surrogate",
}

__all__ = ["VARIABLES", "Lattice", "Surrogate", "audits", "curves", "judged", "transition", "width_K"]


def __getattr__(name: str) -> Any:
    """Import what needs torch or matplotlib when it is asked for: the driver of a run needs neither."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
