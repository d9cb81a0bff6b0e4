"""Coefficients in rows: the same transforms and derivatives as of coefficients by order and degree."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steersman.apps.shallow_water.derivatives import Derivatives, RowDerivatives
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.models.sphere.packed import GridProducts, Packing

TRUNCATION, RADIUS = 21, 6.4e6


@pytest.fixture(scope="module")
def sphere() -> SphericalHarmonics:
    torch.set_num_threads(1)
    return SphericalHarmonics(TRUNCATION)


def coefficients(sphere: SphericalHarmonics, fields: int) -> torch.Tensor:
    """Random ones as far as the truncation goes."""
    values = np.random.default_rng(1).normal(size=(2, *sphere.degree.shape, fields))
    values[1, 0] = 0
    return torch.as_tensor(values[0] + 1j * values[1]) * sphere.inside


def test_rows_hold_every_coefficient(sphere: SphericalHarmonics) -> None:
    packing, spectral = Packing(sphere), coefficients(sphere, 3)
    torch.testing.assert_close(packing.spectral(packing.rows(spectral)), spectral, rtol=0, atol=0)


@pytest.mark.parametrize(("truncation", "together"), [(10, 1), (21, 1), (21, 3)])
def test_products_are_those_of_each_member_on_the_grid(truncation: int, together: int) -> None:
    """One after the other or all at once, with a factor that depends on the latitude."""
    sphere = SphericalHarmonics(truncation)
    packing, spectral = Packing(sphere), coefficients(sphere, 6)
    half = sphere.rows // 2
    factor = 1 + np.arange(half)
    grid = GridProducts(sphere, packing, fields=2, products=1, members=3, factor=factor, together=together)
    grid.rows[:] = packing.rows(spectral).view_as(grid.rows)
    found = packing.spectral(
        grid(lambda fields, products: torch.mul(fields[0], fields[1], out=products[0])).flatten(0, 1)
    )
    first, second = torch.split(sphere.synthesis(spectral), 3)
    everywhere = torch.as_tensor(np.concatenate([factor, factor[::-1]]).copy())[:, None]
    torch.testing.assert_close(found, sphere.analysis(first * second * everywhere), rtol=0, atol=1e-11)


def test_derivatives_of_rows_are_those_of_coefficients(sphere: SphericalHarmonics) -> None:
    packing, (a, b) = Packing(sphere), torch.split(coefficients(sphere, 2), 1, 2)
    rows_a, rows_b = packing.rows(a), packing.rows(b)
    known, found = Derivatives(sphere, RADIUS), RowDerivatives(sphere, packing, RADIUS)
    winds = torch.empty(2, *rows_a.shape, dtype=rows_a.dtype)
    found.wind(rows_a, rows_b, winds)
    torch.testing.assert_close(packing.spectral(winds[:, 0]), torch.cat(known.wind(a, b), 2), rtol=1e-13, atol=1e-6)
    for name in ("curl", "convergence"):
        getattr(found, name)(rows_a, rows_b, derived := torch.empty_like(rows_a))
        torch.testing.assert_close(packing.spectral(derived), getattr(known, name)(a, b), rtol=1e-13, atol=1e-18)
