"""Molecular dynamics of atoms by any calculator of ASE, and labels by an expensive one. Angstrom, eV, ps."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from steersman.system.errors import MissingExtra
from steersman.system.lazy import lazy

if find_spec("ase") is None:
    raise MissingExtra("ase", "potentials")

if TYPE_CHECKING:
    from steersman.apps.atoms.dynamics import VARIABLES as VARIABLES
    from steersman.apps.atoms.dynamics import atoms_of as atoms_of
    from steersman.apps.atoms.dynamics import rattle as rattle
    from steersman.apps.atoms.dynamics import run as run
    from steersman.apps.atoms.labels import ANSWERS as ANSWERS
    from steersman.apps.atoms.labels import answer as answer
    from steersman.apps.atoms.labels import fit as fit
    from steersman.apps.atoms.labels import force_error as force_error
    from steersman.apps.atoms.labels import mean_force_error as mean_force_error
    from steersman.apps.atoms.labels import read as read
    from steersman.apps.atoms.labels import write as write
else:
    __all__, __getattr__, __dir__ = lazy(__name__)
