"""A peptide from its letters: the right atoms, the right forces, the right helix."""

from __future__ import annotations

import io
import pickle
import random

import numpy as np
import openmm
import pytest
from openmm import app, unit

from steersman.apps.molecular_dynamics import Molecule, build_peptide, contact_maps, ideal_helix, peptide, rmsd
from steersman.apps.molecular_dynamics.amino_acids import LETTERS, checked_sequence
from steersman.apps.molecular_dynamics.force_field import HYDROGEN_MASS, PROTEIN, implicit_system
from steersman.apps.molecular_dynamics.peptide import EXTENDED, HELIX, heavy_atoms, with_hydrogens
from steersman.system.errors import BadValue


@pytest.fixture(scope="module")
def chignolin() -> Molecule:
    """CLN025."""
    return build_peptide("YYDPETGTWY")


def parsed(sequence: str, angles: tuple[float, float] = EXTENDED) -> app.PDBFile:
    """Parse the heavy atoms of a peptide."""
    return app.PDBFile(io.StringIO(heavy_atoms(sequence, angles)))


def energy(system: openmm.System, positions_nm: np.ndarray) -> float:
    """Potential energy, kJ/mol, in double precision."""
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    context.setPositions(positions_nm)
    return float(context.getState(energy=True).getPotentialEnergy().value_in_unit(unit.kilojoule_per_mole))


@pytest.mark.slow
def test_moving_mass_to_hydrogens_neither_makes_nor_loses_any(chignolin: Molecule) -> None:
    """The sum is that of chignolin's 166 atoms; 1e-4, since ff14SB rounds the elements' masses to 0.01 u."""
    system = openmm.XmlSerializer.deserialize(chignolin.system_xml)
    heavy = [system.getParticleMass(i).value_in_unit(unit.amu) for i in range(system.getNumParticles())]
    topology, _ = with_hydrogens(parsed("YYDPETGTWY"))
    natural = [atom.element.mass.value_in_unit(unit.amu) for atom in topology.atoms()]
    assert (chignolin.atoms, chignolin.residues, chignolin.sequence) == (166, 10, "YYDPETGTWY")
    assert sum(heavy) == pytest.approx(sum(natural), rel=1e-4)
    assert min(heavy) == pytest.approx(HYDROGEN_MASS.value_in_unit(unit.amu))


@pytest.mark.slow
def test_a_peptide_of_all_twenty_amino_acids_can_be_built() -> None:
    """Every letter that is allowed has its template, and the start is a plausible one: bonds are 0.09-0.19 nm."""
    molecule = build_peptide(LETTERS)
    bonds = molecule.positions[molecule.bonds]
    lengths_nm = np.linalg.norm(bonds[:, 0] - bonds[:, 1], axis=1)
    assert molecule.sequence == LETTERS
    assert lengths_nm.min() > 0.09
    assert lengths_nm.max() < 0.19


@pytest.mark.slow
@pytest.mark.parametrize("sequence", ["NLYIQWLKDGGPSSGRPPPS", "ARNDCQEGHILKMFPSTWYV"])
def test_every_residue_is_the_mirror_image_that_was_placed(sequence: str) -> None:
    """OpenMM throws hydrogens at random; from some throws the minimum is D-arginine, or D-phenylalanine."""
    molecule = build_peptide(sequence)
    topology = app.PDBFile(io.StringIO(molecule.pdb)).topology
    for residue in topology.residues():
        at = {atom.name: molecule.positions[atom.index].astype(float) for atom in residue.atoms()}
        if "CB" in at:
            assert np.linalg.det([at[name] - at["CA"] for name in ("N", "C", "CB")]) > 0, str(residue)


@pytest.mark.slow
def test_a_helix_at_its_minimum_is_no_explosion() -> None:
    """The rough build's forces are no part of its velocities."""
    for sequence in ("VPMGHACAETPW", "LMSYADTWFHVK", "TGDGKTLCHPTR"):
        assert ideal_helix(sequence).sequence == sequence


def test_the_native_force_has_the_energy_of_obc2() -> None:
    """GBSAOBCForce against implicit/obc2.xml; Coulomb's constant differs in its 7th digit: 3e-3 of -1278 kJ/mol."""
    topology, positions_nm = with_hydrogens(parsed("YYDPETGTWY"))
    official = app.ForceField(PROTEIN, "implicit/obc2.xml").createSystem(
        topology, nonbondedMethod=app.NoCutoff, constraints=app.HBonds, hydrogenMass=HYDROGEN_MASS
    )
    assert energy(implicit_system(topology), positions_nm) == pytest.approx(energy(official, positions_nm), abs=3e-3)


def test_an_ideal_helix_touches_four_residues_ahead_and_no_further() -> None:
    """An alpha helix rises 0.15 nm a residue: C-alpha i, i+4 are 0.62 nm apart and i, i+5 are 0.86 nm."""
    pdb = parsed("A" * 21, HELIX)
    positions_nm = np.array(pdb.getPositions(asNumpy=True).value_in_unit(unit.nanometer))
    alpha = [atom.index for atom in pdb.topology.atoms() if atom.name == "CA"]
    first, second = np.indices((21, 21))
    assert np.array_equal(contact_maps(positions_nm[None, alpha])[0], abs(first - second) <= 4)


@pytest.mark.slow
def test_the_native_state_stays_a_helix_when_its_energy_is_minimized() -> None:
    """Less than 0.1 nm from the geometry that it was built with, for a sequence that likes helices."""
    sequence = "AAAAAAAARAAAARAAAARAA"
    pdb = parsed(sequence, HELIX)
    alpha = [atom.index for atom in pdb.topology.atoms() if atom.name == "CA"]
    built_nm = np.array(pdb.getPositions(asNumpy=True).value_in_unit(unit.nanometer))[alpha]
    native = ideal_helix(sequence)
    assert rmsd(native.positions[None, native.alpha], built_nm)[0] < 0.1


@pytest.mark.slow
def test_the_same_letters_give_the_same_molecule_whatever_chance_says(chignolin: Molecule) -> None:
    """OpenMM throws hydrogens with Python's random numbers; ours are left as they were."""
    random.seed(99)
    expected = random.Random(99).random()
    again = build_peptide(" yydpe tgtwy\n")
    assert random.random() == expected
    assert np.array_equal(again.positions, chignolin.positions)
    assert again.system_xml == chignolin.system_xml


def test_a_molecule_survives_pickle_and_hashes_by_identity(chignolin: Molecule) -> None:
    """It goes to workers by pickle, and is a key of the warm context there."""
    again = pickle.loads(pickle.dumps(chignolin))
    assert again != chignolin
    assert len({again, chignolin}) == 2
    assert np.array_equal(again.positions, chignolin.positions)


@pytest.mark.parametrize(("sequence", "told"), [("YYBW", "YYBW'.*'B' at position 3"), ("Y1", "'1' at position 2")])
def test_an_impossible_letter_is_named_with_its_position_and_the_twenty(sequence: str, told: str) -> None:
    """And nothing is built."""
    with pytest.raises(BadValue, match=told) as impossible:
        build_peptide(sequence)
    assert str(impossible.value).endswith("A C D E F G H I K L M N P Q R S T V W Y")


def test_an_empty_sequence_is_told() -> None:
    """Blanks are no residues."""
    with pytest.raises(BadValue, match="empty"):
        build_peptide("  ")


def test_a_single_residue_is_told() -> None:
    """It would have both charged ends, for which ff14SB has no parameters."""
    with pytest.raises(BadValue, match="residues = 1"):
        build_peptide("g")


@pytest.mark.slow
def test_a_capped_alanine_is_alanine_dipeptide() -> None:
    """22 atoms, no charge, and the energy of the force field's own implicit solvent within 0.01 kJ/mol."""
    molecule = build_peptide("A", capped=True)
    system = openmm.XmlSerializer.deserialize(molecule.system_xml)
    (nonbonded,) = (force for force in system.getForces() if isinstance(force, openmm.NonbondedForce))
    charges = [nonbonded.getParticleParameters(i)[0].value_in_unit(unit.elementary_charge) for i in range(22)]
    assert (molecule.atoms, molecule.sequence) == (22, "A")
    assert sum(charges) == pytest.approx(0, abs=1e-6)
    topology = app.PDBFile(io.StringIO(molecule.pdb)).topology
    other = app.ForceField(PROTEIN, "implicit/obc2.xml").createSystem(
        topology, constraints=app.HBonds, hydrogenMass=HYDROGEN_MASS
    )
    assert energy(system, molecule.positions) == pytest.approx(energy(other, molecule.positions), abs=0.01)
    with pytest.raises(BadValue):
        build_peptide("A")


@pytest.mark.parametrize(
    ("written", "letters"),
    [
        ("TYR TYR ASP", "YYD"), ("tyr  Asp\nGLY", "YDG"), ("YYDPETGTWY", "YYDPETGTWY"), ("YYD PET GTW", "YYDPETGTW"),
        ("TYR", "TYR"), ("ALA AL", "ALAAL"),
    ],
)  # fmt: skip
def test_three_letter_names_are_read_as_such(written: str, letters: str) -> None:
    """A single word is one-letter code, as it always was."""
    assert checked_sequence(written) == letters


@pytest.mark.parametrize("written", ["TYR TYR PTR", "HIP ALA GLY"])
def test_names_among_which_one_is_none_are_no_letters(written: str) -> None:
    with pytest.raises(BadValue, match=r"PTR|HIP"):
        checked_sequence(written)


def test_a_long_chain_fits_into_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PDB file holds -999.999 to 9999.999 A; a chain that is longer is refused by its length."""
    positions_nm = np.array(parsed("A" * 30).positions.value_in_unit(unit.nanometer))
    assert positions_nm.min() == 0
    monkeypatch.setattr(peptide, "LONGEST_A", 60.0)
    with pytest.raises(BadValue, match="residues = 30"):
        heavy_atoms("A" * 30, EXTENDED)
