"""In what units numbers are given, and where their zero lies, does not matter to a model of vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from steersman.models import CVAE, PCA, TICA, Autoencoder, Committee, DeepTICA, Outlook, SphericalUNet, Vectors
from steersman.models.networks.scale import spread
from steersman.system.errors import BadValue

UNITS = [(1e-24, 0.0), (1e-3, 1e5), (1e12, -1e14)]  # J/T; total energies in eV, of which meV matter
Results = dict[str, np.ndarray]


def slow_and_fast(n: int = 1000) -> np.ndarray:
    """(n, 4) float64: mixtures of four signals of one size, the first of which is slow."""
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(n, 4))
    for at in range(1, n):
        signals[at, 0] = 0.98 * signals[at - 1, 0] + 0.2 * signals[at, 0]
    return np.asarray(signals @ rng.normal(size=(4, 4)))


def pairs(n: int) -> np.ndarray:
    return np.stack([np.arange(n - 5), np.arange(5, n)], axis=1)


def rebuilt(kind: type[PCA | Autoencoder], **settings: Any) -> Callable[[np.ndarray, float], Results]:
    def results(x: np.ndarray, unit: float) -> Results:
        z, error = kind.fit(x, **settings).encode(x)
        of_z = unit if kind is PCA else 1.0
        return {"z": z / of_z, "error": error / unit**2}

    return results


def turned(kind: type[TICA | DeepTICA], **settings: Any) -> Callable[[np.ndarray, float], Results]:
    return lambda x, unit: {"z": kind.fit(x, pairs(len(x)), **settings).encode(x)}


def estimated(x: np.ndarray, unit: float) -> Results:
    model = Vectors.fit(x[:, :3], x[:, 3:], epochs=5)
    return {"estimates": (model.estimates(x[:, :3]) - x[:, 3:].mean()) / unit}


def foreseen(x: np.ndarray, unit: float) -> Results:
    mean, spread = Outlook.fit(x[:, :3], x[:, 3], lead=np.ones(len(x)), epochs=2).forecast(x[:, :3], 1)
    return {"mean": (mean - x[:, 3].mean()) / unit, "spread": spread / unit}


@pytest.mark.parametrize(("unit", "zero"), UNITS)
@pytest.mark.parametrize(
    "of",
    [rebuilt(PCA), rebuilt(Autoencoder, epochs=5), turned(TICA), turned(DeepTICA, epochs=5), estimated, foreseen],
    ids=["PCA", "Autoencoder", "TICA", "DeepTICA", "Vectors", "Outlook"],
)
def test_units_and_zero_do_not_matter(of: Callable[[np.ndarray, float], Results], unit: float, zero: float) -> None:
    data = slow_and_fast()
    plain, other = of(data, 1.0), of(data * unit + zero, unit)
    for name, values in plain.items():
        assert other[name] == pytest.approx(values, rel=0.02, abs=0.02 * float(np.abs(values).mean()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_number_that_never_changes_is_no_scale(dtype: type) -> None:
    """0.1 stored in single precision is another number than in double precision, and the mean of many is a third."""
    data = slow_and_fast(300)
    data[:, 2] = 0.1
    model = Vectors.fit(data[:, :3].astype(dtype), data[:, 3:], width=0, epochs=5)
    assert model.inputs_spread[2] == 1
    told = model.estimates(data[:, :3])
    data[:, 2] = np.float32(0.1)
    assert model.estimates(data[:, :3]) == pytest.approx(told, rel=1e-4, abs=1e-4)


def test_the_spread_is_that_of_numpy_but_for_the_last_digits() -> None:
    rng = np.random.default_rng(0)
    data = np.stack([rng.normal(size=300), 1e5 + 1e-3 * rng.normal(size=300), np.full(300, 0.1)], axis=1)
    data[::2, 2] = np.nextafter(0.1, 1)
    assert spread(data)[:2] == pytest.approx(data.std(0)[:2])
    assert spread(data)[2] == 0
    assert (spread(data > 0) == (data > 0).std(0)).all()
    assert spread(np.full((5, 2), -7, np.int8)).tolist() == [0, 0]


@pytest.mark.parametrize(
    "fit",
    [
        PCA.fit, Autoencoder.fit, lambda x: TICA.fit(x, pairs(20)), lambda x: DeepTICA.fit(x, pairs(20)),
        lambda x: Vectors.fit(x, x[:, :1].real), lambda x: Vectors.fit(x.real, x[:, :1]),
        lambda x: Outlook.fit(x.real, x[:, 0], lead=np.ones(20)),
        lambda x: Committee.fit(x.reshape(20, 1, 2, 2), np.zeros(20, int), classes=2),
        lambda x: SphericalUNet.fit(np.ones((2, 3, 1, 16, 32)) * x[0, 0]), lambda x: CVAE.fit(x.reshape(20, 2, 2)),
    ],
)  # fmt: skip
def test_complex_numbers_are_refused_and_lose_no_half(fit: Callable[[np.ndarray], object]) -> None:
    with pytest.raises(BadValue):
        fit(slow_and_fast(20) + 1j)
