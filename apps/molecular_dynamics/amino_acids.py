"""The 20 amino acids: their letters, their names and the heavy atoms that each must have."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from steersman.system.errors import BadValue

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

# Names that state a protonation, of Amber, CHARMM and GROMACS: the usual one and Amber's, and all names.
STATES = {
    ("HIS", "HID"): "HID HSD HISD HISA", ("HIS", "HIE"): "HIE HSE HISE HISB", ("HIS", "HIP"): "HIP HSP HISH",
    ("ASP", "ASH"): "ASH ASPP ASPH", ("GLU", "GLH"): "GLH GLUP GLUH", ("LYS", "LYN"): "LYN LSN",
    ("LYS", "LYS"): "LYSH", ("CYS", "CYM"): "CYM",
}  # fmt: skip
CAPS = {"ACE": "CH3 C O", "NME": "N C", "NH2": "N"}  # groups at the ends of a chain, with their heavy atoms
BRIDGED = ("CYX", "CYS2")  # names of a cysteine in a disulfide bond
_BY_NAME = {
    **{name: (name, "") for name in (*SIDE_CHAINS, *CAPS)},
    **{name: state for state, names in STATES.items() for name in names.split()},
    "NMA": ("NME", ""), "NHE": ("NH2", ""), "CYX": ("CYS", ""), "CYS2": ("CYS", ""),
}  # fmt: skip

LETTERS = "ARNDCQEGHILKMFPSTWYV"  # in the order of the names above
NAMES = dict(zip(LETTERS, SIDE_CHAINS, strict=True))
UNKNOWN = "X"


def checked_sequence(sequence: str, fewest: int = 2) -> str:
    """Return the sequence in one-letter code, without blanks and in capitals.

    Words that are three-letter names ("TYR TYR ASP") are translated.

    Raises: BadValue: it is empty, a letter is none of the 20, it has fewer letters than `fewest`, 1 or 2; or some of
        its words are three-letter names, and others none.
    """
    words = sequence.upper().split()
    letters = "".join(words)
    if len(words) > 1 and all(len(word) == 3 for word in words) and any(word in SIDE_CHAINS for word in words):
        if others := [word for word in words if word not in SIDE_CHAINS]:
            raise BadValue("sequence", sequence, f"some words are three-letter names, and {others[0]} is none")
        letters = "".join(map(letter, words))
    unknown = [position for position, letter in enumerate(letters, 1) if letter not in LETTERS]
    if unknown or not letters:
        problem = (
            f"{letters[unknown[0] - 1]!r} at position {unknown[0]} is no amino acid; " if unknown else "it is empty; "
        )
        raise BadValue("sequence", repr(letters), f"{problem}the 20 letters are {' '.join(sorted(LETTERS))}")
    if len(letters) < fewest:
        raise BadValue(
            "the number of residues", 1, "give 2 or more: the force field knows no residue with two charged ends"
        )
    return letters


# Type of a workflow's parameter: a sequence that is checked before any job starts.
Sequence = Annotated[str, AfterValidator(lambda sequence: checked_sequence(sequence))]


def residue_and_state(name: str) -> tuple[str, str]:
    """Give the usual name of a residue, and Amber's for the protonation that this one states, or "".

    "HSE" is ("HIS", "HIE"), Amber's "NALA" is ("ALA", ""); a name that is not known stays as it is.
    """
    at_end = name[1:] if len(name) == 4 and name[0] in "NC" else ""
    return _BY_NAME.get(name) or _BY_NAME.get(at_end) or (name, "")


def letter(residue: str) -> str:
    """Give the letter of a residue's three-letter name; X for what is none of the 20."""
    usual = residue_and_state(residue)[0]
    return next((letter for letter, name in NAMES.items() if name == usual), UNKNOWN)


def missing_atoms(residue: str, present: set[str], *, last: bool) -> list[str]:
    """List the heavy atoms that a residue or cap of this name lacks; `last` residues also need the terminal OXT."""
    needed = CAPS[residue].split() if residue in CAPS else [*BACKBONE, *SIDE_CHAINS[residue].split()]
    needed += ["OXT"] if last and residue not in CAPS else []
    return [atom for atom in needed if atom not in present]
