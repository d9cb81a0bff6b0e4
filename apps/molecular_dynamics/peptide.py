"""Sequence -> Molecule: a peptide with all its atoms, from nothing but its letters."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import openmm
from openmm import app, unit

from steersman.apps.molecular_dynamics.amino_acids import checked_sequence
from steersman.apps.molecular_dynamics.force_field import PROTEIN, implicit_system
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.apps.molecular_dynamics.relaxation import centres, relaxed
from steersman.system.errors import BadValue, MissingExtra

try:
    from Bio.PDB import PDBIO
    from PeptideBuilder.PeptideBuilder import add_terminal_OXT, make_structure
except ModuleNotFoundError as missing:
    raise MissingExtra("PeptideBuilder", "md") from missing

EXTENDED = (-120.0, 140.0)  # phi and psi in degrees of a beta strand: far from folded, no side chain meets another
HELIX = (-57.0, -47.0)  # of the ideal alpha helix; Pauling, Corey and Branson (1951), angles after IUPAC-IUB (1970)
LONGEST_A = 9000.0  # of a chain in a PDB file, with room for what it does when it is warmed
CH_NM = 0.109  # of a carbon and its hydrogen
WARM_PS = 1.0  # long enough to fill the modes that a minimum leaves cold, too short to fold


def build_peptide(sequence: str, *, temperature_K: float = 300.0, capped: bool = False) -> Molecule:
    """Build an extended peptide in implicit solvent, minimized and warmed.

    Args:
        sequence: one letter per residue, of the 20 amino acids.
        temperature_K: to which it is warmed, for 1 ps.
        capped: the ends are acetyl and N-methyl groups instead of charged; "A" is alanine dipeptide then.
    Returns: the same molecule, bit for bit, every time it is called on one machine.
    Raises: BadValue: an impossible letter, or a single one with charged ends.
    """
    return _built(sequence, EXTENDED, temperature_K=temperature_K, warm_ps=WARM_PS, capped=capped)


def ideal_helix(sequence: str) -> Molecule:
    """Build the peptide as one straight alpha helix, at the nearest minimum of its energy: a native state to aim at.

    Raises: BadValue: an impossible letter, or a single one.
    """
    return _built(sequence, HELIX, temperature_K=300.0, warm_ps=0.0)


def _built(
    sequence: str, angles: tuple[float, float], *, temperature_K: float, warm_ps: float, capped: bool = False
) -> Molecule:
    letters = checked_sequence(sequence, fewest=1 if capped else 2)
    text = capped_atoms(letters, angles) if capped else heavy_atoms(letters, angles)
    topology, positions_nm = with_hydrogens(app.PDBFile(io.StringIO(text)))
    return relaxed(topology, positions_nm, implicit_system(topology), temperature_K=temperature_K, warm_ps=warm_ps)


def heavy_atoms(sequence: str, angles: tuple[float, float]) -> str:
    """Place the heavy atoms of a peptide whose residues all have these phi and psi, degrees.

    Returns: PDB text. Raises: BadValue: it is longer than a PDB file can hold.
    """
    return _pdb(add_terminal_OXT(_chain(sequence, angles)))


def capped_atoms(sequence: str, angles: tuple[float, float]) -> str:
    """Place the heavy atoms of a peptide between caps, which lie where the backbone of one more glycine would.

    Returns: PDB text.
    """
    structure = _chain(f"G{sequence}G", angles)
    first, *_, last = structure.get_residues()
    for residue, name, kept in (
        (first, "ACE", {"CA": "CH3", "C": "C", "O": "O"}),
        (last, "NME", {"N": "N", "CA": "C"}),
    ):
        residue.resname = name
        for atom in list(residue):
            if atom.id not in kept:
                residue.detach_child(atom.id)
        for atom in residue:
            atom.fullname = f" {kept[atom.id]}".ljust(4)
    return _pdb(structure)


def _chain(sequence: str, angles: tuple[float, float]) -> Any:
    phi, psi = angles
    turns = len(sequence) - 1
    return make_structure(sequence, [phi] * turns, [psi] * turns)


def _pdb(structure: Any) -> str:
    atoms = list(structure.get_atoms())
    corner_A = np.min([atom.coord for atom in atoms], axis=0)
    for atom in atoms:  # a PDB file holds -999.999 to 9999.999 A
        atom.set_coord(atom.coord - corner_A)
    if max(np.max(atom.coord) for atom in atoms) > LONGEST_A:
        residues = len(list(structure.get_residues()))
        raise BadValue(
            "the number of residues", residues, f"give so few that the chain is at most {LONGEST_A:.0f} A long"
        )
    text, writer = io.StringIO(), PDBIO()
    writer.set_structure(structure)
    writer.save(text)
    return text.getvalue()


def with_hydrogens(
    pdb: app.PDBFile | app.Modeller, states: list[str | None] | None = None
) -> tuple[app.Topology, np.ndarray]:
    """Add the hydrogens of pH 7, or of the protonation of each residue. Returns: topology, (N, 3) float64 nm."""
    modeller = app.Modeller(pdb.topology, pdb.positions)
    reference = openmm.Platform.getPlatformByName("Reference")  # one thread: the same hydrogens every time
    with _same_chance():
        modeller.addHydrogens(app.ForceField(PROTEIN), variants=states, platform=reference)
    positions_nm = np.array(modeller.positions.value_in_unit(unit.nanometer))
    for carbon, hydrogen, heavy in centres(modeller.topology):
        away = positions_nm[heavy] - positions_nm[carbon]
        there = (away / np.linalg.norm(away, axis=1)[:, None]).sum(axis=0)
        if (positions_nm[hydrogen] - positions_nm[carbon]) @ there > 0:  # from there the minimum is the mirror image
            positions_nm[hydrogen] = positions_nm[carbon] - CH_NM * there / np.linalg.norm(there)
    return modeller.topology, positions_nm


@contextmanager
def _same_chance() -> Iterator[None]:
    """Seed Python's random numbers, with which OpenMM throws its first hydrogens, and put them back afterwards."""
    state = random.getstate()
    random.seed(0)
    try:
        yield
    finally:
        random.setstate(state)
