"""Positions -> contact maps, in batch, and how near a contact map is to the native one.

Axes: T frames, R residues, 3 space.
"""

from __future__ import annotations

import numpy as np

from steersman.apps.periodic import nearest_image

CUTOFF_NM = 0.8  # C-alpha to C-alpha; the contact of DeepDriveMD and DeepEx
FAR = 3  # residues along the chain: contacts of nearer ones are always there


def contact_maps(
    positions_TR3: np.ndarray, cutoff_nm: float = CUTOFF_NM, box_33: np.ndarray | None = None
) -> np.ndarray:
    """Say for every frame which residues touch.

    Args:
        positions_TR3: (T, R, 3) float, nm; C-alpha positions.
        cutoff_nm: two residues touch when they are nearer than this, nm.
        box_33: (3, 3) float, nm, `Molecule.box`: chains touch whichever images of them are stored; None: no box.
    Returns: (T, R, R) bool, symmetric, true on the diagonal.
    """
    if not positions_TR3.shape[1]:
        return np.zeros((len(positions_TR3), 0, 0), bool)
    if box_33 is not None:
        apart_TRR3 = nearest_image(positions_TR3[:, :, None] - positions_TR3[:, None], box_33)
        return np.asarray((apart_TRR3**2).sum(axis=-1) < cutoff_nm**2)
    # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b is one batched product, 1.5 us per frame of 28 residues; centred, since float32
    # would lose the small distances of a molecule that has drifted far from the origin.
    centred_TR3 = positions_TR3 - positions_TR3.mean(axis=1, keepdims=True)
    gram_TRR = centred_TR3 @ centred_TR3.swapaxes(1, 2)
    square_TR = np.einsum("trr->tr", gram_TRR)
    apart_TRR = square_TR[:, :, None] + square_TR[:, None, :] - 2 * gram_TRR
    return np.asarray(apart_TRR < cutoff_nm**2)


def far_contacts(contacts_TRR: np.ndarray) -> np.ndarray:
    """The contacts that a conformation is known by: of residues at least 3 apart along the chain, each pair once.

    Args:
        contacts_TRR: (T, R, R) bool, symmetric.
    Returns: (T, (R - 3) (R - 2) / 2) bool.
    """
    return contacts_TRR[:, *np.triu_indices(contacts_TRR.shape[1], FAR)]


def native_fraction(contacts_TRR: np.ndarray, native_RR: np.ndarray, min_separation: int = FAR) -> np.ndarray:
    """Measure which share of the native contacts each frame has formed.

    Args:
        contacts_TRR: (T, R, R) bool.
        native_RR: (R, R) bool, the contact map of the native state.
        min_separation: contacts of residues nearer than this along the chain do not count: they are always there.
    Returns: (T,) float64 in 0..1, 1 when every native contact is formed; NaN when the native state has none.
    Raises: ValueError: the native state has other residues than the frames.
    Source: Best, Hummer and Eaton (2013), Native contacts determine protein folding mechanisms, with a sharp cutoff.
    """
    if contacts_TRR.shape[1:] != np.shape(native_RR):
        raise ValueError(f"maps of {contacts_TRR.shape[1:]} and a native one of {np.shape(native_RR)}: other residues")
    native_RR = np.triu(native_RR, min_separation)
    formed_T = (contacts_TRR & native_RR).sum(axis=(1, 2))
    count = native_RR.sum()
    return formed_T / count if count else np.full(len(contacts_TRR), np.nan)


def hairpin(residues: int) -> np.ndarray:
    """The contacts of a hairpin that folds in its middle: residue i lies beside residue R - 1 - i, and its neighbours.

    In chignolin and CLN025 these are the pairs 1-10, 2-9, 3-8 and 4-7 around the turn D3-G7, and those next to them:
    10 with native_fraction's minimal separation of 3.

    Returns: (R, R) bool, symmetric.
    Source: Honda et al. (2008), Crystal structure of a ten-amino acid protein (CLN025, PDB 5AWL): its strand pairing.
    """
    i = np.arange(residues)
    return np.asarray(np.abs(i[:, None] + i - (residues - 1)) <= 1)
