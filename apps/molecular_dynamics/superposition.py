"""Positions -> distance from a reference after the best superposition.

Axes: T frames, A atoms, 3 space.
"""

from __future__ import annotations

import itertools

import numpy as np

from steersman.apps.periodic import nearest_image


def rmsd(
    positions_TA3: np.ndarray,
    reference_A3: np.ndarray,
    *,
    box_33: np.ndarray | None = None,
    chains_A: np.ndarray | None = None,
) -> np.ndarray:
    """Root mean square deviation from the reference after the best rotation and translation.

    In a periodic box with several chains it is that of the images of them which are the nearest to the reference: one
    chain after another takes its best image beside those before it.

    Args:
        positions_TA3: (T, A, 3) float, nm.
        reference_A3: (A, 3) float, nm, the same atoms in the same order; chains that touch lie side by side.
        box_33: (3, 3) float, nm, `Molecule.box`; None: there is no box.
        chains_A: (A,) int, the chain of each atom, `Molecule.chains` for C-alphas; None: there is one.
    Returns: (T,) float64, nm; 0 for a frame that is the reference, moved and turned.
    Raises: ValueError: the reference has other atoms than the frames.
    Source: Kabsch (1976), A solution for the best rotation to relate two sets of vectors.
    """
    frames_TA3, reference_A3 = np.array(positions_TA3, np.float64), np.asarray(reference_A3, np.float64)
    if frames_TA3.shape[1:] != reference_A3.shape:
        raise ValueError(f"frames of shape {frames_TA3.shape[1:]} and a reference of {reference_A3.shape}: other atoms")
    if box_33 is not None and chains_A is not None:
        _take_best_images(frames_TA3, reference_A3, np.asarray(box_33), np.asarray(chains_A))
    return _deviation(frames_TA3, reference_A3)


def _take_best_images(
    frames_TA3: np.ndarray, reference_A3: np.ndarray, box_33: np.ndarray, chains_A: np.ndarray
) -> None:
    names = list(dict.fromkeys(chains_A.tolist()))
    placed_A = chains_A == names[0]
    for name in names[1:]:
        chain_A = chains_A == name
        apart_T3 = (frames_TA3[:, chain_A] - frames_TA3[:, placed_A].mean(axis=1, keepdims=True)).mean(axis=1)
        frames_TA3[:, chain_A] += (nearest_image(apart_T3, box_33) - apart_T3)[:, None]
        both_A = placed_A | chain_A
        least_T, best_T = np.full(len(frames_TA3), np.inf), np.zeros(len(frames_TA3), int)
        for image, move_3 in enumerate(_NEIGHBOURS @ box_33):
            moved_TA3 = frames_TA3[:, both_A] + chain_A[both_A, None] * move_3
            found_T = _deviation(moved_TA3, reference_A3[both_A])
            best_T = np.where(found_T < least_T, image, best_T)
            least_T = np.minimum(least_T, found_T)
        frames_TA3[:, chain_A] += (_NEIGHBOURS[best_T] @ box_33)[:, None]
        placed_A = both_A


_NEIGHBOURS = np.array(list(itertools.product((0, 1, -1), repeat=3)), float)  # (27, 3) images around one, itself first


def _deviation(frames_TA3: np.ndarray, reference_A3: np.ndarray) -> np.ndarray:
    frames_TA3 = frames_TA3 - frames_TA3.mean(axis=1, keepdims=True)
    reference_A3 = reference_A3 - reference_A3.mean(axis=0)
    covariance_T33 = frames_TA3.swapaxes(1, 2) @ reference_A3
    singular_T3 = np.linalg.svd(covariance_T33, compute_uv=False)
    singular_T3[:, 2] *= np.sign(np.linalg.det(covariance_T33))  # a mirror image is not a rotation
    square_T = (frames_TA3**2).sum(axis=(1, 2)) + (reference_A3**2).sum() - 2 * singular_T3.sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(square_T, 0) / len(reference_A3)))
