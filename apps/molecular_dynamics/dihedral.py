"""Positions of four atoms -> the angle by which they are twisted."""

from __future__ import annotations

import numpy as np


def dihedral(positions_43: np.ndarray) -> np.ndarray:
    """Dihedral angle of four atoms, as phi and psi of a protein are.

    Args:
        positions_43: (..., 4, 3) float in any unit, e.g. `frames["positions"][:, [4, 6, 8, 14]]`; the angle is that
            about the bond of the second and third atom.
    Returns: (...) float64, radians in -pi..pi: 0 cis, pi trans, positive clockwise along the bond (IUPAC); 0 where
        three atoms in a row lie on a line, which leaves it undefined.
    Raises: ValueError: another shape.
    Source: Blondel and Karplus (1996), New formulation for derivatives of torsion angles, without their singularity.
    """
    positions_43 = np.asarray(positions_43, np.float64)
    if positions_43.shape[-2:] != (4, 3):
        raise ValueError(f"dihedral of {positions_43.shape}: give (..., 4, 3), the positions of four atoms")
    first, bond, last = np.moveaxis(np.diff(positions_43, axis=-2), -2, 0)
    before, after = np.cross(first, bond), np.cross(bond, last)
    length = np.linalg.norm(bond, axis=-1)
    return np.asarray(np.arctan2(length * np.sum(first * after, axis=-1), np.sum(before * after, axis=-1)))
