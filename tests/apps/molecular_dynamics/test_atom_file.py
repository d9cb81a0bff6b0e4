"""Files as other programs write them: names, protonation, caps, alternate locations, mmCIF, and what is none."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from openmm import app

from steersman.apps.molecular_dynamics import Molecule, atom_file, build_peptide, read_pdb, structure_file
from steersman.apps.molecular_dynamics.peptide import EXTENDED, heavy_atoms
from steersman.apps.molecular_dynamics.relaxation import described
from steersman.system.errors import BadInput

Reads = Callable[..., Molecule]


@pytest.fixture(scope="module")
def heavy() -> str:
    """Heavy atoms of a peptide with every residue that has protonations."""
    return heavy_atoms("AHDEKCYG", EXTENDED)


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Read a text as a file, and leave the atoms where they are."""
    monkeypatch.setattr(structure_file, "relaxed", lambda *given, **_: described(*given))

    def call(text: str, name: str = "a.pdb") -> Molecule:
        (tmp_path / name).write_text(text)
        return read_pdb(tmp_path / name)

    return call


def renamed(text: str, number: int, name: str) -> str:
    """Give residue number of a PDB file another name, of up to four letters."""
    lines = text.splitlines(keepends=True)
    return "".join(
        f"{line[:17]}{name:<4}{line[21:]}" if line.startswith("ATOM") and int(line[22:26]) == number else line
        for line in lines
    )


def hydrogens(molecule: Molecule, number: int) -> set[str]:
    lines = molecule.pdb.splitlines()
    atoms = (line for line in lines if line.startswith(("ATOM", "HETATM")) and int(line[22:26]) == number)
    return {line[12:16].strip() for line in atoms if line[76:78].strip() == "H"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "names", "there", "missing"),
    [
        (2, "HID HSD HISD", "HD1", "HE2"), (2, "HIE HSE HISE", "HE2", "HD1"), (2, "HIP HSP", "HD1 HE2", ""),
        (3, "ASH ASPP", "HD2", ""), (3, "ASP", "", "HD2"), (4, "GLH GLUP", "HE2", ""), (4, "GLU", "", "HE2"),
        (5, "LYN LSN", "HZ1 HZ2", "HZ3"), (5, "LYS LYSH", "HZ1 HZ2 HZ3", ""),
        (6, "CYM", "", "HG"), (6, "CYS", "HG", ""), (1, "NALA", "H H2 H3", ""), (8, "CGLY", "HA2", ""),
    ],
)  # fmt: skip
def test_a_name_that_states_a_protonation_is_obeyed(
    number: int, names: str, there: str, missing: str, heavy: str, read: Reads
) -> None:
    """And the file of the molecule that we write is read as the same molecule."""
    for name in names.split()[:2]:
        molecule = read(renamed(heavy, number, name))
        assert molecule.sequence == "AHDEKCYG"
        assert set(there.split()) <= hydrogens(molecule, number)
        assert not set(missing.split()) & hydrogens(molecule, number)
    again = read(molecule.pdb)
    assert (again.atoms, hydrogens(again, number)) == (molecule.atoms, hydrogens(molecule, number))


@pytest.mark.parametrize(
    ("number", "name", "reason"),
    [(2, "HSH", "none of the 20"), (7, "PTR", "none of the 20"), (6, "CYX", "no disulfide bond"), (3, "ZN", "none of")],
)
def test_a_residue_that_cannot_be_taken_is_to_be_replaced_not_completed(
    number: int, name: str, reason: str, heavy: str, read: Reads
) -> None:
    with pytest.raises(BadInput) as refused:
        read(renamed(heavy, number, name))
    assert f"{name} {number} " in str(refused.value)
    assert reason in str(refused.value)
    assert "complete" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["HOH", "WAT", "TIP3", "SOL", "DOD", "NA", "CL", "Na+", "Cl-", "K+", "SOD", "CLA", "POT"]
)
def test_water_and_salt_are_left_out_by_any_name(name: str, heavy: str, read: Reads) -> None:
    line = f"HETATM 9999  O   {name:<4}A 900      50.000  50.000  50.000  1.00  0.00           O  \n"
    assert read(heavy.replace("END\n", f"{line}END\n")).sequence == "AHDEKCYG"


@pytest.mark.parametrize(
    "before", ["END\n", "TER\n", "CONECT    1    2\n", "ENDMDL\n", "REMARK Å\nTER\nEND\n", "MODEL        1\n"]
)
def test_what_a_file_begins_with_does_not_matter(before: str, heavy: str, tmp_path: Path) -> None:
    plain, other = tmp_path / "plain.pdb", tmp_path / "other.pdb"
    plain.write_text(heavy)
    other.write_text(before + heavy)
    assert np.array_equal(atom_file.read(other).nm, atom_file.read(plain).nm)


def test_only_the_first_model_is_read(heavy: str, tmp_path: Path) -> None:
    """Whether models are marked, or only ended."""
    atoms = "".join(line for line in heavy.splitlines(keepends=True) if line.startswith("ATOM"))
    moved = "".join(f"{line[:30]}   9.000{line[38:]}" for line in atoms.splitlines(keepends=True))
    expected = atom_file._pdb("", heavy).nm
    for text in (
        f"MODEL        1\n{atoms}TER\nENDMDL\nMODEL        2\n{moved}ENDMDL\nEND\n",
        f"{atoms}END\n{moved}END\n",
    ):
        (tmp_path / "a.pdb").write_text(text)
        assert np.array_equal(atom_file.read(tmp_path / "a.pdb").nm, expected)


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("a.pdb", "no structure\n", "PDB or mmCIF"), ("a.pdb", "ATOM      1  N   ALA A   1      xx\n", "PDB or mmCIF"),
        ("a.gro", "title\n 1\n    1ALA      N    1   0.1 0.2 0.3\n 1 1 1\n", "gmx editconf"),
        ("a.cif", "data_x\n", "PDB"), ("a.cif", "ATOM 1 N\n", "PDB"),
    ],
)  # fmt: skip
def test_a_file_that_is_none_is_to_be_converted_not_completed(name: str, text: str, advice: str, read: Reads) -> None:
    with pytest.raises(BadInput) as refused:
        read(text, name)
    assert advice in str(refused.value)


def test_a_capped_peptide_that_we_wrote_is_read(read: Reads) -> None:
    """As is one with an amidated end."""
    capped = build_peptide("A", capped=True)
    molecule = read(capped.pdb)
    assert (molecule.atoms, molecule.sequence) == (capped.atoms, "A") == (22, "A")
    lines = capped.pdb.splitlines(keepends=True)
    amide = "".join(line for line in lines if not ("NME" in line and line[12:16].strip() != "N")).replace("NME", "NHE")
    molecule = read(amide)
    assert (molecule.sequence, molecule.atoms) == ("A", 19)
    assert read(molecule.pdb).atoms == 19
    with pytest.raises(BadInput) as refused:
        read("".join(line for line in lines if "CH3 ACE" not in line))
    assert "the atoms CH3;" in str(refused.value)


def alternates(text: str, number: int, occupancies: dict[str, float], lacking: dict[str, str] | None = None) -> str:
    """Side chain of a residue at several places: each label is moved by 0.01 A more."""
    lines, fixed = [], {"N", "CA", "C", "O", "CB"}
    for line in text.splitlines(keepends=True):
        side = line.startswith("ATOM") and int(line[22:26]) == number and line[12:16].strip() not in fixed
        if not side:
            lines.append(line)
            continue
        for i, (label, occupancy) in enumerate(occupancies.items()):
            if line[12:16].strip() not in (lacking or {}).get(label, "").split():
                x = float(line[30:38]) + 0.01 * i
                lines.append(f"{line[:16]}{label}{line[17:30]}{x:8.3f}{line[38:54]}{occupancy:6.2f}{line[60:]}")
    return "".join(lines)


@pytest.mark.parametrize(
    ("occupancies", "lacking", "taken"),
    [
        ({"A": 0.2, "B": 0.8}, {}, "B"), ({"A": 0.8, "B": 0.2}, {}, "A"), ({"A": 0.5, "B": 0.5}, {}, "A"),
        ({"B": 0.5, "A": 0.5}, {}, "A"), ({"A": 0.5, "B": 0.5}, {"A": "CZ OH CE2"}, "B"),
        ({"A": 0.6, "B": 0.4}, {"A": "OH"}, "B"), ({"A": 0.3, "B": 0.3, "C": 0.4}, {}, "C"),
    ],
)  # fmt: skip
def test_the_most_occupied_conformer_is_taken_whole(
    occupancies: dict[str, float], lacking: dict[str, str], taken: str, heavy: str, tmp_path: Path
) -> None:
    (tmp_path / "a.pdb").write_text(alternates(heavy, 7, occupancies, lacking))
    with pytest.warns(UserWarning, match=f"TYR 7 .*: {taken}"):
        found = atom_file.read(tmp_path / "a.pdb")
    expected = atom_file._pdb("", heavy).nm
    assert len(found.nm) == len(expected)
    moved = np.unique(np.round(1000 * (np.sort(found.nm[:, 0]) - np.sort(expected[:, 0]))))
    assert set(moved) <= {0.0, list(occupancies).index(taken)}


def test_labels_in_another_order_for_each_atom_are_one_conformer(heavy: str, tmp_path: Path) -> None:
    text = alternates(heavy, 7, {"A": 0.5, "B": 0.5})
    lines = [line for line in text.splitlines(keepends=True) if line.startswith("ATOM")]
    mixed = sorted(range(len(lines)), key=lambda i: (lines[i][16] == "A" and "CD" in lines[i][12:16], i))
    (tmp_path / "a.pdb").write_text("".join(lines[i] for i in mixed))
    with pytest.warns(UserWarning, match="alternate locations"):
        found = atom_file.read(tmp_path / "a.pdb")
    assert len({atom.name for atom in found.topology.atoms() if atom.residue.name == "TYR"}) == 12
    assert np.allclose(sorted(found.nm[:, 0]), sorted(atom_file._pdb("", heavy).nm[:, 0]), atol=1e-6)


def test_mmcif_is_read_as_pdb_is(heavy: str, read: Reads, tmp_path: Path) -> None:
    pdb = app.PDBFile(io.StringIO(heavy))
    text = io.StringIO()
    app.PDBxFile.writeFile(pdb.topology, pdb.positions, text, keepIds=True)
    assert read(text.getvalue(), "a.cif").atoms == read(heavy).atoms
    molecule = read(text.getvalue().replace("HIS", "HIP"), "a.cif")
    assert {"HD1", "HE2"} <= hydrogens(molecule, 2)


def test_alternate_locations_of_mmcif_are_those_of_pdb(heavy: str, tmp_path: Path) -> None:
    """Rows as the Protein Data Bank writes them."""
    columns = (
        "group_PDB id type_symbol label_atom_id label_alt_id label_comp_id label_asym_id label_seq_id "
        "pdbx_PDB_ins_code Cartn_x Cartn_y Cartn_z occupancy auth_seq_id auth_asym_id pdbx_PDB_model_num"
    )
    rows: list[str] = []
    for line in alternates(heavy, 7, {"A": 0.2, "B": 0.8}).splitlines():
        if line.startswith("ATOM"):
            x, y, z, occupancy = line[30:38], line[38:46], line[46:54], line[54:60]
            number = line[22:26].strip()
            alternate = line[16:17].strip() or "."
            cells = ["ATOM", str(len(rows) + 1), line[76:78], line[12:16], alternate, line[17:20], "A", number, "?"]
            cells += [x, y, z, occupancy, number, "A", "1"]
            rows.append(" ".join(cell.strip() for cell in cells))
    header = "".join(f"_atom_site.{column}\n" for column in columns.split())
    (tmp_path / "a.cif").write_text(f"data_x\nloop_\n{header}" + "\n".join(rows) + "\n#\n")
    (tmp_path / "a.pdb").write_text(alternates(heavy, 7, {"A": 0.2, "B": 0.8}))
    with pytest.warns(UserWarning, match="TYR 7 .*: B"):
        mmcif = atom_file.read(tmp_path / "a.cif")
    with pytest.warns(UserWarning, match="alternate locations"):
        pdb = atom_file.read(tmp_path / "a.pdb")
    assert np.allclose(mmcif.nm, pdb.nm)
    assert mmcif.names == pdb.names


def test_a_plain_file_warns_of_nothing(heavy: str, tmp_path: Path) -> None:
    (tmp_path / "a.pdb").write_text(heavy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert atom_file.read(tmp_path / "a.pdb").names == ["ALA", "HIS", "ASP", "GLU", "LYS", "CYS", "TYR", "GLY"]
