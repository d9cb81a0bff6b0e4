"""Order and disorder in alloys of two metals: a surrogate walks, and some hundred expensive energies audit it."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from steersman.system.errors import MissingExtra
from steersman.system.lazy import lazy

if find_spec("ase") is None:
    raise MissingExtra("ase", "alloys")

if TYPE_CHECKING:
    from steersman.apps.alloys.figures import curves as curves
    from steersman.apps.alloys.frames import VARIABLES as VARIABLES
    from steersman.apps.alloys.lattice import Lattice as Lattice
    from steersman.apps.alloys.surrogate import Surrogate as Surrogate
    from steersman.apps.alloys.surrogate import audits as audits
    from steersman.apps.alloys.surrogate import judged as judged
    from steersman.apps.alloys.thermodynamics import transition as transition
    from steersman.apps.alloys.thermodynamics import width_K as width_K
else:
    __all__, __getattr__, __dir__ = lazy(__name__)
