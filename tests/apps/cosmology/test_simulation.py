"""Laws of a universe: linear theory where fluctuations are small, matter that is kept, no preferred place."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from steersman.apps.cosmology import SCALE_FACTORS, VOXEL_MPC_H, Universe, density, evolved, linear
from steersman.apps.cosmology.simulation import linear_power
from steersman.system.errors import BadValue

MESH = 32


@pytest.fixture(scope="module")
def first() -> np.ndarray:
    return linear(Universe(), seed=1, mesh=MESH)


@pytest.fixture(scope="module")
def made() -> np.ndarray:
    return density(Universe(), seed=1, mesh=MESH)


def wavenumbers(mesh: int = MESH) -> np.ndarray:
    """Of each mode of rfftn, h/Mpc."""
    along = 2 * np.pi * np.fft.fftfreq(mesh, VOXEL_MPC_H)
    half = 2 * np.pi * np.fft.rfftfreq(mesh, VOXEL_MPC_H)
    return np.asarray(np.sqrt(sum(np.meshgrid(along**2, along**2, half**2, indexing="ij"))))


def growth(omega_m: float, a: float) -> float:
    """Heath (1977): exact for matter and a cosmological constant, up to a factor."""

    def rate(a: float) -> float:
        return float(np.sqrt(omega_m / a**3 + 1 - omega_m))

    return rate(a) * float(quad(lambda x: (x * rate(x)) ** -3, 0, a)[0])


@pytest.mark.slow
def test_sigma_8_is_the_spread_of_the_linear_spectrum_in_spheres_of_8_mpc() -> None:
    k = np.geomspace(1e-4, 10, 4096)
    x = 8 * k
    sphere = 3 * (np.sin(x) - x * np.cos(x)) / x**3
    for universe in (Universe(), Universe(0.4, 0.6, 1.2)):
        variance = np.trapezoid(linear_power(universe, k) * sphere**2 * k**3 / (2 * np.pi**2), np.log(k))
        assert np.sqrt(variance) == pytest.approx(universe.sigma_8, rel=2e-3)


@pytest.mark.slow
def test_first_fluctuations_have_the_linear_spectrum() -> None:
    """Power of n modes scatters by sqrt(1/n) of itself; three times that is allowed in each of five bands."""
    power = np.mean([np.abs(np.fft.rfftn(linear(Universe(), seed, MESH))) ** 2 for seed in range(4)], axis=0)
    power *= VOXEL_MPC_H**3 / MESH**3
    k = wavenumbers()
    expected = linear_power(Universe(), np.maximum(k, 1e-3).ravel()).reshape(k.shape)
    once = np.zeros(k.shape, bool)
    once[:, :, 1:-1] = True  # of these modes each is there once, of the others the conjugates, too
    for low, high in zip(edges := np.geomspace(0.05, 0.75, 6), edges[1:], strict=False):
        band = (k >= low) & (k < high) & once
        assert (power / expected)[band].mean() == pytest.approx(1, abs=3 / np.sqrt(4 * band.sum()))


@pytest.mark.slow
def test_small_fluctuations_grow_as_linear_theory_says() -> None:
    """Long waves of a faint universe, compared with themselves, so that chance does not matter.

    Within 3 %: forces on a mesh are a little weak, and the steps are few. What painting smooths is put back.
    """
    faint = Universe(sigma_8=0.1)
    begun = linear(faint, seed=1, mesh=MESH)
    long = (wavenumbers() < 0.15) & (wavenumbers() > 0)
    before = np.fft.rfftn(begun)[long]
    along, half = np.sinc(np.fft.fftfreq(MESH)) ** 2, np.sinc(np.fft.rfftfreq(MESH)) ** 2
    painting = (along[:, None, None] * along[:, None] * half)[long]
    for a, now in zip(SCALE_FACTORS, evolved(faint, begun), strict=True):
        grown = (np.fft.rfftn(now)[long] / painting * before.conj()).real.sum() / (np.abs(before) ** 2).sum()
        assert grown == pytest.approx(growth(faint.omega_m, a) / growth(faint.omega_m, 1), rel=0.03)


@pytest.mark.slow
def test_matter_is_kept_and_clumps(made: np.ndarray) -> None:
    assert made.shape == (len(SCALE_FACTORS), MESH, MESH, MESH)
    assert made.dtype == np.float32
    assert made.min() >= 0
    assert (made - 1).mean((1, 2, 3)) == pytest.approx(0, abs=1e-5)
    assert (np.diff(made.std((1, 2, 3))) > 0).all()


@pytest.mark.slow
def test_no_place_is_preferred(first: np.ndarray, made: np.ndarray) -> None:
    """The cube is periodic: what begins elsewhere ends elsewhere, and is the same."""
    shift = (3, 0, -5)
    moved = evolved(Universe(), np.roll(first, shift, (0, 1, 2)))
    assert np.abs(moved - np.roll(made, shift, (1, 2, 3))).max() < 1e-3 * made.max()


@pytest.mark.slow
def test_finer_steps_change_little(first: np.ndarray, made: np.ndarray) -> None:
    finer = evolved(Universe(), first, steps=8)
    assert made.std((1, 2, 3)) == pytest.approx(finer.std((1, 2, 3)), rel=0.01)


@pytest.mark.slow
def test_the_same_seed_makes_the_same_universe(made: np.ndarray) -> None:
    assert np.array_equal(density(Universe(), seed=1, mesh=MESH), made)
    assert not np.array_equal(density(Universe(), seed=2**62 + 1, mesh=MESH), made)


@pytest.mark.slow
def test_each_parameter_changes_the_same_fluctuations(made: np.ndarray) -> None:
    other = density(Universe(sigma_8=0.9 * Universe().sigma_8), seed=1, mesh=MESH)
    assert (other.std((1, 2, 3)) < made.std((1, 2, 3))).all()
    for universe in (Universe(omega_m=0.4), Universe(n_s=1.2)):
        assert np.abs(density(universe, seed=1, mesh=MESH) - made).max() > 0.1


@pytest.mark.parametrize(("universe", "mesh"), [(Universe(), 7), (Universe(), 6), (Universe(omega_m=0.04), 32)])
def test_a_universe_that_cannot_be_simulated_is_refused(universe: Universe, mesh: int) -> None:
    with pytest.raises(BadValue):
        density(universe, seed=0, mesh=mesh)
