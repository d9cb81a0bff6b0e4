"""Molecules from files: PDB in implicit solvent, a prepared box of water, and files that cannot be used."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import openmm
import pytest
from openmm import app, unit

from steersman.apps.errors import SimulationUnstable
from steersman.apps.molecular_dynamics import Molecule, build_peptide, prepared_system, read_pdb, rmsd, run
from steersman.apps.molecular_dynamics.context import Settings, open_context
from steersman.apps.molecular_dynamics.force_field import PROTEIN, WATER, explicit_system
from steersman.apps.molecular_dynamics.periodic import box_nm
from steersman.stages.start import Start
from steersman.system.errors import BadInput, UnknownName

CRYSTAL = "CRYST1   30.000   30.000   30.000  90.00  90.00  90.00 P 1           1\n"


@pytest.fixture(scope="module")
def pdb_text() -> str:
    """A tripeptide with all its atoms."""
    return build_peptide("AYG").pdb


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory, pdb_text: str) -> Path:
    """The tripeptide in a 2.2 nm cube of TIP3P: the smallest that PME's cutoff allows."""
    folder = tmp_path_factory.mktemp("box")
    (folder / "dry.pdb").write_text(pdb_text)
    dry = app.PDBFile(str(folder / "dry.pdb"))
    wet = app.Modeller(dry.topology, dry.positions)
    wet.addSolvent(app.ForceField(PROTEIN, WATER), boxSize=openmm.Vec3(2.2, 2.2, 2.2) * unit.nanometer)
    with (folder / "wet.pdb").open("w") as file:
        app.PDBFile.writeFile(wet.topology, wet.positions, file)
    return folder / "wet.pdb"


def without(text: str, *atoms: str) -> str:
    """Leave out the tyrosine's atoms of these names."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not (line[17:20] == "TYR" and line[12:16].strip() in atoms))


def test_a_pdb_file_gives_back_the_molecule_that_was_written(tmp_path: Path, pdb_text: str) -> None:
    """The same atoms, near where they were: minimizing and 1 ps of warming move the backbone less than 0.2 nm."""
    (tmp_path / "a.pdb").write_text(pdb_text)
    built, read = build_peptide("AYG"), read_pdb(tmp_path / "a.pdb")
    assert (read.sequence, read.atoms) == ("AYG", built.atoms)
    assert rmsd(read.positions[None, read.alpha], built.positions[built.alpha])[0] < 0.2


def test_missing_atoms_are_named_with_their_residue(tmp_path: Path, pdb_text: str) -> None:
    """Which residue, which atoms, what to do."""
    (tmp_path / "a.pdb").write_text(without(pdb_text, "CZ", "OH"))
    with pytest.raises(BadInput, match=r"TYR 2 .*CZ, OH"):
        read_pdb(tmp_path / "a.pdb")


def test_a_missing_end_is_named(tmp_path: Path, pdb_text: str) -> None:
    """A chain that was cut lacks the second oxygen of its end."""
    (tmp_path / "a.pdb").write_text("".join(line for line in pdb_text.splitlines(keepends=True) if "OXT" not in line))
    with pytest.raises(BadInput, match=r"GLY 3 .*OXT"):
        read_pdb(tmp_path / "a.pdb")


def test_a_gap_in_the_chain_is_named(tmp_path: Path, pdb_text: str) -> None:
    """What was not resolved is not left out silently: alanine and glycine would be bound, and minimized together."""
    lines = pdb_text.splitlines(keepends=True)
    (tmp_path / "a.pdb").write_text("".join(line for line in lines if line[17:20] != "TYR"))
    with pytest.raises(BadInput, match=r"C-N .*ALA 1.*GLY 3"):
        read_pdb(tmp_path / "a.pdb")


def test_coordinates_in_nm_are_refused(tmp_path: Path, pdb_text: str) -> None:
    """The minimizer would blow the molecule up into another isomer, as with a peptide bond that is cis."""
    lines = [
        f"{line[:30]}{''.join(f'{float(line[at : at + 8]) / 10:8.3f}' for at in (30, 38, 46))}{line[54:]}"
        if line.startswith("ATOM") else line
        for line in pdb_text.splitlines(keepends=True)
    ]  # fmt: skip
    (tmp_path / "a.pdb").write_text("".join(lines))
    with pytest.raises(BadInput, match="angstrom"):
        read_pdb(tmp_path / "a.pdb")


def test_a_chain_on_top_of_another_is_told(tmp_path: Path, pdb_text: str) -> None:
    """No minimizer parts atoms that lie at one point."""
    atoms = [line for line in pdb_text.splitlines(keepends=True) if line.startswith("ATOM")]
    (tmp_path / "a.pdb").write_text("".join([*atoms, "TER\n", *(f"{line[:21]}B{line[22:]}" for line in atoms)]))
    with pytest.raises(SimulationUnstable, match="NaN"):
        read_pdb(tmp_path / "a.pdb")


def test_a_residue_that_is_no_amino_acid_is_named(tmp_path: Path, pdb_text: str) -> None:
    """Phosphotyrosine has no parameters in ff14SB."""
    (tmp_path / "a.pdb").write_text(pdb_text.replace("TYR", "PTR"))
    with pytest.raises(BadInput, match="PTR 2"):
        read_pdb(tmp_path / "a.pdb")


@pytest.mark.parametrize("text", ["", "this is no structure\n"])
def test_a_file_without_atoms_is_told(tmp_path: Path, text: str) -> None:
    """Naming the file."""
    (tmp_path / "a.pdb").write_text(text)
    with pytest.raises(BadInput, match=r"a\.pdb: the file"):
        read_pdb(tmp_path / "a.pdb")


@pytest.mark.slow
def test_a_box_of_water_runs_with_particle_mesh_ewald(box: Path) -> None:
    """Frames have every atom, and only the protein's C-alpha atoms in the contact map.

    What the process simulated before changes no bit: a neighbour list that remembered other places would.
    """
    molecule = prepared_system(box)
    frames, _, again = (
        list(run(Start(molecule), temperature_K=300, duration_ps=0.04, report_ps=0.02, seed=seed)) for seed in (1, 2, 1)
    )
    assert np.array_equal(frames[-1].state["positions"], again[-1].state["positions"])
    assert molecule.periodic
    assert (molecule.residues, molecule.sequence) == (3, "AYG")
    assert molecule.atoms > 800
    assert frames[-1].contacts.shape == (3, 3)
    assert np.isfinite(frames[-1].energy)


def test_a_given_system_is_simulated_as_it_is(tmp_path: Path, pdb_text: str) -> None:
    """Its XML comes back unchanged: no force of ours is added. Here ff14SB in vacuum."""
    (tmp_path / "a.pdb").write_text(pdb_text)
    system = app.ForceField(PROTEIN).createSystem(app.PDBFile(str(tmp_path / "a.pdb")).topology)
    text = openmm.XmlSerializer.serialize(system)
    (tmp_path / "system.xml").write_text(text)
    for given in (tmp_path / "system.xml", text):
        assert prepared_system(tmp_path / "a.pdb", system_xml=given).system_xml == text


def boxed(
    pdb_text: str,
    folder: Path,
    box_A: float | None,
    system_nm: float,
    *forces: openmm.Force,
    constraints: object = None,
) -> Molecule:
    """The tripeptide in a box of the file, with a System of another box and a cutoff of 0.7 nm."""
    cryst = f"CRYST1{box_A:9.3f}{box_A:9.3f}{box_A:9.3f}  90.00  90.00  90.00 P 1           1\n" if box_A else ""
    (folder / "a.pdb").write_text(cryst + pdb_text)
    topology = app.PDBFile(str(folder / "a.pdb")).topology
    topology.setUnitCellDimensions([3.0 * unit.nanometer] * 3)
    system = app.ForceField(PROTEIN).createSystem(
        topology, nonbondedMethod=app.CutoffPeriodic, nonbondedCutoff=0.7, constraints=constraints
    )
    system.setDefaultPeriodicBoxVectors(*np.eye(3) * system_nm)
    for force in forces:
        system.addForce(force)
    (folder / "system.xml").write_text(openmm.XmlSerializer.serialize(system))
    return prepared_system(folder / "a.pdb", system_xml=folder / "system.xml")


@pytest.mark.parametrize(
    ("box_A", "system_nm", "nm"), [(25.0, 3.0, 2.5), (30.0, 2.5, 3.0), (None, 3.0, 3.0), (30.0004, 3.00004, 3.00004)]
)
def test_the_box_of_the_file_is_simulated(
    box_A: float | None, system_nm: float, nm: float, tmp_path: Path, pdb_text: str
) -> None:
    """Forces, topology and exports agree on it; one that differs by rounding alone stays as the System has it."""
    molecule = boxed(pdb_text, tmp_path, box_A, system_nm)
    simulated = openmm.XmlSerializer.deserialize(molecule.system_xml).getDefaultPeriodicBoxVectors()
    written = app.PDBFile(io.StringIO(molecule.pdb)).topology.getPeriodicBoxVectors()
    assert molecule.box is not None
    assert np.allclose(molecule.box, nm * np.eye(3), rtol=0, atol=1e-9)
    assert np.array_equal(box_nm(simulated), molecule.box)
    assert np.allclose(box_nm(written), molecule.box, rtol=0, atol=1e-4)


@pytest.mark.parametrize("far", [0.0, 1.0])
@pytest.mark.parametrize("cut", [None, "bonds", "constraints"])
def test_a_molecule_that_is_cut_at_the_faces_of_the_box_is_refused(
    far: float, cut: str | None, tmp_path: Path, pdb_text: str
) -> None:
    """Its bonds would be as long as the box, and tear it apart. A whole one may lie anywhere, also in another box."""
    lines = [line for line in pdb_text.splitlines() if line.startswith(("ATOM", "HETATM"))]
    hydrogen = next(place for place, line in enumerate(lines) if line[76:78].strip() == "H")
    shifted = {"bonds": range(20, len(lines)), "constraints": [hydrogen], None: []}[cut]
    boxes = [far + (place in shifted) for place in range(len(lines))]
    moved = [
        f"{line[:38]}{float(line[38:46]) + 30 * box:8.3f}{line[46:]}" for line, box in zip(lines, boxes, strict=True)
    ]
    text = "\n".join([*moved, "END\n"])
    if cut is None:
        assert boxed(text, tmp_path, 30.0, 3.0).periodic
    else:
        with pytest.raises(BadInput, match="bonds cross"):
            boxed(text, tmp_path, 30.0, 3.0, constraints=app.HBonds if cut == "constraints" else None)


def test_a_crystal_in_implicit_solvent_has_no_box(tmp_path: Path, pdb_text: str) -> None:
    (tmp_path / "a.pdb").write_text(CRYSTAL + pdb_text)
    molecule = read_pdb(tmp_path / "a.pdb")
    assert (molecule.periodic, molecule.box) == (False, None)
    assert "CRYST1" not in molecule.pdb


def test_frames_of_chains_in_other_images_have_the_same_contacts(tmp_path: Path, pdb_text: str) -> None:
    """Two tripeptides side by side; the second is one box further in the second file."""
    atoms = [line for line in pdb_text.splitlines() if line.startswith(("ATOM", "HETATM"))]
    found = []
    for far_A in (0.0, 30.0):
        other = (f"{line[:21]}B{line[22:46]}{float(line[46:54]) + 7.5 + far_A:8.3f}{line[54:]}" for line in atoms)
        text = "\n".join([*atoms, "TER", *other, "END\n"])
        molecule = boxed(text, tmp_path, 30.0, 30.0)
        (frame,) = run(Start(molecule), temperature_K=0, duration_ps=0.004, report_ps=0.004, seed=1)
        found.append(frame.contacts)
        assert molecule.chains is not None
        assert molecule.chains.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.array_equal(found[0], found[1])
    assert found[0][:3, 3:].any()


@pytest.mark.parametrize("platform", [None, "Reference"])
def test_what_openmm_says_of_a_system_is_said(platform: str | None, tmp_path: Path, pdb_text: str) -> None:
    restraint, typo = openmm.CustomExternalForce("k*x"), openmm.CustomBondForce("r^2 + undefined")
    restraint.addParticle(5000, [])
    typo.addBond(0, 1, [])
    molecule = boxed(pdb_text, tmp_path, 30.0, 3.0)
    for forces, system_nm, word in (((), 1.3, "cutoff"), ((restraint,), 3.0, "5000"), ((typo,), 3.0, "undefined")):
        with pytest.raises(BadInput, match=word):
            boxed(pdb_text, tmp_path, None, system_nm, *forces)
    system = openmm.XmlSerializer.deserialize(molecule.system_xml)
    system.setDefaultPeriodicBoxVectors(*np.eye(3))
    with pytest.raises(BadInput, match="cutoff"):
        open_context(system, Settings(300.0, platform=platform))
    with pytest.raises(UnknownName):
        open_context(system, Settings(300.0, platform="None"))


def test_a_system_that_does_not_fit_is_told(box: Path, tmp_path: Path, pdb_text: str) -> None:
    """No box, no XML, another number of atoms, a barostat or a thermostat, whatever its name."""
    (tmp_path / "dry.pdb").write_text(pdb_text)
    with pytest.raises(BadInput, match=r"dry\.pdb.*box"):
        prepared_system(tmp_path / "dry.pdb")
    xml = tmp_path / "system.xml"
    for force in (openmm.MonteCarloBarostat(1, 300), openmm.AndersenThermostat(300, 1)):
        system = explicit_system(app.PDBFile(str(box)).topology)
        force.setName("my coupling")
        system.addForce(force)
        xml.write_text(openmm.XmlSerializer.serialize(system))
        with pytest.raises(BadInput, match="my coupling"):
            prepared_system(box, system_xml=xml)
    with pytest.raises(BadInput, match="41 atoms"):
        prepared_system(tmp_path / "dry.pdb", system_xml=xml)
    xml.write_text("<nothing/>")
    with pytest.raises(BadInput, match="OpenMM System"):
        prepared_system(box, system_xml=xml)
