"""GROMACS's .trr <-> frames: read while it is written, each frame when it is whole; and one frame written.

A .trr is XDR: big-endian, a header with the sizes of what follows. It keeps what GROMACS computes with, bit for bit.
Axes: A atoms, 3 space. Units: nm, ps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from steersman.apps.command import Growing
from steersman.system.errors import EngineError

MAGIC, VERSION = 1993, b"GMX_trn_file"
HEADER = np.dtype(
    [
        ("magic", ">i4"),
        ("lengths", ">i4", 2),  # of the version's text, with and without its last zero
        ("version", "S12"),
        ("before", ">i4", 2),  # bytes of parts that nobody writes any more
        ("box", ">i4"),  # bytes of each part, 0: it is left out
        ("tensors", ">i4", 2),
        ("after", ">i4", 2),
        ("positions", ">i4"),
        ("velocities", ">i4"),
        ("forces", ">i4"),
        ("atoms", ">i4"),
        ("step", ">i4"),
        ("energies", ">i4"),
    ]
)
PARTS = ("before", "box", "tensors", "after", "positions", "velocities", "forces")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One frame of a .trr.

    Args:
        step: of the integrator, of its lowest 32 bits.
        box: (3, 3), nm; its vectors.
        positions: (A, 3), nm, as mdrun writes them: atoms are wrapped into the box one by one.
        velocities: (A, 3), nm/ps; None where they are not written.
        data: the frame's bytes.
    """

    step: int
    box: np.ndarray
    positions: np.ndarray
    velocities: np.ndarray | None
    data: bytes = field(repr=False)


def trajectory(pattern: str) -> Callable[[Path], Iterator[Snapshot]]:
    """A reader for `command`: the frames that are new in a .trr of the working directory; each is whole.

    Args:
        pattern: its name; `*` stands for the number of the part that `mdrun -noappend` adds.
    Raises, while it reads: EngineError: the file is no .trr, or it is written anew.
    """
    growing = Growing()

    def new(folder: Path) -> Iterator[Snapshot]:
        for file in sorted(folder.glob(pattern))[:1]:
            data, at = growing.unread(file), 0
            while frame := _frame(data, at, file):
                at += len(frame.data)
                growing.take(frame.data)
                if len(frame.positions):  # else it is one of velocities or forces alone
                    yield frame

    return new


def frame_bytes(box: np.ndarray, positions: np.ndarray, velocities: np.ndarray | None = None) -> bytes:
    """A .trr of one frame, in single precision, as `gmx grompp -t` reads it; shapes and units of `Snapshot`."""
    parts = {"box": box, "positions": positions, "velocities": velocities}
    plain = {name: np.asarray(part, ">f4").tobytes() for name, part in parts.items() if part is not None}
    head = np.zeros((), HEADER)
    head["magic"], head["lengths"], head["version"] = MAGIC, (len(VERSION) + 1, len(VERSION)), VERSION
    head["atoms"] = len(positions)
    for name, part in plain.items():
        head[name] = len(part)
    return head.tobytes() + np.zeros(2, ">f4").tobytes() + b"".join(plain.values())  # time and lambda are 0


def _frame(data: bytes, at: int, file: Path) -> Snapshot | None:
    """The frame that begins there; None: not all of it is there yet. Raises: EngineError."""
    if len(data) < (end := at + HEADER.itemsize):
        return None
    head = np.frombuffer(data, HEADER, 1, at)[0]
    sizes = {name: int(head[name].sum()) for name in PARTS}
    width = sizes["box"] // 9
    if (head["magic"], head["version"]) != (MAGIC, VERSION) or width not in (4, 8):
        raise EngineError(f"{file}: it is no .trr of GROMACS with a box in each frame")
    end += 2 * width  # time and lambda
    if len(data) < end + sum(sizes.values()):
        return None
    arrays = {}
    for name in PARTS:
        arrays[name] = np.frombuffer(data, f">f{width}", sizes[name] // width, end).astype(f"f{width}")
        end += sizes[name]
    velocities = arrays["velocities"].reshape(-1, 3) if sizes["velocities"] else None
    box, positions = arrays["box"].reshape(3, 3), arrays["positions"].reshape(-1, 3)
    return Snapshot(int(head["step"]), box, positions, velocities, data[at:end])
