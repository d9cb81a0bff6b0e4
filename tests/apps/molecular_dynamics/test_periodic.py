"""Chains in a periodic box: what touches, and how far a complex is from its reference, whichever images are stored."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.random import Generator

from steersman.apps.molecular_dynamics import contact_maps, native_fraction, rmsd
from steersman.apps.periodic import nearest_image

CUBE = np.diag([3.0, 3.5, 4.0])
DODECAHEDRON = 3.0 * np.array([[1, 0, 0], [0, 1, 0], [0.5, 0.5, np.sqrt(0.5)]])
BOXES = pytest.mark.parametrize("box_33", [CUBE, DODECAHEDRON])


@pytest.fixture
def rng() -> Generator:
    return np.random.default_rng(1)


def in_any_images(frames_TR3: np.ndarray, chains_R: np.ndarray, box_33: np.ndarray, rng: Generator) -> np.ndarray:
    """Move each chain of each frame by whole vectors of the box."""
    moved_TR3 = frames_TR3.copy()
    for chain in np.unique(chains_R):
        moves_T3 = rng.integers(-3, 4, (len(frames_TR3), 3)) @ box_33
        moved_TR3[:, chains_R == chain] += moves_T3[:, None]
    return moved_TR3


def turned(points_R3: np.ndarray, rng: Generator) -> np.ndarray:
    rotation_33, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return np.asarray(points_R3 @ (rotation_33 * np.sign(np.linalg.det(rotation_33))))


@BOXES
def test_the_nearest_image_is_the_nearest_of_all(box_33: np.ndarray, rng: Generator) -> None:
    """Where it is within half of the narrowest width of the box."""
    apart_N3 = rng.normal(scale=3, size=(300, 3))
    images_I3 = np.array([(i, j, k) for i in range(-6, 7) for j in range(-6, 7) for k in range(-6, 7)]) @ box_33
    least_N = np.linalg.norm(apart_N3[:, None] + images_I3, axis=2).min(axis=1)
    found_N = np.linalg.norm(nearest_image(apart_N3, box_33), axis=1)
    near_N = least_N < 0.5 * box_33.diagonal().min()
    assert near_N.sum() > 50
    assert np.allclose(found_N[near_N], least_N[near_N])


@BOXES
def test_contacts_of_chains_do_not_depend_on_their_images(box_33: np.ndarray, rng: Generator) -> None:
    chains_R = np.repeat([0, 1], 6)
    frames_TR3 = rng.normal(scale=0.4, size=(20, 12, 3))
    moved_TR3 = in_any_images(frames_TR3, chains_R, box_33, rng)
    expected_TRR = contact_maps(frames_TR3)
    found_TRR = contact_maps(moved_TR3, box_33=box_33)
    assert np.array_equal(found_TRR, expected_TRR)
    assert not np.array_equal(contact_maps(moved_TR3), expected_TRR)
    assert native_fraction(found_TRR, expected_TRR[0])[0] == 1


@BOXES
@pytest.mark.parametrize("chains", [2, 3])
def test_the_deviation_of_a_complex_does_not_depend_on_its_images(
    chains: int, box_33: np.ndarray, rng: Generator
) -> None:
    """Turned as a whole, with each chain in any image, it is still its reference; a chain that left is not."""
    chains_R = np.repeat(np.arange(chains), 5)
    reference_R3 = rng.normal(scale=0.25, size=(5 * chains, 3)) + 0.7 * chains_R[:, None] * [1, 0, 0]
    frames_TR3 = np.stack([turned(reference_R3, rng) + rng.normal(size=3) for _ in range(10)])
    moved_TR3 = in_any_images(frames_TR3, chains_R, box_33, rng)
    found_T = rmsd(moved_TR3, reference_R3, box_33=box_33, chains_A=chains_R)
    assert found_T.max() < 1e-6
    assert rmsd(moved_TR3, reference_R3).max() > 1
    moved_TR3[:, chains_R == 1] += 0.3
    assert rmsd(moved_TR3, reference_R3, box_33=box_33, chains_A=chains_R).min() > 0.05
    before = moved_TR3.copy()
    rmsd(moved_TR3, reference_R3, box_33=box_33, chains_A=chains_R)
    assert np.array_equal(moved_TR3, before)


def test_a_box_without_protein_has_no_contacts_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert contact_maps(np.zeros((4, 0, 3))).shape == (4, 0, 0)
