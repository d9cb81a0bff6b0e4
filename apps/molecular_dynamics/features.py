"""Positions -> what a collective variable is made of: as numbers for a model, and as OpenMM forces for a bias.

Both are the same functions: `values` of positions, and `force(weights)` whose energy is their weighted sum.
Axes: N atoms, F features, 3 space. Units: nm, radians.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Protocol

import numpy as np
import openmm

from steersman.apps.molecular_dynamics.bonds import atoms_of, backbone, bound, rotatable, within
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

    def plumed(self, first: int = 0) -> list[str]:
        """Lines of PLUMED's input that define f0, f1, ..., or from another number on, in nm and radians; there atoms
        count from 1."""


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

    def plumed(self, first: int = 0) -> list[str]:
        """As of `Features`."""
        return [f"f{n}: DISTANCE ATOMS={_from_one(pair)}" for n, pair in enumerate(self.pairs, first)]


@dataclass(frozen=True)
class Torsions:
    """Cosine and sine of dihedral angles: of the first, of the second, ...

    Args:
        atoms: four atom indices each.
    """

    atoms: tuple[tuple[int, int, int, int], ...]

    @classmethod
    def backbone(cls, molecule: Molecule) -> Torsions:
        """phi and psi of each residue, along the chain, as far as their atoms are there; found once a process."""
        return _backbone(molecule)

    @classmethod
    def rotatable(cls, molecule: Molecule) -> Torsions:
        """One about each bond between heavy atoms that can turn, of side chains and ligands, too: in no ring, at no end
        and no peptide bond; a double bond counts, for a molecule does not know of it. Found once a process."""
        return _rotatable(molecule)

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

    def plumed(self, first: int = 0) -> list[str]:
        """As of `Features`."""
        angles = [f"a{first + 2 * n}: TORSION ATOMS={_from_one(four)}" for n, four in enumerate(self.atoms)]
        kinds = [(first + 2 * n, name) for n in range(len(self.atoms)) for name in ("cos", "sin")]
        functions = [f"CUSTOM ARG=a{n} FUNC={name}(x) PERIODIC=NO" for n, name in kinds]
        return angles + [f"f{n}: {function}" for n, function in enumerate(functions, first)]


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

    def plumed(self, first: int = 0) -> list[str]:
        """As of `Features`."""
        return [f"f{n}: TORSION ATOMS={_from_one(four)}" for n, four in enumerate(self.atoms, first)]


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

    def plumed(self, first: int = 0) -> list[str]:
        """As of `Features`."""
        named = [(atom, axis) for atom in self.atoms for axis in "xyz"]
        lines = [f"p{first}_{atom}: POSITION ATOM={atom + 1} NOPBC" for atom in self.atoms]
        parts = [f"COMBINE ARG=p{first}_{atom}.{axis} PERIODIC=NO" for atom, axis in named]
        return [*lines, *(f"f{n}: {part}" for n, part in enumerate(parts, first))]


@dataclass(frozen=True)
class Contacts:
    """Whether pairs of atoms touch: (1 - (r/at)^6) / (1 - (r/at)^12) of their distance r, 1 smoothly to 0; a half at
    `at_nm`. Of one molecule: no minimum image is taken.

    Args:
        pairs: two atom indices each.
    """

    pairs: tuple[tuple[int, int], ...]
    at_nm: float = 0.8

    @classmethod
    def of_residues(cls, molecule: Molecule, *, apart: int = NEAREST_RESIDUES, at_nm: float = 0.8) -> Contacts:
        """All pairs of C-alpha atoms at least so many residues apart."""
        return cls(Distances.of_residues(molecule, apart=apart).pairs, at_nm)

    @property
    def count(self) -> int:
        """As of `Features`."""
        return len(self.pairs)

    def values(self, positions: np.ndarray) -> np.ndarray:
        """(..., F) float64, 0 to 1."""
        return np.asarray(1 / (1 + (Distances(self.pairs).values(positions) / self.at_nm) ** 6))

    def force(self, weights: np.ndarray) -> openmm.Force:
        """As of `Features`."""
        force = openmm.CustomBondForce(f"weight/(1 + (r/{self.at_nm})^6)")
        force.addPerBondParameter("weight")
        for pair, weight in zip(self.pairs, weights, strict=True):
            force.addBond(*pair, [float(weight)])
        return force

    def plumed(self, first: int = 0) -> list[str]:
        """As of `Features`."""
        switch = f"SWITCH={{RATIONAL R_0={self.at_nm} NN=6 MM=12}}"
        numbered = enumerate(self.pairs, first)
        return [f"f{n}: COORDINATION GROUPA={i + 1} GROUPB={j + 1} {switch}" for n, (i, j) in numbered]


@dataclass(frozen=True)
class SideBySide:
    """Several kinds of features: those of the first, of the second, ...

    Args:
        parts: of features, in this order.
    """

    parts: tuple[Features, ...]

    @property
    def count(self) -> int:
        """As of `Features`."""
        return sum(part.count for part in self.parts)

    def values(self, positions: np.ndarray) -> np.ndarray:
        """(..., F) float64."""
        return np.concatenate([part.values(positions) for part in self.parts], axis=-1)

    def force(self, weights: np.ndarray) -> openmm.Force:
        """As of `Features`."""
        force = openmm.CustomCVForce(" + ".join(f"part{n}" for n in range(len(self.parts))))
        for n, (part, some) in enumerate(zip(self.parts, np.split(weights, self._ends), strict=True)):
            force.addCollectiveVariable(f"part{n}", part.force(some))
        return force

    def plumed(self, first: int = 0) -> list[str]:
        """As of `Features`."""
        begins = [first, *(first + self._ends)]
        return [line for part, begin in zip(self.parts, begins, strict=True) for line in part.plumed(begin)]

    @property
    def _ends(self) -> np.ndarray:
        return np.cumsum([part.count for part in self.parts])[:-1]


def _from_one(atoms: tuple[int, ...]) -> str:
    return ",".join(str(atom + 1) for atom in atoms)


@lru_cache(maxsize=1)
def _distances(molecule: Molecule, apart: int) -> Distances:
    atoms, joined = atoms_of(molecule), bound(molecule, heavy=True)
    chains = {atoms[alpha].residue.chain.index for alpha in molecule.alpha.tolist()}
    joined = {atom: others for atom, others in joined.items() if atoms[atom].residue.chain.index in chains}
    near = {atom: within(joined, atom, apart - 1) for atom in joined}
    return Distances(tuple(pair for pair in combinations(joined, 2) if pair[1] not in near[pair[0]]))


@lru_cache(maxsize=1)
def _backbone(molecule: Molecule) -> Torsions:
    return Torsions(tuple(backbone(molecule)))


@lru_cache(maxsize=1)
def _rotatable(molecule: Molecule) -> Torsions:
    return Torsions(tuple(rotatable(molecule)))
