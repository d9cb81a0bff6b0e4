"""Molecule -> which atoms its bonds join, and about which of them it turns."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from functools import lru_cache

import openmm  # noqa: F401 (openmm.app needs it first)
from openmm import app

from steersman.apps.molecular_dynamics.molecule import Molecule

Four = tuple[int, int, int, int]


@lru_cache(maxsize=1)
def atoms_of(molecule: Molecule) -> list[app.topology.Atom]:
    return list(app.PDBFile(io.StringIO(molecule.pdb)).topology.atoms())


def bound(molecule: Molecule, *, heavy: bool = False) -> dict[int, set[int]]:
    """For each atom those that it is bound to; of heavy atoms alone if so."""
    atoms = atoms_of(molecule)
    chosen = {i for i, atom in enumerate(atoms) if not heavy or atom.element is not app.element.hydrogen}
    joined: dict[int, set[int]] = {i: set() for i in sorted(chosen)}
    for one, other in molecule.bonds.tolist():
        if {one, other} <= chosen:
            joined[one].add(other)
            joined[other].add(one)
    return joined


def within(joined: Mapping[int, set[int]], atom: int, bonds: int) -> set[int]:
    """The atoms that so many bonds or fewer lead to."""
    reached = {atom}
    for _ in range(bonds):
        reached = reached.union(*(joined[each] for each in reached))
    return reached


def peptide_bonds(molecule: Molecule) -> Iterator[Four]:
    """The four atoms of each omega angle: carbon, C, N, carbon."""
    atoms, joined = atoms_of(molecule), bound(molecule)

    def carbon(atom: int, apart: int) -> int | None:
        """The carbon bound to an atom, the C-alpha where there are two."""
        carbons = [i for i in joined[atom] if i != apart and atoms[i].element is app.element.carbon]
        return min(carbons, key=lambda i: (atoms[i].name != "CA", i), default=None)

    for one, other in molecule.bonds.tolist():
        for c, n in ((one, other), (other, one)):
            if (atoms[c].name, atoms[n].name) != ("C", "N") or atoms[c].residue is atoms[n].residue:
                continue
            before, after = carbon(c, n), carbon(n, c)
            if before is not None and after is not None:
                yield before, c, n, after


def backbone(molecule: Molecule) -> Iterator[Four]:
    """The four atoms of phi and psi of each residue, along the chain, as far as they are there."""
    atoms, joined = atoms_of(molecule), bound(molecule)

    def near(atom: int | None, name: str, *, own: bool) -> int | None:
        """The atom of this name bound to one, in the same residue or in another."""
        others = joined[atom] if atom is not None else ()
        same = atoms[atom].residue if atom is not None else None
        return next((i for i in others if atoms[i].name == name and (atoms[i].residue is same) == own), None)

    for alpha in molecule.alpha.tolist():
        n, c = near(alpha, "N", own=True), near(alpha, "C", own=True)
        before, after = near(n, "C", own=False), near(c, "N", own=False)
        if n is None or c is None:
            continue
        if before is not None:
            yield before, n, alpha, c
        if after is not None:
            yield n, alpha, c, after


def rotatable(molecule: Molecule) -> Iterator[Four]:
    """Four atoms about each bond of heavy atoms that can turn: in no ring, at no end of a chain, no peptide bond."""
    joined, stiff = bound(molecule, heavy=True), {frozenset(four[1:3]) for four in peptide_bonds(molecule)}
    for one in joined:
        for other in sorted(joined[one]):
            firsts, lasts = joined[one] - {other}, joined[other] - {one}
            turns = one < other and firsts and lasts and frozenset((one, other)) not in stiff
            if turns and not _in_ring(joined, one, other):
                yield min(firsts), one, other, min(lasts)


def _in_ring(joined: Mapping[int, set[int]], one: int, other: int) -> bool:
    """Whether atoms are joined by another way than their bond."""
    reached, edge = {one}, joined[one] - {other}
    while edge:
        reached |= edge
        edge = set().union(*(joined[each] for each in edge)) - reached
    return other in reached
