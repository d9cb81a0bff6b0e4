"""Structure file -> Molecule: a PDB file in implicit solvent, or a prepared box of water."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openmm
from openmm import app, unit

from steersman.apps.errors import IncompleteStructure, UnusableSystem
from steersman.apps.molecular_dynamics.amino_acids import SIDE_CHAINS, missing_atoms
from steersman.apps.molecular_dynamics.force_field import CUTOFF, explicit_system, implicit_system
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.apps.molecular_dynamics.peptide import with_hydrogens
from steersman.apps.molecular_dynamics.relaxation import relaxed

WARM_PS = 1.0
LONGEST_BOND_NM = 0.25  # a disulfide's is 0.21; OpenMM bonds the residues before and after a gap as well
SOLVENT = ("HOH", "WAT", "NA", "CL", "K")  # what implicit solvent stands for


def read_pdb(path: str | Path, *, temperature_K: float = 300.0) -> Molecule:
    """Read a protein from the first model of a PDB file, in implicit solvent, minimized and warmed.

    Water and salt are left out, hydrogens are placed anew for pH 7, disulfide bonds are kept.

    Args:
        path: of the file.
        temperature_K: to which it is warmed, for 1 ps.
    Raises:
        IncompleteStructure: heavy atoms or residues are missing, or a residue is none of the 20 amino acids.
        SimulationUnstable: atoms overlap.
    """
    pdb = _parsed(path)
    protein = app.Modeller(pdb.topology, pdb.positions)
    protein.delete([residue for residue in protein.topology.residues() if residue.name in SOLVENT])
    protein.delete([atom for atom in protein.topology.atoms() if atom.element is app.element.hydrogen])
    _check_residues(str(path), protein.topology)
    _check_bonds(str(path), protein.topology, _nm(protein))
    try:
        topology, positions_nm = with_hydrogens(protein)
        system = implicit_system(topology)
    except ValueError as no_template:
        raise IncompleteStructure(str(path), "the structure", (), str(no_template)) from no_template
    return relaxed(topology, positions_nm, system, temperature_K=temperature_K, warm_ps=WARM_PS)


def prepared_system(
    path: str | Path, *, system_xml: str | Path | None = None, temperature_K: float = 300.0, warm_ps: float = 0.0
) -> Molecule:
    """Read a solvated, complete system: simulated as it is, in its periodic box with particle mesh Ewald.

    Args:
        path: a PDB file with all atoms, hydrogens and water too, and the box (CRYST1).
        system_xml: the serialized OpenMM System that belongs to it; None builds ff14SB with TIP3P and PME.
        temperature_K: to which it is warmed after minimizing.
        warm_ps: for so long; 0 takes the positions at the minimum.
    Raises:
        UnusableSystem: no box, another number of atoms, or a barostat (frames hold no box).
        IncompleteStructure: atoms are missing.
    """
    pdb = _parsed(path)
    system = _own_system(str(path), pdb) if system_xml is None else _given_system(str(system_xml), pdb)
    return relaxed(pdb.topology, _nm(pdb), system, temperature_K=temperature_K, warm_ps=warm_ps)


def _own_system(path: str, pdb: app.PDBFile) -> openmm.System:
    box = pdb.topology.getUnitCellDimensions()
    if box is None or min(box) < 2 * CUTOFF:
        raise UnusableSystem(path, f"needs a periodic box (CRYST1) of at least {2 * CUTOFF} a side; it has {box}")
    try:
        return explicit_system(pdb.topology)
    except ValueError as no_template:
        raise IncompleteStructure(path, "the structure", (), str(no_template)) from no_template


def _given_system(path: str, pdb: app.PDBFile) -> openmm.System:
    try:
        system = openmm.XmlSerializer.deserialize(Path(path).read_text())
    except (openmm.OpenMMException, ValueError) as damaged:
        raise UnusableSystem(path, f"is no OpenMM System: {damaged}") from damaged
    atoms = pdb.topology.getNumAtoms()
    if not isinstance(system, openmm.System) or system.getNumParticles() != atoms:
        raise UnusableSystem(path, f"is no OpenMM System of the structure's {atoms} atoms")
    if any("Barostat" in force.getName() for force in system.getForces()):
        raise UnusableSystem(path, "has a barostat; equilibrate the box first and remove it")
    return system


def _check_residues(path: str, topology: app.Topology) -> None:
    residues = list(_with_last(topology))
    if not residues:
        raise IncompleteStructure(path, "the file", ("protein residues",), "has no")
    for residue, last in residues:
        where = _where(residue)
        if residue.name not in SIDE_CHAINS:
            raise IncompleteStructure(path, where, (), "is none of the 20 amino acids")
        missing = missing_atoms(residue.name, {atom.name for atom in residue.atoms()}, last=last)
        if missing:
            raise IncompleteStructure(path, where, tuple(missing))


def _check_bonds(path: str, topology: app.Topology, positions_nm: np.ndarray) -> None:
    for one, other in topology.bonds():
        apart_nm = float(np.linalg.norm(positions_nm[one.index] - positions_nm[other.index]))
        if apart_nm > LONGEST_BOND_NM:
            bond = f"the bond {one.name}-{other.name} from {_where(one.residue)} to {_where(other.residue)}"
            raise IncompleteStructure(path, bond, (), f"is {apart_nm:.2g} nm long")


def _where(residue: app.topology.Residue) -> str:
    return f"{residue.name} {residue.id}{residue.insertionCode.strip()} of chain {residue.chain.id}"


def _with_last(topology: app.Topology) -> Iterator[tuple[app.topology.Residue, bool]]:
    """Give every residue, and whether it is the last of its chain."""
    for chain in topology.chains():
        residues = list(chain.residues())
        yield from ((residue, residue is residues[-1]) for residue in residues)


def _parsed(path: str | Path) -> app.PDBFile:
    try:
        return app.PDBFile(str(path))
    except (ValueError, IndexError) as unreadable:
        raise IncompleteStructure(str(path), "the file", (str(unreadable),), "is no PDB file:") from unreadable


def _nm(structure: app.PDBFile | app.Modeller) -> np.ndarray:
    return np.array(structure.positions.value_in_unit(unit.nanometer))
