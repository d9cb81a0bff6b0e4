"""Molecular dynamics of peptides and proteins in OpenMM."""

from steersman.system.errors import MissingExtra

try:
    import openmm  # noqa: F401 (every module here needs it)
except ModuleNotFoundError as missing:
    raise MissingExtra("openmm", "md") from missing

from steersman.apps.molecular_dynamics.amino_acids import Sequence
from steersman.apps.molecular_dynamics.contacts import contact_maps, far_contacts, hairpin, native_fraction
from steersman.apps.molecular_dynamics.dihedral import dihedral
from steersman.apps.molecular_dynamics.features import (
    Angles,
    Contacts,
    Coordinates,
    Distances,
    Features,
    SideBySide,
    Torsions,
)
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.apps.molecular_dynamics.peptide import build_peptide, ideal_helix
from steersman.apps.molecular_dynamics.simulation import VARIABLES, Frame, run
from steersman.apps.molecular_dynamics.structure_file import prepared_system, read_pdb
from steersman.apps.molecular_dynamics.superposition import rmsd

__all__ = [
    "VARIABLES",
    "Angles",
    "Contacts",
    "Coordinates",
    "Distances",
    "Features",
    "Frame",
    "Molecule",
    "Sequence",
    "SideBySide",
    "Torsions",
    "build_peptide",
    "contact_maps",
    "dihedral",
    "far_contacts",
    "hairpin",
    "ideal_helix",
    "native_fraction",
    "prepared_system",
    "read_pdb",
    "rmsd",
    "run",
]
