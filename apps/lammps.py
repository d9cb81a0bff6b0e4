"""LAMMPS -> frames: a dump read while it is written, and a frame written as what LAMMPS begins from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steersman.apps.command import lines
from steersman.system.errors import EngineError

FIRST = "ITEM: TIMESTEP"
PASSED = ("ITEM: UNITS", "ITEM: TIME")  # of `dump_modify units yes time yes`, each with one line
HEADER = 9  # lines of a frame before its atoms
ATOMS = 3  # the line of the header with their number


@dataclass(frozen=True)
class DumpFrame:
    """One frame of a dump.

    Args:
        step: of the integrator.
        columns: name in the dump (xu, vx, ...) -> (atoms,) float64, in LAMMPS's units: in the order of `id`, which no
            dump keeps by itself, or in the dump's order where it has no such column.
    """

    step: int
    columns: dict[str, np.ndarray]

    def vectors(self, *names: str) -> np.ndarray:
        """(atoms, len(names)) float64."""
        return np.stack([self.columns[name] for name in names], axis=-1)


def dump(name: str) -> Callable[[Path], Iterator[DumpFrame]]:
    """A reader for `command`: the frames that are new in a text dump of the working directory; each is whole.

    The dump is of style custom, of columns of numbers, with `id` among them where the order of atoms matters.

    Raises, while it reads: EngineError: it is another kind of file, or has a column of text.
    """
    new_lines, waiting = lines(name), list[str]()

    def new(folder: Path) -> Iterator[DumpFrame]:
        waiting.extend(new_lines(folder))
        while len(waiting) > ATOMS:
            if waiting[0] in PASSED:
                del waiting[:2]
                continue
            try:
                if waiting[0] != FIRST:
                    raise ValueError(f"a frame begins with {waiting[0]!r:.60}, not {FIRST!r}")
                if len(waiting) < (end := HEADER + int(waiting[ATOMS])):
                    return
                frame, waiting[:end] = waiting[:end], []
                snapshot = _snapshot(frame)
            except ValueError as odd:
                raise EngineError(f"{name}: {odd}; it is to be a text dump of columns of numbers") from odd
            yield snapshot

    return new


def _snapshot(frame: list[str]) -> DumpFrame:
    names = frame[HEADER - 1].split()[2:]  # ITEM: ATOMS id xu ...
    rows = [line.split() for line in frame[HEADER:]]
    table = np.array(rows, dtype=np.float64) if rows else np.empty((0, len(names)))
    columns = dict(zip(names, table.T, strict=True))
    order = np.argsort(columns["id"]) if "id" in columns else slice(None)
    return DumpFrame(int(frame[1]), {name: column[order] for name, column in columns.items()})


def write_data(file: Path, position: np.ndarray, velocity: np.ndarray, box: float, mass: float = 1.0) -> None:
    """Write what `read_data` reads: atoms of one kind in a periodic cube.

    Args:
        position: (atoms, 3), in LAMMPS's units of length; may lie outside of the box.
        velocity: (atoms, 3).
        box: edge of the cube.
    """
    count = len(position)
    edges = [f"0 {box:.17g} {axis}lo {axis}hi" for axis in "xyz"]
    head = ["", f"{count} atoms", "1 atom types", *edges, "", "Masses", "", f"1 {mass:.17g}"]
    atoms = [f"{i} 1 {x:.17g} {y:.17g} {z:.17g}" for i, (x, y, z) in enumerate(position % box, 1)]
    speeds = [f"{i} {x:.17g} {y:.17g} {z:.17g}" for i, (x, y, z) in enumerate(velocity, 1)]
    file.write_text("\n".join([*head, "", "Atoms # atomic", "", *atoms, "", "Velocities", "", *speeds, ""]))
