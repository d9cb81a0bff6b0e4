"""Order and disorder in alloys of two metals: a surrogate walks, and some hundred expensive energies audit it."""

from importlib.util import find_spec

from steersman.system.errors import MissingExtra

if find_spec("ase") is None:
    raise MissingExtra("ase", "alloys")

from steersman.apps.alloys.lattice import Lattice
from steersman.apps.alloys.surrogate import VARIABLES, Surrogate, audits, judged
from steersman.apps.alloys.thermodynamics import transition, width_K

__all__ = ["VARIABLES", "Lattice", "Surrogate", "audits", "judged", "transition", "width_K"]
