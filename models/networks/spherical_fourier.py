"""Fields on the sphere -> the same fields some hours later: a Fourier neural operator in spherical harmonics.

Axes: B batch, C channels, H latitudes from the north, W longitudes; M order, N degree - order of a coefficient.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from steersman.models.errors import at_least
from steersman.models.networks.forecaster import Forecaster
from steersman.models.networks.spherical_convolution import SphereConv
from steersman.models.sphere.fields import analysed, sphere_of, synthesized
from steersman.models.sphere.harmonics import SphericalHarmonics

GROUPS = 8  # of the normalization, as in the U-Net


class SphericalFourier(Forecaster):
    """Steps of fields on the sphere: filters by degree, alike at all longitudes, beside 3x3 convolutions.

    What is far is for the filters to see, what is near for the convolutions; those of 1x1 between them mix the
    channels, and the first is given the latitude.

    All layers work on the smallest Gaussian grid of their own truncation, whatever that of the fields.

    Args:
        width: channels of the layers, a multiple of 8.
        layers: number of filters.
        truncation: T of the filters, at most what the grid of the fields holds.
        laws: what the flow keeps, see Forecaster.
    Source: Bonev et al. (2023), Spherical Fourier neural operators, arXiv 2306.03838; here one complex
        matrix a degree. Liu-Schiaffini et al. (2024), arXiv 2402.16845, for local kernels beside the filters.
    """

    def __init__(
        self, channels: int, latitudes: int, *, width: int = 32, layers: int = 4, truncation: int = 31,
        **laws: Any,
    ) -> None:  # fmt: skip
        super().__init__(channels, latitudes, width=width, layers=layers, truncation=truncation, **laws)
        at_least(1, width=width, layers=layers)
        self.truncation = truncation
        self.first = nn.Conv2d(channels + 1, width, 1)
        self.layers = nn.ModuleList(_Layer(width, truncation) for _ in range(layers))
        self.last = nn.Conv2d(width, channels, 1)
        nn.init.zeros_(self.last.weight)  # an untrained network is persistence
        nn.init.zeros_(self.last.bias)  # type: ignore[arg-type]
        self.float()

    def change(self, fields: Tensor) -> Tensor:
        """See Forecaster."""
        outer = sphere_of(self.truncation, fields.shape[2], fields.device)
        inner = sphere_of(self.truncation, None, fields.device)
        x = _regridded(fields, outer, inner)
        place = torch.as_tensor(inner.latitudes, dtype=x.dtype, device=x.device).sin()
        place = place[:, None].expand(len(x), 1, inner.rows, inner.columns)
        x = self.first(torch.cat((x, place), 1))
        for layer in self.layers:
            x = layer(x, inner)
        return _regridded(self.last(x), inner, outer)


class _Layer(nn.Module):
    """Normalize, filter by degree and look around, mix; added to what came in."""

    def __init__(self, width: int, truncation: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, width)
        self.filter = nn.Parameter(torch.randn(truncation + 1, width, width, 2) / math.sqrt(2 * width))
        self.beside = SphereConv(width, width)
        self.mix = nn.Sequential(nn.Conv2d(width, 2 * width, 1), nn.GELU(), nn.Conv2d(2 * width, width, 1))

    def forward(self, fields: Tensor, sphere: SphericalHarmonics) -> Tensor:
        x = self.norm(fields)
        filtered = self.filtered(x, sphere) + self.beside(x)
        added: Tensor = fields + self.mix(functional.gelu(filtered))
        return added

    def filtered(self, fields: Tensor, sphere: SphericalHarmonics) -> Tensor:
        """Multiply the channels of each coefficient by the matrix of its degree."""
        spectral = analysed(fields, sphere)
        inside, degree = _kept(sphere)
        matrices = torch.view_as_complex(self.filter)[degree]
        product = torch.zeros_like(spectral)
        product[inside] = torch.bmm(spectral[inside], matrices)
        return synthesized(product, sphere)


@functools.lru_cache(maxsize=16)
def _kept(sphere: SphericalHarmonics) -> tuple[Tensor, Tensor]:
    """Positions of the coefficients within the truncation among M x N, and their degrees."""
    degree = torch.as_tensor(sphere.degree.ravel(), device=sphere.device)
    inside = torch.nonzero(degree <= sphere.truncation)[:, 0]
    return inside, degree[inside]


def _regridded(fields: Tensor, old: SphericalHarmonics, new: SphericalHarmonics) -> Tensor:
    """Fields as far as the truncation goes, on another grid of it."""
    return synthesized(analysed(fields, old), new)
