"""Sequence -> Molecule: a peptide with all its atoms, from nothing but its letters."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import openmm
from openmm import app, unit

from steersman.apps.errors import MissingExtra
from steersman.apps.molecular_dynamics.amino_acids import checked_sequence
from steersman.apps.molecular_dynamics.force_field import PROTEIN, implicit_system
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.apps.molecular_dynamics.relaxation import relaxed

try:
    from Bio.PDB import PDBIO
    from PeptideBuilder.PeptideBuilder import add_terminal_OXT, make_structure
except ModuleNotFoundError as missing:
    raise MissingExtra("PeptideBuilder", "md") from missing

EXTENDED = (-120.0, 140.0)  # phi and psi in degrees of a beta strand: far from folded, no side chain meets another
HELIX = (-57.0, -47.0)  # of the ideal alpha helix; Pauling, Corey and Branson (1951), angles after IUPAC-IUB (1970)
WARM_PS = 1.0  # long enough to fill the modes that a minimum leaves cold, too short to fold


def build_peptide(sequence: str, *, temperature_K: float = 300.0) -> Molecule:
    """Build an extended peptide in implicit solvent, minimized and warmed.

    Args:
        sequence: one letter per residue, of the 20 amino acids; charged ends.
        temperature_K: to which it is warmed, for 1 ps.
    Returns: the same molecule, bit for bit, every time it is called on one machine.
    Raises: UnknownResidue: an impossible letter; OutOfRange: a single one.
    """
    return _built(sequence, EXTENDED, temperature_K=temperature_K, warm_ps=WARM_PS)


def ideal_helix(sequence: str) -> Molecule:
    """Build the peptide as one straight alpha helix, at the nearest minimum of its energy: a native state to aim at.

    Raises: UnknownResidue: an impossible letter; OutOfRange: a single one.
    """
    return _built(sequence, HELIX, temperature_K=300.0, warm_ps=0.0)


def _built(sequence: str, angles: tuple[float, float], *, temperature_K: float, warm_ps: float) -> Molecule:
    topology, positions_nm = with_hydrogens(app.PDBFile(io.StringIO(heavy_atoms(checked_sequence(sequence), angles))))
    return relaxed(topology, positions_nm, implicit_system(topology), temperature_K=temperature_K, warm_ps=warm_ps)


def heavy_atoms(sequence: str, angles: tuple[float, float]) -> str:
    """Place the heavy atoms of a peptide whose residues all have these phi and psi, degrees. Returns: PDB text."""
    phi, psi = angles
    turns = len(sequence) - 1
    text, writer = io.StringIO(), PDBIO()
    writer.set_structure(add_terminal_OXT(make_structure(sequence, [phi] * turns, [psi] * turns)))
    writer.save(text)
    return text.getvalue()


def with_hydrogens(pdb: app.PDBFile) -> tuple[app.Topology, np.ndarray]:
    """Add the hydrogens of pH 7. Returns: the topology and (N, 3) float64 positions, nm."""
    modeller = app.Modeller(pdb.topology, pdb.positions)
    reference = openmm.Platform.getPlatformByName("Reference")  # one thread: the same hydrogens every time
    with _same_chance():
        modeller.addHydrogens(app.ForceField(PROTEIN), platform=reference)
    return modeller.topology, np.array(modeller.positions.value_in_unit(unit.nanometer))


@contextmanager
def _same_chance() -> Iterator[None]:
    """Seed Python's random numbers, with which OpenMM throws its first hydrogens, and put them back afterwards."""
    state = random.getstate()
    random.seed(0)
    try:
        yield
    finally:
        random.setstate(state)
