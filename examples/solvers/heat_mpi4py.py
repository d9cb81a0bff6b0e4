"""The plate of heat.f90 on ranks of mpi4py: mpiexec -n 2 python heat_mpi4py.py libsteersman.so

Rank 0 calls the client, built as a library: cc -shared -fPIC $(python -m steersman.client --sources) -o libsteersman.so
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from mpi4py import MPI

NX, NY, STEPS = 12, 16, 10
OK = 0
KINDS = {"float64": 2, "int32": 5, "int64": 6}
world = MPI.COMM_WORLD


class Array(ctypes.Structure):
    """`steersman_array` of steersman.h."""

    _fields_ = (
        ("name", ctypes.c_char * 64), ("type", ctypes.c_int), ("data", ctypes.c_void_p), ("rank", ctypes.c_int),
        ("shape", ctypes.c_int64 * 7), ("fortran", ctypes.c_int), ("size", ctypes.c_int),
    )  # fmt: skip


def of(name: str, array: np.ndarray) -> Array:
    shape = (ctypes.c_int64 * 7)(*array.shape)
    return Array(name.encode(), KINDS[array.dtype.name], array.ctypes.data, array.ndim, shape, 0, 0)


def main() -> None:
    u, spark, frames = np.zeros((NX, NY)), np.array(1.0), np.array(20, np.int32)
    seed31, dice, stopped = ctypes.c_int32(1), np.array(0), ctypes.c_int(0)
    first = world.rank == 0
    client: Any = ctypes.CDLL(sys.argv[1]) if first else None
    if first:
        client.steersman_must(client.steersman_open())
        client.steersman_must(client.steersman_parameter(of("spark", spark)))
        client.steersman_must(client.steersman_parameter(of("frames_each", frames)))
        client.steersman_must(client.steersman_seed(None, ctypes.byref(seed31)))
        client.steersman_must(client.steersman_frame(of("u", u)))
        dice[...] = seed31.value % 2147483646 + 1
        client.steersman_must(client.steersman_state_get(of("dice", dice)))
    u, spark, frames, rolled = world.bcast((u, float(spark), int(frames), int(dice)))
    rows = slice(max(1, NX * world.rank // world.size), min(NX - 1, NX * (world.rank + 1) // world.size))
    for frame in range(1, frames + 1):
        for _ in range(STEPS):
            at = []
            for points in (NX, NY):
                rolled = 16807 * rolled % 2147483647
                at.append(1 + rolled % (points - 2))
            u[tuple(at)] += spark
            ours, above, below = u[rows], u[rows.start - 1 : rows.stop - 1], u[rows.start + 1 : rows.stop + 1]
            b = ours[:, 1:-1]
            around = (above[:, 1:-1] + below[:, 1:-1]) + (ours[:, :-2] + ours[:, 2:])
            new = b + 0.125 * (around - 4 * b)
            u[1:-1, 1:-1] = np.concatenate(world.allgather(new))
        if first:
            source = np.zeros_like(u)
            code = client.steersman_ask(b"source", ctypes.byref(of("u", u)), 1, ctypes.byref(of("source", source)), 1)
            client.steersman_must(code)
            u += source if code == OK else 0.0
            hottest = np.array(np.unravel_index(u.argmax(), u.shape), np.int32) + np.int32(1)
            client.steersman_must(client.steersman_append(of("u", u)))
            client.steersman_must(client.steersman_append(of("hottest", hottest)))
            client.steersman_must(client.steersman_commit(ctypes.c_double(frame * STEPS)))
            client.steersman_must(client.steersman_stopped(ctypes.byref(stopped)))
        u, end = world.bcast((u, stopped.value))
        if end:
            break
    if first:
        dice[...] = rolled
        client.steersman_must(client.steersman_state_put(of("dice", dice)))
        client.steersman_close()


if __name__ == "__main__":
    main()
