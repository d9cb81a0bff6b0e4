"""Sites of an alloy of two metals, and their clusters: what a surrogate sees of a configuration.

Axes: W configurations, N sites, C clusters of one kind, F kinds of clusters, M minority atoms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from steersman.system.errors import BadValue

if TYPE_CHECKING:
    from ase import Atoms

NEAR = 0.1  # A: distances that differ by less are those of one shell


class Lattice:
    """Sites that two metals share, with a fixed number of atoms of each; the cell repeats in all directions.

    A configuration is a permutation of the sites: minority atoms are on its first M sites.

    Args:
        atoms: N sites, at rest.
        metal: of the minority, "Au" say; the others are as in `atoms`.
        count: M, from 1 to N - 1.
        pairs: of so many shells of neighbours clusters of two are counted.
        triplets: clusters of three, two edges of the first shell and the third one of the first so many.
    Attributes:
        kinds: F.
    Raises: BadValue: the count, or a cell so small that an atom is its own neighbour.
    """

    def __init__(self, atoms: Atoms, metal: str, count: int, pairs: int = 4, triplets: int = 1) -> None:
        if not 1 <= count < len(atoms):
            raise BadValue("the count of minority atoms", count, f"give 1 to {len(atoms) - 1}")
        self._atoms, self.metal, self.count = atoms, metal, count
        self.kinds = pairs + triplets
        self._tables = {"cpu": _tables(atoms, pairs, triplets)}

    def __len__(self) -> int:
        return len(self._atoms)

    def random(self, number: int, seed: int) -> Tensor:
        """(number, N) int64: configurations, each as likely as any other."""
        rng = np.random.default_rng(seed)
        return torch.from_numpy(rng.permuted(np.tile(np.arange(len(self)), (number, 1)), axis=1))

    def swapped(self, configurations: Tensor, generator: torch.Generator) -> Tensor:
        """(W, N): a minority atom and another one have changed places."""
        draw = torch.rand((2, len(configurations), 1), generator=generator, device=configurations.device)
        one = (draw[0] * self.count).long()
        other = self.count + (draw[1] * (len(self) - self.count)).long().clamp_(max=len(self) - self.count - 1)
        at = torch.cat([one, other], 1)
        return configurations.scatter(1, at, configurations.gather(1, at.flip(1)))

    def minority(self, configurations: Tensor) -> Tensor:
        """(W, N) bool: where minority atoms are."""
        where = torch.zeros(configurations.shape, dtype=torch.bool, device=configurations.device)
        return where.scatter_(1, configurations[:, : self.count], True)

    def correlations(self, configurations: Tensor) -> Tensor:
        """(W, F) float32: of each kind of cluster the mean product of its sites, 1 for minority atoms, else -1."""
        spins = self.minority(configurations).float().mul_(2).sub_(1)
        pairs, ends, triplets = self._tables_on(configurations.device)
        one, other = (spins @ ends).chunk(2, 1)
        sums = torch.cat([spins @ pairs, (one * other) @ triplets], 1)
        return (sums.view(len(spins), self.kinds, -1) * spins[:, None]).sum(2)

    def order(self, configurations: Tensor) -> np.ndarray:
        """(W,) float64: of minority atoms, how rarely they are first neighbours: 0 as by chance, 1 never.

        Source: Cowley (1950), An approximate theory of order in alloys, Phys. Rev. 77, 669: his parameter of the first
        shell, over its value where no two of these atoms touch.
        """
        share, n = self.count / len(self), len(self)
        same = 1 - (1 - self.correlations(configurations)[:, 0].numpy(force=True).astype(float)) / (4 * share)
        return np.asarray(1 - same * (n - 1) / max(self.count - 1, 1))

    def atoms(self, configuration: np.ndarray) -> Atoms:
        """The atoms of one configuration, (N,) int, at rest."""
        atoms = self._atoms.copy()
        atoms.symbols[configuration[: self.count]] = self.metal
        return atoms

    def _tables_on(self, device: torch.device) -> tuple[Tensor, ...]:
        if str(device) not in self._tables:
            self._tables[str(device)] = tuple(table.to(device) for table in self._tables["cpu"])
        return self._tables[str(device)]


def _tables(atoms: Atoms, pairs: int, triplets: int) -> tuple[Tensor, ...]:
    """What sums over neighbours, (N, pairs * N); what gives both ends of E edges, (N, 2 E); what sums over the third
    sites of triangles, (E, triplets * N).

    Raises: BadValue: the cell is too small for so many shells.
    """
    from ase.neighborlist import neighbor_list

    n, most = len(atoms), max(pairs, triplets)
    width = float(atoms.cell.cellpar()[:3].min())
    i, j, d, away = neighbor_list("ijdD", atoms, width)  # of all images: a far shell may have none of the nearest
    distances = np.sort(d)
    shells = distances[np.append(True, np.diff(distances) > NEAR)[: len(distances)]][:most]
    i, j, d, away = (each[d < shells[-1] + NEAR] for each in (i, j, d, away))
    if len(shells) < most or (i == j).any():
        raise BadValue("the cell's edge", width, f"give a longer one, for {most} shells")
    shell = np.abs(d[:, None] - shells).argmin(1)
    two = np.zeros((most, n, n), np.float32)
    np.add.at(two, (shell, i, j), 1.0)
    first = np.flatnonzero(shell == 0)
    edges, of_edge = np.unique(np.sort(np.stack([i, j], 1)[first], 1), axis=0, return_inverse=True)
    three = np.zeros((triplets, len(edges), n), np.float32)
    for edge, number in zip(first, of_edge, strict=True):
        onward = first[i[first] == j[edge]]
        length = np.linalg.norm(away[edge] + away[onward], axis=1)
        for kind in range(triplets):
            np.add.at(three[kind, number], j[onward[np.abs(length - shells[kind]) < NEAR]], 1.0)
    two, three = (table / table.sum((1, 2), keepdims=True) for table in (two[:pairs], three))
    ends = np.eye(n, dtype=np.float32)[:, edges.T.ravel()]
    tables = (_side_by_side(two), ends, _side_by_side(three))
    return tuple(torch.from_numpy(np.ascontiguousarray(table)) for table in tables)


def _side_by_side(tables: np.ndarray) -> np.ndarray:
    """(F, n, N) -> (n, F * N)."""
    return tables.transpose(1, 0, 2).reshape(tables.shape[1], -1)
