"""Batches of fields on the sphere <-> coefficients, for networks: in float32 whatever the precision around it.

Axes: B batch, C channels, H latitudes from the north, W longitudes; M order, N degree - order of a coefficient.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from steersman.models.sphere.harmonics import SphericalHarmonics


@functools.lru_cache(maxsize=16)
def sphere_of(truncation: int, rows: int | None, device: torch.device) -> SphericalHarmonics:
    """The transform of a truncation on a grid, made once. Raises: BadValue."""
    return SphericalHarmonics(truncation, rows=rows, dtype=torch.float32, device=str(device))


def analysed(fields: Tensor, sphere: SphericalHarmonics) -> Tensor:
    """(B, C, H, W) -> complex (M x N, B, C)."""
    with torch.autocast(fields.device.type, enabled=False):
        columns = sphere.analysis(fields.float().flatten(0, 1))
    return columns.reshape(-1, *fields.shape[:2])


def synthesized(spectral: Tensor, sphere: SphericalHarmonics) -> Tensor:
    """Complex (M x N, B, C) -> (B, C, H, W)."""
    with torch.autocast(spectral.device.type, enabled=False):
        grid = sphere.synthesis(spectral.reshape(sphere.orders, sphere.degrees, -1))
    return grid.reshape(*spectral.shape[1:], sphere.rows, sphere.columns)
