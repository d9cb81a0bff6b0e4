"""Heat on a ring, whole or cut into two domains that exchange their halos; run as a program, one rank of an MPI job."""

from __future__ import annotations

import contextlib
import sys

import numpy as np
import numpy.typing as npt

from lab.bus_ranks import MpiRanks, Ranks
from steersman.bus import BusTimeout

CELLS, STEPS = 64, 50
Cells = npt.NDArray[np.float64]
NAMES = ["west", "east"]


def start() -> Cells:
    return np.random.default_rng(1).random(CELLS)


def step(padded: Cells) -> Cells:
    """One explicit step of the heat equation; the first and last cell are halo."""
    inner: Cells = padded[1:-1] + 0.2 * (padded[2:] - 2 * padded[1:-1] + padded[:-2])
    return inner


def whole() -> Cells:
    """The ring as one domain."""
    cells = start()
    for _ in range(STEPS):
        cells = step(np.concatenate([cells[-1:], cells, cells[:1]]))
    return cells


def half(ranks: Ranks, me: str) -> Cells:
    """This rank's half of the ring. Its only neighbour, on both sides, is the other rank."""
    other = NAMES[1 - NAMES.index(me)]
    cells = np.split(start(), 2)[NAMES.index(me)]
    for _ in range(STEPS):
        edge = ranks.exchange({other: np.array([cells[0], cells[-1]])}, timeout_s=20)[other]
        cells = step(np.concatenate([edge[1:], cells, edge[:1]]))
    return cells


def main() -> None:
    """Under mpiexec -n 2: the first rank says whether both halves together are the whole."""
    from mpi4py import MPI

    ranks = MpiRanks(MPI.COMM_WORLD, NAMES)
    mine = half(ranks, ranks.me)
    if ranks.me == "east":
        ranks.send("west", mine)
        return
    both = np.concatenate([mine, ranks.recv("east")])
    with contextlib.suppress(BusTimeout):
        ranks.recv("east", timeout_s=0.01)
        sys.stdout.write("more than there is\n")
    sys.stdout.write("equal\n" if np.array_equal(both, whole()) else "different\n")


if __name__ == "__main__":
    main()
