"""The 20 amino acids: their letters, their names and the heavy atoms that each must have."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from steersman.apps.errors import OutOfRange, UnknownResidue

BACKBONE = ("N", "CA", "C", "O")

# Source: the names of the Protein Data Bank's chemical component dictionary; hydrogens are added by OpenMM.
SIDE_CHAINS = {
    "ALA": "CB",
    "ARG": "CB CG CD NE CZ NH1 NH2",
    "ASN": "CB CG OD1 ND2",
    "ASP": "CB CG OD1 OD2",
    "CYS": "CB SG",
    "GLN": "CB CG CD OE1 NE2",
    "GLU": "CB CG CD OE1 OE2",
    "GLY": "",
    "HIS": "CB CG ND1 CD2 CE1 NE2",
    "ILE": "CB CG1 CG2 CD1",
    "LEU": "CB CG CD1 CD2",
    "LYS": "CB CG CD CE NZ",
    "MET": "CB CG SD CE",
    "PHE": "CB CG CD1 CD2 CE1 CE2 CZ",
    "PRO": "CB CG CD",
    "SER": "CB OG",  # codespell:ignore
    "THR": "CB OG1 CG2",
    "TRP": "CB CG CD1 CD2 NE1 CE2 CE3 CZ2 CZ3 CH2",
    "TYR": "CB CG CD1 CD2 CE1 CE2 CZ OH",
    "VAL": "CB CG1 CG2",
}

LETTERS = "ARNDCQEGHILKMFPSTWYV"  # in the order of the names above
NAMES = dict(zip(LETTERS, SIDE_CHAINS, strict=True))
UNKNOWN = "X"


def checked_sequence(sequence: str, fewest: int = 2) -> str:
    """Return the sequence without blanks and in capitals.

    Raises: UnknownResidue: it is empty, or a letter is none of the 20; OutOfRange: it has fewer letters than
        `fewest`, 1 or 2.
    """
    letters = "".join(sequence.split()).upper()
    unknown = [position for position, letter in enumerate(letters, 1) if letter not in LETTERS]
    if unknown or not letters:
        raise UnknownResidue(letters, unknown[0] if unknown else 0, " ".join(sorted(LETTERS)))
    if len(letters) < fewest:
        raise OutOfRange(
            "the number of residues", 1, "2 or more: the force field knows no residue with two charged ends"
        )
    return letters


# Type of a workflow's parameter: a sequence that is checked before any job starts.
Sequence = Annotated[str, AfterValidator(lambda sequence: checked_sequence(sequence))]


def letter(residue: str) -> str:
    """Give the letter of a residue's three-letter name; X for what is none of the 20."""
    return next((letter for letter, name in NAMES.items() if name == residue), UNKNOWN)


def missing_atoms(residue: str, present: set[str], *, last: bool) -> list[str]:
    """List the heavy atoms that a residue of this name lacks; `last` residues also need the terminal OXT."""
    needed = [*BACKBONE, *SIDE_CHAINS[residue].split(), *(["OXT"] if last else [])]
    return [atom for atom in needed if atom not in present]
