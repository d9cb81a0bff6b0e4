"""What a molecular dynamics worker needs to know of a molecule, as plain data that pickle carries."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Molecule:
    """A molecule ready to simulate: atoms, forces and a relaxed start. Equal only to itself.

    Args:
        sequence: one letter per residue of the protein.
        system_xml: the OpenMM System (masses, constraints, forces, box) as OpenMM serializes it.
        pdb: the topology and the start as PDB text, for viewers and MDAnalysis.
        positions: (N, 3) float32, nm; the start.
        alpha: (R,) int32, index of each residue's C-alpha.
        bonds: (B, 2) int32, atom indices of the covalent bonds.
        periodic: whether it sits in a periodic box of solvent.
        box: (3, 3) float64, nm; the vectors of that box.
        chains: (R,) int32, which chain each residue belongs to.
    """

    sequence: str
    system_xml: str = field(repr=False)
    pdb: str = field(repr=False)
    positions: np.ndarray = field(repr=False)
    alpha: np.ndarray = field(repr=False)
    bonds: np.ndarray = field(repr=False)
    periodic: bool = False
    box: np.ndarray | None = field(default=None, repr=False)
    chains: np.ndarray | None = field(default=None, repr=False)

    @property
    def atoms(self) -> int:
        """Number of atoms N."""
        return len(self.positions)

    @property
    def residues(self) -> int:
        """Number of residues R with a C-alpha; contact maps are (R, R)."""
        return len(self.alpha)
