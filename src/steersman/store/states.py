"""What continues a segment exactly, its restart state <-> rows of bytes, each state a NumPy .npz file of its own.

So a state may have other variables, shapes and dtypes than the one before, and a checkpoint file any length.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

import numpy as np

from steersman.store.errors import MASKED, BadVariable
from steersman.store.variables import Variable

ROW_BYTES = 256  # a shard of so long rows is 8 MiB
RESTART, RESTART_STATES = "restart_row", "restart_states"  # the dimension of these rows, and the variable
MEANING = Variable(("byte",), "1", "restart states, .npz files; where each lies is in the table segments")

State = Mapping[str, np.ndarray | bytes]


def copied(name: str, value: object) -> np.ndarray | bytes:
    """A value of a state that nobody else changes. Raises: BadVariable: it cannot be stored."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if np.ma.is_masked(value):
        raise BadVariable(name, MASKED)
    try:
        array = np.array(value)
    except ValueError:  # lists of unequal lengths
        array = np.array(None)
    if array.dtype.kind not in "biufcmM":
        problem = f"{value!r:.60} is no number, boolean, array of them or bytes"
        raise BadVariable(name, f"{problem}; of other objects give bytes, e.g. json.dumps(...).encode()")
    return array


def packed(state: State) -> bytes:
    """The bytes of a state: equal ones of equal states, and none of a state without variables."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, value in state.items():
            plain = np.frombuffer(value, "V1") if isinstance(value, bytes) else value  # V1: what is read as bytes again
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, plain, allow_pickle=False)
    return file.getvalue() if state else b""


def unpacked(data: bytes) -> dict[str, np.ndarray | bytes]:
    """A state from its bytes."""
    if not data:
        return {}
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: array.tobytes() if array.dtype == "V1" else array for name, array in arrays.items()}


def as_rows(data: bytes) -> np.ndarray:
    """(n, ROW_BYTES) uint8: the bytes of a state, the last row filled up with zeros."""
    rows = np.zeros((rows_of(len(data)), ROW_BYTES), np.uint8)
    rows.reshape(-1)[: len(data)] = np.frombuffer(data, np.uint8)
    return rows


def rows_of(size: int) -> int:
    return -(-size // ROW_BYTES)
