"""Positions -> distance from a reference after the best superposition.

Axes: T frames, A atoms, 3 space.
"""

from __future__ import annotations

import numpy as np


def rmsd(positions_TA3: np.ndarray, reference_A3: np.ndarray) -> np.ndarray:
    """Root mean square deviation from the reference after the best rotation and translation.

    Args:
        positions_TA3: (T, A, 3) float, nm.
        reference_A3: (A, 3) float, nm, the same atoms in the same order.
    Returns: (T,) float64, nm; 0 for a frame that is the reference, moved and turned.
    Source: Kabsch (1976), A solution for the best rotation to relate two sets of vectors.
    """
    frames_TA3 = np.asarray(positions_TA3, np.float64)
    frames_TA3 = frames_TA3 - frames_TA3.mean(axis=1, keepdims=True)
    reference_A3 = np.asarray(reference_A3, np.float64)
    reference_A3 = reference_A3 - reference_A3.mean(axis=0)
    covariance_T33 = frames_TA3.swapaxes(1, 2) @ reference_A3
    singular_T3 = np.linalg.svd(covariance_T33, compute_uv=False)
    singular_T3[:, 2] *= np.sign(np.linalg.det(covariance_T33))  # a mirror image is not a rotation
    square_T = (frames_TA3**2).sum(axis=(1, 2)) + (reference_A3**2).sum() - 2 * singular_T3.sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(square_T, 0) / len(reference_A3)))
