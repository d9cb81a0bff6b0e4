"""PDB or mmCIF file -> topology, positions and the names that it gives its residues; one conformer of each residue."""

from __future__ import annotations

import io
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from openmm import app, unit
from openmm.app.internal.pdbstructure import PdbStructure

from steersman.apps.molecular_dynamics.amino_acids import SIDE_CHAINS, missing_atoms, residue_and_state
from steersman.system.errors import BadInput, EngineError

ATOMS = ("ATOM  ", "HETATM")
CONVERT = "give a PDB or mmCIF file"
WRONG = (ValueError, IndexError, KeyError, TypeError, AttributeError)  # what OpenMM raises of a file that is none
SHOWN = 3  # residues with alternate locations that are named


class Atoms(NamedTuple):
    """What a file holds; `names` has one for each residue of the topology, in capitals, as the file has it."""

    topology: app.Topology
    positions: Any
    names: list[str]

    @property
    def nm(self) -> np.ndarray:
        """(N, 3) float64."""
        return np.array(self.positions.value_in_unit(unit.nanometer))


class _Row(NamedTuple):
    residue: tuple[str, ...]
    name: str
    atom: str
    alternate: str
    occupancy: float


def read(path: str | Path) -> Atoms:
    """Read the first model; of alternate locations the most occupied one of each residue, with a warning.

    Raises: BadInput: it is no PDB or mmCIF file.
    """
    if Path(path).suffix == ".gro":
        raise BadInput(f"{path}: convert this file: `gmx editconf -f FILE.gro -o FILE.pdb`")
    text = Path(path).read_text(errors="replace")
    parse = _mmcif if text.lstrip().startswith("data_") or Path(path).suffix in (".cif", ".mmcif") else _pdb
    try:
        return parse(str(path), text)
    except EngineError:
        raise
    except WRONG as unreadable:
        problem = f"{type(unreadable).__name__}: {unreadable}"
        raise BadInput(f"{path}: the file is no PDB or mmCIF file: {problem}; {CONVERT}") from unreadable


def _pdb(path: str, text: str) -> Atoms:
    lines = list(_of_first_model(text.splitlines()))
    rows = {i: _pdb_row(line) for i, line in enumerate(lines) if line.startswith(ATOMS)}
    if not rows:
        raise BadInput(f"{path}: the file has no atoms; {CONVERT}")
    chosen = _conformers(path, rows.values())
    kept = []
    for i, line in enumerate(lines):
        if (row := rows.get(i)) is None:
            kept.append(line)
        elif row.alternate in ("", chosen.get(row.residue, "")):
            named = f"{line[:16]} {residue_and_state(row.name)[0]:<4}{line[21:]}".ljust(80)
            kept.append(f"{named[:72]}{row.name:<4}{named[76:]}")  # the segment carries the name through the parser
    structure = PdbStructure(io.StringIO("\n".join(kept)))
    pdb = app.PDBFile(structure)
    names = [next(residue.iter_atoms()).segment_id for residue in structure.iter_residues()]
    return Atoms(pdb.topology, pdb.positions, names)


def _of_first_model(lines: Iterable[str]) -> Iterable[str]:
    """Its atoms, the ends of its chains, the box and all bonds."""
    begun = ended = False
    bonds = []
    for line in lines:
        if line.startswith("CONECT"):
            bonds.append(line)
        elif line.startswith("CRYST1"):
            yield line
        elif line.startswith(ATOMS) or (line.split()[:1] == ["TER"] and begun):
            begun = True
            if not ended:
                yield line
        ended |= begun and line.startswith("END")
    yield from bonds


def _pdb_row(line: str) -> _Row:
    occupancy = line[54:60].strip()
    return _Row(
        (line[21:22], line[22:27]), line[17:21].strip().upper(), line[12:16].strip(), line[16:17].strip(),
        float(occupancy) if occupancy else 1.0,
    )  # fmt: skip


def _mmcif(path: str, text: str) -> Atoms:
    lines = text.splitlines()
    columns = [line.split()[0].removeprefix("_atom_site.") for line in lines if line.startswith("_atom_site.")]
    cells = {i: line.split() for i, line in enumerate(lines) if line.startswith(("ATOM", "HETATM"))}
    if not cells or any(len(row) != len(columns) for row in cells.values()):
        raise ValueError("its atoms are not one a line")
    at = {name: i for i, name in enumerate(columns)}
    rows = {i: _mmcif_row(dict(zip(columns, row, strict=True))) for i, row in cells.items()}
    chosen = _conformers(path, rows.values())
    kept, names = [], {}
    for i, line in enumerate(lines):
        if (row := rows.get(i)) is None:
            kept.append(line)
        elif row.alternate in ("", chosen.get(row.residue, "")):
            own = cells[i]
            for column in ("label_comp_id", "auth_comp_id"):
                if column in at:
                    own[at[column]] = residue_and_state(row.name)[0]
            if "label_alt_id" in at:
                own[at["label_alt_id"]] = "."
            names[own[at["id"]]] = row.name
            kept.append(" ".join(own))
    mmcif = app.PDBxFile(io.StringIO("\n".join(kept) + "\n"))
    firsts = (next(residue.atoms()).id for residue in mmcif.topology.residues())
    return Atoms(mmcif.topology, mmcif.positions, [names[first] for first in firsts])


def _mmcif_row(row: dict[str, str]) -> _Row:
    def either(name: str) -> str:
        return row.get(f"auth_{name}", row.get(f"label_{name}", ""))

    place = either("asym_id"), either("seq_id"), row.get("pdbx_PDB_ins_code", "?"), row.get("pdbx_PDB_model_num", "1")
    alternate = row.get("label_alt_id", ".")
    occupancy = row.get("occupancy", "?")
    return _Row(
        place, either("comp_id").upper(), either("atom_id").strip("\"'"), "" if alternate in ".?" else alternate,
        1.0 if occupancy in ".?" else float(occupancy),
    )  # fmt: skip


def _conformers(path: str, rows: Iterable[_Row]) -> dict[tuple[str, ...], str]:
    """Residue -> the label of its most occupied alternate location; one that lacks atoms comes after all others."""
    rows_of: defaultdict[tuple[str, ...], list[_Row]] = defaultdict(list)
    for row in rows:
        rows_of[row.residue].append(row)
    chosen, words = {}, []
    for residue, atoms in rows_of.items():
        labels = sorted({row.alternate for row in atoms} - {""})
        if labels:
            chosen[residue] = min(labels, key=lambda label: (_lacks(atoms, label), -_occupancy(atoms, label), label))
        if len(labels) > 1:
            name = next(row.name for row in atoms if row.alternate == chosen[residue])
            share = 100 * _occupancy(atoms, chosen[residue])
            words.append(f"{name} {residue[1].strip()} of chain {residue[0]}: {chosen[residue]} ({share:.0f} %)")
    if words:
        shown = ", ".join(words[:SHOWN]) + (", ..." if len(words) > SHOWN else "")
        warnings.warn(f"{path}: of alternate locations the most occupied are taken: {shown}", stacklevel=2)
    return chosen


def _lacks(atoms: Sequence[_Row], label: str) -> bool:
    own = [row for row in atoms if row.alternate in ("", label)]
    base = residue_and_state(next(row.name for row in own if row.alternate))[0]
    return base in SIDE_CHAINS and bool(missing_atoms(base, {row.atom for row in own}, last=False))


def _occupancy(atoms: Sequence[_Row], label: str) -> float:
    return float(np.mean([row.occupancy for row in atoms if row.alternate == label]))
