"""Frames that hold the species of their atoms, as those of `steersman.apps.atoms` -> what a viewer asks of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman.data.history import History
from steersman.data.stored import ANGSTROM, POSITIONS, variables

NUMBERS, CELL = "numbers", "cell"
BY_NUMBER = (
    "X H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Y Zr Nb "
    "Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta W Re Os Ir Pt Au "
    "Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts "
    "Og"
)
SYMBOLS = BY_NUMBER.split()
WIDEST = 9999.0  # angstrom: a coordinate of a PDB file has no more digits; a viewer takes those of a film


def known(history: History) -> bool:
    """Whether frames hold species and positions of the same atoms."""
    shapes = {name: stored.shape for name, stored in variables(history).items()}
    return NUMBERS in shapes and shapes.get(POSITIONS) == (*shapes[NUMBERS], 3)


def pdb(history: History) -> str:
    """The atoms of the first frame as lines of a PDB file; "" where frames do not hold them."""
    frames = history.directory.frames
    walker = next((walker for walker in frames.walkers() if frames.count(walker)), "") if known(history) else ""
    if not walker:
        return ""
    frame, scale = frames.row(walker, 0), ANGSTROM.get(variables(history)[POSITIONS].units, 1.0)
    places = np.clip(scale * np.asarray(frame[POSITIONS], float), -WIDEST / 10, WIDEST)
    symbols = [SYMBOLS[number] if 0 < number < len(SYMBOLS) else SYMBOLS[0] for number in frame[NUMBERS].tolist()]
    line = "HETATM{:5d} {:>2}   MOL A   1    {:8.3f}{:8.3f}{:8.3f}  1.00  0.00          {:>2}\n"
    atoms = enumerate(zip(symbols, places.tolist(), strict=True), 1)
    return "".join(line.format(i % 100_000, symbol, *place, symbol) for i, (symbol, place) in atoms)


def box(frame: Mapping[str, np.ndarray], scale: float) -> dict[str, Any]:
    """The cell of a frame, (3, 3) in angstrom, of single atoms; nothing where a direction does not repeat."""
    cell = scale * np.asarray(frame.get(CELL, np.zeros((3, 3))), float)
    whole = cell.shape == (3, 3) and np.abs(np.linalg.det(cell)) > 1.0
    return {"box": cell.tolist(), "single": True} if whole else {}
