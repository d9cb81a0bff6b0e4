"""A crystal, its zone axis and its strain -> a cell of atoms that repeats along the pattern's axes and the beam."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steersman.system.errors import BadValue

if TYPE_CHECKING:
    from ase import Atoms

# structure, lattice constant (A) at room temperature
CRYSTAL = {
    "Al": ("fcc", 4.050), "Cu": ("fcc", 3.615), "Ag": ("fcc", 4.086), "Au": ("fcc", 4.078),
    "Fe": ("bcc", 2.866), "Mo": ("bcc", 3.147), "W": ("bcc", 3.165),
    "Si": ("diamond", 5.431), "Ge": ("diamond", 5.658), "GaAs": ("zincblende", 5.653),
    "NaCl": ("rocksalt", 5.640), "MgO": ("rocksalt", 4.212),
}  # fmt: skip
# zone axis, along the beam: the directions of the pattern's rows and columns, and the axis itself, at right angles
ZONES = {
    "001": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "011": ((1, 0, 0), (0, 1, -1), (0, 1, 1)),
    "111": ((1, -1, 0), (1, 1, -2), (1, 1, 1)),
}


def cell(crystal: str, zone: str = "001", strain: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Atoms:
    """Give a cell with right angles, an atom at its origin, its third edge along the beam.

    Args:
        crystal, zone: of CRYSTAL and ZONES.
        strain: of the three edges, relative.
    Raises: BadValue: another crystal or zone.
    """
    from ase.build import bulk, make_supercell

    for name, given, known in (("crystal", crystal, CRYSTAL), ("zone", zone, ZONES)):
        if given not in known:
            raise BadValue(name, given, f"give one of {', '.join(known)}")
    structure, constant = CRYSTAL[crystal]
    atoms = make_supercell(bulk(crystal, structure, a=constant, cubic=True), np.array(ZONES[zone]))
    atoms.set_cell(np.diag(atoms.cell.lengths() * (1 + np.array(strain))), scale_atoms=True)
    return atoms
