"""Structure file -> Molecule: a PDB or mmCIF file in implicit solvent, or a prepared box of water."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import openmm
from openmm import app, unit

from steersman.apps.molecular_dynamics import atom_file
from steersman.apps.molecular_dynamics.amino_acids import (
    BRIDGED,
    CAPS,
    SIDE_CHAINS,
    missing_atoms,
    residue_and_state,
)
from steersman.apps.molecular_dynamics.force_field import CUTOFF, explicit_system, implicit_system
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.apps.molecular_dynamics.peptide import with_hydrogens
from steersman.apps.molecular_dynamics.periodic import box_nm
from steersman.apps.molecular_dynamics.relaxation import relaxed
from steersman.system.errors import BadInput

WARM_PS = 1.0
VARIANTS = {"CYM": "CYX"}  # what Modeller.addHydrogens calls a cysteine without its hydrogen, charged or bonded
HYDROGENS = (app.element.hydrogen, app.element.deuterium)
SHORTEST_BOND_NM = 0.05  # of heavy atoms; half of any that there is
LONGEST_BOND_NM = 0.25  # a disulfide's is 0.21; OpenMM bonds the residues before and after a gap as well
# What implicit solvent stands for, by the names of the Protein Data Bank, Amber, CHARMM and GROMACS.
SOLVENT = frozenset(
    "HOH H2O WAT TIP TIP3 TP3 SOL T4P SPC DOD NA NA+ SOD CL CL- CLA K K+ POT".split()  # noqa: SIM905
)
BOX_NM = 2e-3  # of CRYST1, whose angles are rounded to 0.01 degrees
COMPLETE = "complete the structure (e.g. with PDBFixer) and try again"
ANGSTROM = "are its coordinates in nm? those of a PDB file are in angstrom"


def read_pdb(path: str | Path, *, temperature_K: float = 300.0) -> Molecule:
    """Read a protein from the first model of a PDB or mmCIF file, in implicit solvent, minimized and warmed.

    Water and salt are left out, disulfide bonds are kept. Hydrogens are placed anew: for the protonation that a name
    states (HIP, HIE, HSE, ASH, GLH, LYN, CYM, ...), else for pH 7. Caps may be at the ends (ACE; NME, NHE). Of
    alternate locations the most occupied of each residue is taken, with a warning.

    Args:
        path: of the file.
        temperature_K: to which it is warmed, for 1 ps.
    Raises:
        BadInput: heavy atoms or residues are missing, or a residue is none of the 20 amino acids.
        SimulationUnstable: atoms overlap.
    """
    atoms = atom_file.read(path)
    protein = app.Modeller(atoms.topology, atoms.positions)
    solvent = [name in SOLVENT for name in atoms.names]
    protein.delete([residue for residue, gone in zip(atoms.topology.residues(), solvent, strict=True) if gone])
    protein.delete([atom for atom in protein.topology.atoms() if atom.element in HYDROGENS])
    names = [name for name, gone in zip(atoms.names, solvent, strict=True) if not gone]
    _check_residues(str(path), protein.topology, names)
    _check_bonds(str(path), protein.topology, _nm(protein))
    states = [residue_and_state(name)[1] for name in names]
    try:
        topology, positions_nm = with_hydrogens(protein, [VARIANTS.get(state, state) or None for state in states])
        system = implicit_system(topology)
    except ValueError as no_template:
        raise BadInput(f"{path}: the structure: {no_template}; {COMPLETE}") from no_template
    _name(topology, names)
    return relaxed(topology, positions_nm, system, temperature_K=temperature_K, warm_ps=WARM_PS)


def prepared_system(
    path: str | Path, *, system_xml: str | Path | None = None, temperature_K: float = 300.0, warm_ps: float = 0.0
) -> Molecule:
    """Read a solvated, complete system: simulated as it is, in its periodic box with particle mesh Ewald.

    Args:
        path: a PDB or mmCIF file with all atoms, hydrogens and water too, and the box (CRYST1).
        system_xml: the OpenMM System that belongs to it, the text of `openmm.XmlSerializer.serialize` or a file with
            it; a periodic one gets the box of the file, and one in vacuum needs none. None builds ff14SB with TIP3P and
            PME.
        temperature_K: to which it is warmed after minimizing.
        warm_ps: for so long; 0 takes the positions at the minimum.
    Raises:
        BadInput: no box where one is needed, another number of atoms, a barostat (frames hold no box), molecules
            that are cut at the faces of the box, missing atoms, or OpenMM refuses it.
    """
    pdb = atom_file.read(path)
    system = _own_system(str(path), pdb) if system_xml is None else _given_system(str(system_xml), pdb)
    _check_whole(str(path), system, pdb.nm)
    _name(pdb.topology, pdb.names)
    return relaxed(pdb.topology, pdb.nm, system, temperature_K=temperature_K, warm_ps=warm_ps)


def _own_system(path: str, pdb: atom_file.Atoms) -> openmm.System:
    box = pdb.topology.getUnitCellDimensions()
    if box is None or min(box) < 2 * CUTOFF:
        raise BadInput(f"{path}: needs a periodic box (CRYST1) of at least {2 * CUTOFF} a side; it has {box}")
    try:
        return explicit_system(pdb.topology)
    except ValueError as no_template:
        raise BadInput(f"{path}: the structure: {no_template}; {COMPLETE}") from no_template


def _given_system(path: str, pdb: atom_file.Atoms) -> openmm.System:
    text, path = (path, "system_xml") if path.lstrip().startswith("<") else ("", path)
    try:
        system = openmm.XmlSerializer.deserialize(text or Path(path).read_text())
    except (openmm.OpenMMException, ValueError) as damaged:
        raise BadInput(f"{path}: is no OpenMM System: {damaged}") from damaged
    atoms = pdb.topology.getNumAtoms()
    if not isinstance(system, openmm.System):
        raise BadInput(f"{path}: is no OpenMM System, but a {type(system).__name__}")
    if (particles := system.getNumParticles()) != atoms:
        raise BadInput(f"{path}: is a System of {particles} particles, and the structure has {atoms} atoms")
    for force in system.getForces():
        if hasattr(force, "setRandomNumberSeed"):  # barostats and Andersen's thermostat: no part of a segment's seed
            what = f"has a barostat or a thermostat ({force.getName()}); equilibrate first and remove it"
            raise BadInput(f"{path}: {what}")
    if system.usesPeriodicBoundaryConditions():
        _set_box(system, pdb.topology)
    return system


def _set_box(system: openmm.System, topology: app.Topology) -> None:
    """Give a System the box of the positions, which may be newer, unless that is its own but for rounding."""
    own, box = system.getDefaultPeriodicBoxVectors(), topology.getPeriodicBoxVectors()
    if box is not None and not np.allclose(box_nm(own), box_nm(box), rtol=0, atol=BOX_NM):
        system.setDefaultPeriodicBoxVectors(*box)


def _check_whole(path: str, system: openmm.System, positions_nm: np.ndarray) -> None:
    """Bonds and constraints whose forces do not look across the box are as long as they are, and would tear."""
    pairs = [system.getConstraintParameters(i)[:2] for i in range(system.getNumConstraints())]
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicBondForce) and not force.usesPeriodicBoundaryConditions():
            pairs += [force.getBondParameters(i)[:2] for i in range(force.getNumBonds())]
    if not (pairs and system.usesPeriodicBoundaryConditions()):
        return
    one, other = np.array(pairs).T
    boxes = (positions_nm[one] - positions_nm[other]) @ np.linalg.inv(box_nm(system.getDefaultPeriodicBoxVectors()))
    if len(cut := np.flatnonzero(np.rint(boxes).any(axis=1))):
        atoms = f"atoms {one[cut[0]] + 1} and {other[cut[0]] + 1}"
        problem = f"{len(cut):,} bonds cross the faces of the box, as that of {atoms}"
        raise BadInput(f"{path}: {problem}: make molecules whole, as `gmx trjconv -pbc mol` does")


def _name(topology: app.Topology, names: Sequence[str]) -> None:
    """Name residues by the protonation that the file stated: what is written is read as the same molecule."""
    for residue, name in zip(topology.residues(), names, strict=True):
        residue.name = residue_and_state(name)[1] or residue.name


def _check_residues(path: str, topology: app.Topology, names: Sequence[str]) -> None:
    if not names:
        raise BadInput(f"{path}: the file has no protein residues; give a file of a protein")
    bridged = {atom.residue.index for bond in topology.bonds() if {*_names(bond)} == {"SG"} for atom in bond}
    for (residue, last), name in zip(_with_last(topology), names, strict=True):
        where = _where(residue, name)
        if residue_and_state(name)[0] not in {*SIDE_CHAINS, *CAPS}:
            raise BadInput(f"{path}: {where} is none of the 20 amino acids; remove or replace it")
        missing = missing_atoms(residue.name, {atom.name for atom in residue.atoms()}, last=last)
        if missing:
            raise BadInput(f"{path}: {where} misses the atoms {', '.join(missing)}; {COMPLETE}")
        if name in BRIDGED and residue.index not in bridged:
            raise BadInput(f"{path}: {where} has no disulfide bond; name it CYS, or CYM")


def _names(bond: Iterable[app.topology.Atom]) -> Iterator[str]:
    return (atom.name for atom in bond)


def _check_bonds(path: str, topology: app.Topology, positions_nm: np.ndarray) -> None:
    for one, other in topology.bonds():
        apart_nm = float(np.linalg.norm(positions_nm[one.index] - positions_nm[other.index]))
        if apart_nm > LONGEST_BOND_NM:
            bond = f"the bond {one.name}-{other.name} from {_where(one.residue)} to {_where(other.residue)}"
            raise BadInput(f"{path}: {bond} is {apart_nm:.2g} nm long; {COMPLETE}")
        if apart_nm < SHORTEST_BOND_NM:
            bond = f"the bond {one.name}-{other.name} of {_where(one.residue)}"
            raise BadInput(f"{path}: {bond} is {apart_nm:.2g} nm long; {ANGSTROM}")


def _where(residue: app.topology.Residue, name: str = "") -> str:
    return f"{name or residue.name} {residue.id}{residue.insertionCode.strip()} of chain {residue.chain.id}"


def _with_last(topology: app.Topology) -> Iterator[tuple[app.topology.Residue, bool]]:
    """Give every residue, and whether it is the last of its chain."""
    for chain in topology.chains():
        residues = list(chain.residues())
        yield from ((residue, residue is residues[-1]) for residue in residues)


def _nm(structure: app.Modeller) -> np.ndarray:
    return np.array(structure.positions.value_in_unit(unit.nanometer))
