"""Contact maps and the distance from a native state, against MDAnalysis and against geometry."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steersman.apps.molecular_dynamics.contacts import contact_maps, far_contacts, hairpin, native_fraction
from steersman.apps.molecular_dynamics.dihedral import dihedral
from steersman.apps.molecular_dynamics.superposition import rmsd

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # MDAnalysis' own
    from MDAnalysis.analysis import rms
    from MDAnalysis.lib.distances import calc_dihedrals, distance_array


def walk(seed: int, frames: int = 20, residues: int = 28) -> np.ndarray:
    """Random chains, (frames, residues, 3), with the 0.38 nm between neighbouring C-alpha atoms."""
    steps = np.random.default_rng(seed).normal(size=(frames, residues, 3))
    return np.cumsum(0.38 * steps / np.linalg.norm(steps, axis=2, keepdims=True), axis=1)


def rotation(seed: int) -> np.ndarray:
    """A random proper rotation, (3, 3)."""
    turned, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    return np.asarray(turned * np.sign(np.linalg.det(turned)))


def test_contact_maps_are_those_of_mdanalysis() -> None:
    """Frame by frame the distances of the field's reference library, cut at 0.8 nm."""
    chains = walk(1)
    expected = [distance_array(chain.astype(np.float32), chain.astype(np.float32)) < 0.8 for chain in chains]
    assert np.array_equal(contact_maps(chains), expected)


@given(seed=st.integers(0, 2**32), shift_nm=st.floats(-1000, 1000))
def test_moving_and_turning_a_molecule_changes_no_contact(seed: int, shift_nm: float) -> None:
    """Contacts are internal; pairs within 1e-6 nm of the cutoff are left out, where rounding may decide."""
    chain = walk(seed, frames=1)
    apart = np.linalg.norm(chain[0][:, None] - chain[0][None], axis=-1)
    clear = np.abs(apart - 0.8) > 1e-6
    moved = contact_maps(chain @ rotation(seed) + shift_nm)[0]
    assert np.array_equal(moved[clear], contact_maps(chain)[0][clear])


def test_float32_positions_far_from_the_origin_keep_their_contacts() -> None:
    """A molecule that diffused 100 nm away: float32 still resolves 1e-5 nm, and squares must not lose it."""
    chain = walk(3)
    apart = np.linalg.norm(chain[:, :, None] - chain[:, None], axis=-1)
    clear = np.abs(apart - 0.8) > 1e-4
    assert np.array_equal(contact_maps((chain + 100).astype(np.float32))[clear], (apart < 0.8)[clear])


def test_rmsd_is_that_of_mdanalysis() -> None:
    """Best superposition, not weighted; 1e-6 nm is float64 rounding of a sum of 28 squares of nm size."""
    chains = walk(5)
    expected = [rms.rmsd(chain, chains[0], center=True, superposition=True) for chain in chains[1:]]
    assert rmsd(chains[1:], chains[0]) == pytest.approx(expected, abs=1e-6)


@given(seed=st.integers(0, 2**32))
def test_rmsd_sees_no_rigid_motion_but_a_mirror_image(seed: int) -> None:
    """A mirrored chain is another molecule; 1e-6 nm is the square root of what float64 leaves of a sum of 30."""
    chain = walk(seed, frames=1)
    assert rmsd(chain @ rotation(seed) + 3.0, chain[0])[0] == pytest.approx(0, abs=1e-6)
    assert rmsd(chain * [1, 1, -1], chain[0])[0] > 0.01


def test_far_contacts_tell_conformations_apart_by_distant_pairs_alone() -> None:
    near, far = np.eye(6, dtype=bool), np.eye(6, dtype=bool)
    near[0, 2] = near[2, 0] = True
    far[1, 4] = far[4, 1] = True
    found = far_contacts(np.stack([np.eye(6, dtype=bool), near, far]))
    assert found.shape == (3, 6)
    assert found.sum(axis=1).tolist() == [0, 0, 1]


def test_a_reference_of_another_molecule_is_refused() -> None:
    with pytest.raises(ValueError, match="other atoms"):
        rmsd(np.zeros((2, 22, 3)), np.zeros((29, 3)))
    with pytest.raises(ValueError, match="other residues"):
        native_fraction(np.zeros((2, 5, 5), bool), np.zeros((6, 6), bool))


def test_the_native_fraction_counts_each_distant_contact_once() -> None:
    """Of two native contacts beyond the neighbours, a frame with one of them is half folded."""
    native = np.eye(6, dtype=bool)
    native[[0, 5, 1, 5, 0, 1], [5, 0, 5, 1, 1, 0]] = True
    half = native.copy()
    half[[0, 5], [5, 0]] = False
    assert native_fraction(np.stack([native, half, np.eye(6, dtype=bool)]), native).tolist() == [1, 0.5, 0]
    assert np.isnan(native_fraction(native[None], np.eye(6, dtype=bool))).all()


def test_dihedrals_are_those_of_mdanalysis_and_keep_their_sign() -> None:
    """Angles differ by whole turns at most; MDAnalysis computes in single precision."""
    points = np.random.default_rng(1).normal(size=(1000, 4, 3))
    oracle = calc_dihedrals(*points.swapaxes(0, 1).astype(np.float32))
    assert np.abs(np.angle(np.exp(1j * (dihedral(points) - oracle)))).max() < 1e-3
    mirrored = dihedral(points * [1, 1, -1])
    np.testing.assert_allclose(mirrored, -dihedral(points), atol=1e-9)


def test_a_twist_is_the_angle_that_was_made_wherever_the_molecule_is() -> None:
    twist = np.linspace(-np.pi, np.pi, 101)[1:]
    points = np.zeros((100, 4, 3))
    points[:, 0, 0] = 1
    points[:, 2:, 2] = 1
    points[:, 3] += np.stack([np.cos(twist), np.sin(twist), 0 * twist], axis=-1)
    np.testing.assert_allclose(np.exp(1j * dihedral(points @ rotation(1) + 7)), np.exp(1j * twist), atol=1e-12)
    assert dihedral(points.reshape(10, 10, 4, 3)).shape == (10, 10)
    assert dihedral(np.arange(12.0).reshape(4, 3)) == 0, "on a line"
    with pytest.raises(ValueError, match="4, 3"):
        dihedral(points[:, :3])


def test_a_hairpin_of_ten_residues_has_ten_far_contacts_and_is_its_own_native_state() -> None:
    native = hairpin(10)
    assert np.triu(native, 3).sum() == 10
    assert {(0, 9), (1, 8), (2, 7), (3, 6)} <= set(zip(*np.nonzero(native), strict=True))
    assert native_fraction(native[None], native)[0] == 1.0
