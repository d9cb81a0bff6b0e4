"""Every configuration of 32 sites: the small cell in which a transition is known exactly.

The cell holds 2 x 2 x 2 face-centred cubes. Eight of its sites are gold: 10,518,300 configurations, of which 8,043
differ by more than one of the 1,536 symmetries.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("cu24au8.npz")
CELLS, GOLD = 2, 8
AHEAD = 4096  # configurations that are looked at in one go


@dataclass(frozen=True)
class Exact:
    """What differs by more than a symmetry, n = 8,043 orbits, with the energies of `steersman run order`.

    Args:
        energy: (n,) eV of the cell, positions relaxed, of EMT.
        order: (n,) order parameter.
        size: (n,) configurations of the orbit.
    """

    energy: np.ndarray
    order: np.ndarray
    size: np.ndarray

    @classmethod
    def load(cls) -> Exact:
        """Read what `python -m lab.exact_alloy` wrote."""
        with np.load(FILE) as file:
            return cls(*(file[name] for name in ("energy", "order", "size")))


def sites(cells: int = CELLS) -> np.ndarray:
    """(4 cells^3, 3) int: sites of face-centred cubes, in halves of their edge, as ASE orders them."""
    corner = np.array([*itertools.product(range(cells), repeat=3)])
    basis = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    return np.asarray((2 * corner[:, None] + basis).reshape(-1, 3))


def symmetries(cells: int = CELLS) -> np.ndarray:
    """(48 N, N) int: where each rotation, reflection and shift of the periodic cell takes each of N sites."""
    at, edge = sites(cells), 2 * cells
    number = np.full((edge,) * 3, -1)
    number[tuple(at.T)] = np.arange(len(at))
    permutations = []
    for axes in itertools.permutations(range(3)):
        for signs in itertools.product((1, -1), repeat=3):
            turned = at[:, axes] * np.array(signs)
            permutations += [number[tuple(((turned + shift) % edge).T)] for shift in at]
    return np.array(permutations)


def orbits(gold: int = GOLD) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort all ways to put gold atoms on 32 sites by symmetry; some seconds.

    Returns: the first configuration of each of n orbits, (n, 32) bool, true where gold is; (n,) int, their sizes; and
        the orbit of every configuration, in the order of `rank`, (C(32, gold),) int.
    """
    moves, next_ = symmetries(), 0
    orbit = np.full(math.comb(moves.shape[1], gold), -1, np.int32)
    first, sizes = list[list[int]](), list[int]()
    while next_ < len(orbit):
        images = np.unique(rank(np.sort(moves[:, _set(next_, gold)], axis=1)))
        orbit[images] = len(first)
        first.append(_set(next_, gold))
        sizes.append(len(images))
        while next_ < len(orbit) and orbit[next_ : next_ + AHEAD].min() >= 0:
            next_ += AHEAD
        next_ += int(np.argmin(orbit[next_ : next_ + AHEAD])) if next_ < len(orbit) else 0
    configurations = np.zeros((len(first), moves.shape[1]), bool)
    np.put_along_axis(configurations, np.array(first), True, axis=1)
    return configurations, np.array(sizes), orbit


def rank(places: np.ndarray) -> np.ndarray:
    """(...,) int: the number of each set of sites (..., gold), ascending, among all sets (combinatorial numbers)."""
    table = np.array([[math.comb(n, k + 1) for k in range(places.shape[-1])] for n in range(64)])
    return np.asarray(sum(table[places[..., k], k] for k in range(places.shape[-1])))


def _set(number: int, gold: int) -> list[int]:
    """The set of sites of this rank, ascending."""
    places: list[int] = []
    for k in range(gold, 0, -1):
        site = k - 1
        while math.comb(site + 1, k) <= number:
            site += 1
        places.insert(0, site)
        number -= math.comb(site, k)
    return places
