"""What a program of the tests of steersman.h imports: the client as a library, called from Python."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

KINDS = {"float32": 1, "float64": 2, "int8": 3, "int16": 4, "int32": 5, "int64": 6, "bool": 7, "uint8": 8}
OK, ALONE, NONE, REFUSED, LOST, VERSION = 0, 1, 2, -1, -2, -3


class Array(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 64), ("type", ctypes.c_int), ("data", ctypes.c_void_p), ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * 7), ("fortran", ctypes.c_int), ("size", ctypes.c_int),
    )  # fmt: skip


def of(name: str, array: np.ndarray) -> Array:
    shape = (ctypes.c_int64 * 7)(*array.shape)
    made = Array(name.encode(), KINDS[array.dtype.name], array.ctypes.data, array.ndim, shape, 0, 0)
    made.array = array  # as long as this
    return made


lib: Any = ctypes.CDLL(os.environ["STEERSMAN_LIBRARY"])
lib.steersman_said.restype = ctypes.c_char_p


def said() -> str:
    return str(lib.steersman_said().decode())


def must(code: int) -> int:
    if code < 0:
        raise SystemExit(f"{code}: {said()}")
    return code


def several(arrays: dict[str, np.ndarray]) -> tuple[Any, int]:
    return (Array * len(arrays))(*(of(name, array) for name, array in arrays.items())), len(arrays)


def ask(name: str, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> int:
    return int(lib.steersman_ask(name.encode(), *several(inputs), *several(outputs)))


def fields(call: str, name: str, values: list[np.ndarray], *limits: float) -> int:
    arrays = several({f"{i}": value for i, value in enumerate(values)})
    return int(getattr(lib, f"steersman_{call}")(name.encode(), *arrays, *map(ctypes.c_double, limits)))


def commit(time: float, **arrays: np.ndarray) -> int:
    for name, array in arrays.items():
        must(lib.steersman_append(of(name, array)))
    return int(lib.steersman_commit(ctypes.c_double(time)))


def stopped() -> bool:
    value = ctypes.c_int(0)
    lib.steersman_stopped(ctypes.byref(value))
    return bool(value.value)
