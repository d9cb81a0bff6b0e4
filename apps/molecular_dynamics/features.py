"""Positions -> what a collective variable is made of: as numbers for a model, and as OpenMM forces for a bias.

Both are the same functions: `values` of positions, and `force(weights)` whose energy is their weighted sum.
Axes: N atoms, F features, 3 space. Units: nm, radians.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Protocol

import numpy as np
import openmm
from openmm import app

from steersman.apps.molecular_dynamics.dihedral import dihedral
from steersman.apps.molecular_dynamics.molecule import Molecule

NEAREST_BONDS, NEAREST_RESIDUES = 3, 2  # atoms that are fewer bonds or residues apart keep their distance


class Features(Protocol):
    """What `md.run` and a model agree on. It can be pickled; equal ones are equal, and have the same hash."""

    def __hash__(self) -> int: ...

    @property
    def count(self) -> int:
        """F."""

    def values(self, positions: np.ndarray) -> np.ndarray:
        """(..., F) float64 of positions (..., N, 3), nm."""

    def force(self, weights: np.ndarray) -> openmm.Force:
        """A force whose energy, in kJ/mol, is the sum of weights (F,) times values."""

    def plumed(self) -> list[str]:
        """Lines of PLUMED's input that define f0, f1, ..., in nm and radians; there atoms count from 1."""


@dataclass(frozen=True)
class Distances:
    """Distances between pairs of atoms, nm; of one molecule: no minimum image is taken.

    Args:
        pairs: two atom indices each.
    """

    pairs: tuple[tuple[int, int], ...]

    @classmethod
    def between(cls, molecule: Molecule, *, apart: int = NEAREST_BONDS) -> Distances:
        """All pairs of the protein's heavy atoms that are at least so many bonds apart; found once a process."""
        return _distances(molecule, apart)

    @classmethod
    def of_residues(cls, molecule: Molecule, *, apart: int = NEAREST_RESIDUES) -> Distances:
        """All pairs of C-alpha atoms at least so many residues apart: few enough for a protein."""
        alpha = molecule.alpha.tolist()
        return cls(tuple((i, j) for n, i in enumerate(alpha) for j in alpha[n + apart :]))

    @property
    def count(self) -> int:
        """As of `Features`."""
        return len(self.pairs)

    def values(self, positions: np.ndarray) -> np.ndarray:
        """(..., F) float64, nm."""
        first, second = np.array(self.pairs).T
        positions = np.asarray(positions, np.float64)
        return np.asarray(np.linalg.norm(positions[..., first, :] - positions[..., second, :], axis=-1))

    def force(self, weights: np.ndarray) -> openmm.Force:
        """As of `Features`."""
        force = openmm.CustomBondForce("weight*r")
        force.addPerBondParameter("weight")
        for (first, second), weight in zip(self.pairs, weights, strict=True):
            force.addBond(first, second, [float(weight)])
        return force

    def plumed(self) -> list[str]:
        """As of `Features`."""
        return [f"f{n}: DISTANCE ATOMS={i + 1},{j + 1}" for n, (i, j) in enumerate(self.pairs)]


@dataclass(frozen=True)
class Torsions:
    """Cosine and sine of dihedral angles: of the first, of the second, ...

    Args:
        atoms: four atom indices each.
    """

    atoms: tuple[tuple[int, int, int, int], ...]

    @property
    def count(self) -> int:
        """As of `Features`."""
        return 2 * len(self.atoms)

    def values(self, positions: np.ndarray) -> np.ndarray:
        """(..., 2 angles) float64."""
        angle = dihedral(np.asarray(positions, np.float64)[..., np.array(self.atoms), :])
        return np.stack([np.cos(angle), np.sin(angle)], axis=-1).reshape(*angle.shape[:-1], -1)

    def force(self, weights: np.ndarray) -> openmm.Force:
        """As of `Features`."""
        force = openmm.CustomTorsionForce("along*cos(theta) + across*sin(theta)")
        force.addPerTorsionParameter("along")
        force.addPerTorsionParameter("across")
        for four, pair in zip(self.atoms, np.reshape(weights, (-1, 2)), strict=True):
            force.addTorsion(*four, pair.tolist())
        return force

    def plumed(self) -> list[str]:
        """As of `Features`."""
        angles = [f"a{n}: TORSION ATOMS={_from_one(four)}" for n, four in enumerate(self.atoms)]
        kinds = [(n, name) for n in range(len(self.atoms)) for name in ("cos", "sin")]
        return angles + [f"f{i}: CUSTOM ARG=a{n} FUNC={name}(x) PERIODIC=NO" for i, (n, name) in enumerate(kinds)]


@dataclass(frozen=True)
class Angles:
    """Dihedral angles themselves, radians in -pi..pi; for a bias along them, whose periods are 2 pi.

    Args:
        atoms: four atom indices each.
    """

    atoms: tuple[tuple[int, int, int, int], ...]

    @property
    def count(self) -> int:
        """As of `Features`."""
        return len(self.atoms)

    def values(self, positions: np.ndarray) -> np.ndarray:
        """(..., angles) float64."""
        return dihedral(np.asarray(positions, np.float64)[..., np.array(self.atoms), :])

    def force(self, weights: np.ndarray) -> openmm.Force:
        """As of `Features`."""
        force = openmm.CustomTorsionForce("weight*theta")
        force.addPerTorsionParameter("weight")
        for four, weight in zip(self.atoms, weights, strict=True):
            force.addTorsion(*four, [float(weight)])
        return force

    def plumed(self) -> list[str]:
        """As of `Features`."""
        return [f"f{n}: TORSION ATOMS={_from_one(four)}" for n, four in enumerate(self.atoms)]


@dataclass(frozen=True)
class Coordinates:
    """x, y and z of atoms, nm: of what is held by an outer field; a free molecule turns and drifts.

    Args:
        atoms: atom indices.
    """

    atoms: tuple[int, ...]

    @property
    def count(self) -> int:
        """As of `Features`."""
        return 3 * len(self.atoms)

    def values(self, positions: np.ndarray) -> np.ndarray:
        """(..., 3 atoms) float64."""
        chosen = np.asarray(positions, np.float64)[..., np.array(self.atoms), :]
        return chosen.reshape(*chosen.shape[:-2], -1)

    def force(self, weights: np.ndarray) -> openmm.Force:
        """As of `Features`."""
        force = openmm.CustomExternalForce("a*x + b*y + c*z")
        for name in "abc":
            force.addPerParticleParameter(name)
        for atom, three in zip(self.atoms, np.reshape(weights, (-1, 3)), strict=True):
            force.addParticle(atom, three.tolist())
        return force

    def plumed(self) -> list[str]:
        """As of `Features`."""
        named = [(atom, axis) for atom in self.atoms for axis in "xyz"]
        lines = [f"p{atom}: POSITION ATOM={atom + 1} NOPBC" for atom in self.atoms]
        return [*lines, *(f"f{n}: COMBINE ARG=p{atom}.{axis} PERIODIC=NO" for n, (atom, axis) in enumerate(named))]


def _from_one(atoms: tuple[int, ...]) -> str:
    return ",".join(str(atom + 1) for atom in atoms)


@lru_cache(maxsize=1)
def _distances(molecule: Molecule, apart: int) -> Distances:
    bound = _heavy_bonds(molecule)
    near = {atom: _within(bound, atom, apart - 1) for atom in bound}
    return Distances(tuple(pair for pair in combinations(bound, 2) if pair[1] not in near[pair[0]]))


def _heavy_bonds(molecule: Molecule) -> dict[int, set[int]]:
    """For each heavy atom of the chains with C-alpha atoms, the heavy atoms that it is bound to."""
    topology = app.PDBFile(io.StringIO(molecule.pdb)).topology
    chains = {atom.residue.chain.index for atom in topology.atoms() if atom.index in set(molecule.alpha.tolist())}
    bound: dict[int, set[int]] = {
        atom.index: set()
        for atom in topology.atoms()
        if atom.residue.chain.index in chains and atom.element is not app.element.hydrogen
    }
    for one, other in molecule.bonds.tolist():
        if one in bound and other in bound:
            bound[one].add(other)
            bound[other].add(one)
    return bound


def _within(bound: Mapping[int, set[int]], atom: int, bonds: int) -> set[int]:
    """The atoms that so many bonds or fewer lead to."""
    reached = {atom}
    for _ in range(bonds):
        reached = reached.union(*(bound[each] for each in reached))
    return reached
