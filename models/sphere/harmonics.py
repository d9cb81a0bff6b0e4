"""Fields on the sphere <-> spherical harmonics of triangular truncation, many fields at once, in plain torch."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch

from steersman.system.errors import BadValue

# Zonal wavenumbers are multiplied in blocks, so that the triangle's empty half is mostly left out; each has so many
# pairs of degrees fewer than the one before, and a multiple of it but for the first: the size matrix products like.
PAIRS, FEWEST_ORDERS = 4, 4


@dataclass(frozen=True)
class Wavenumbers:
    """Zonal wavenumbers [first, end) with so many pairs of degrees: l - m even and odd, as symmetric about the equator.

    Args:
        legendre: (2, end - first, pairs, northern latitudes) for even and odd; weighted: times the Gaussian weights.
    """

    first: int
    end: int
    pairs: int
    legendre: torch.Tensor
    weighted: torch.Tensor


class SphericalHarmonics:
    """The transform between a Gaussian grid and coefficients up to total wavenumber `truncation` + 1.

    Grid fields are (fields, latitude, longitude) real, from the north; coefficients (order m, l - m, fields) complex,
    normalized so that the mean square over the sphere of a field with one coefficient 1 at m = 0 is 1/2.

    Args:
        truncation: T, at least 1. The grid has 2K longitudes and K latitudes; vectors need the one degree more.
        rows: K; None: the smallest even number that leaves quadratic products without aliasing (Orszag's 2/3 rule).
    Attributes:
        latitudes, longitudes: radians; weights: Gaussian, their sum is 2.
        degree: l of every coefficient (m, l - m); order: m, as a column.
        inside: 1 where l is at most the truncation, else 0.
        blocks: the tables of Legendre functions.
    Raises: BadValue: rows that are odd, or too few.
    Source: Durran (2010), Numerical Methods for Fluid Dynamics, section 6.4.
    """

    def __init__(
        self, truncation: int, *, rows: int | None = None, dtype: torch.dtype = torch.float64, device: str = "cpu"
    ) -> None:
        self.truncation, self.dtype, self.device = truncation, dtype, torch.device(device)
        fewest = fewest_rows(truncation)
        self.rows = fewest if rows is None else rows
        if self.rows < fewest or self.rows % 2:
            raise BadValue(
                "rows",
                self.rows,
                f"T{truncation} takes an even number, at least {fewest}; or give a smaller truncation",
            )
        self.columns = 2 * self.rows
        self.orders = truncation + 1
        self.degrees = truncation + 2 + truncation % 2
        sines, weights = np.polynomial.legendre.leggauss(self.rows)
        sines, self.weights = sines[::-1].copy(), weights[::-1].copy()
        self.latitudes = np.arcsin(sines)
        self.longitudes = 2 * np.pi * np.arange(self.columns) / self.columns
        self.order = np.arange(self.orders)[:, None]
        self.degree = self.order + np.arange(self.degrees)[None]
        self.inside = self.coefficients((self.degree <= truncation).astype(float))
        self.blocks = self._make_blocks(sines[: self.rows // 2])

    def coefficients(self, values: np.ndarray) -> torch.Tensor:
        """Real factors (m, l - m) as a tensor that multiplies coefficients (m, l - m, fields)."""
        return torch.as_tensor(values, dtype=self.dtype, device=self.device)[..., None]

    def noise(self, first: int, last: int) -> np.ndarray:
        """(2, m, l - m) float64: what real and imaginary part of each coefficient vary by in a random field of total
        wavenumbers first to last, whose mean square is 1 everywhere; without those beyond the truncation."""
        inside = (self.degree >= first) & (self.degree <= min(last, self.truncation))
        spread = np.stack([inside, inside]) / math.sqrt((last + 1) ** 2 - first**2)
        spread[0, 0], spread[1, 0] = math.sqrt(2) * spread[0, 0], 0  # of order 0 it is real, and its square counts half
        return spread

    def synthesis(self, spectral: torch.Tensor) -> torch.Tensor:
        """Coefficients (m, l - m, fields) -> grid (fields, latitude, longitude)."""
        columns, circles = torch.view_as_real(spectral).flatten(2), []
        for block in self.blocks:
            part = torch.unflatten(columns[block.first : block.end, : 2 * block.pairs], 1, (block.pairs, 2))
            even, odd = (torch.bmm(part[:, :, p].transpose(1, 2), block.legendre[p]) for p in (0, 1))
            circles.append(torch.cat((even + odd, (even - odd).flip(2)), 2))
        along = torch.unflatten(torch.cat(circles), 1, (-1, 2)).permute(1, 3, 0, 2).contiguous()
        grid: torch.Tensor = torch.fft.irfft(torch.view_as_complex(along), n=self.columns, dim=2, norm="forward")
        return grid

    def analysis(self, grid: torch.Tensor) -> torch.Tensor:
        """Grid (fields, latitude, longitude) -> coefficients (m, l - m, fields), up to degree truncation + 1."""
        along = torch.view_as_real(torch.fft.rfft(grid, dim=2, norm="forward")[:, :, : self.orders])
        north, south = along[:, : self.rows // 2], along[:, self.rows // 2 :].flip(1)
        parities = torch.stack((north + south, north - south)).permute(0, 3, 2, 1, 4).flatten(3)
        spectrum = torch.zeros(self.orders, self.degrees, parities.shape[3], dtype=grid.dtype, device=grid.device)
        for block in self.blocks:
            parts = [torch.bmm(block.weighted[p], parities[p, block.first : block.end]) for p in (0, 1)]
            spectrum[block.first : block.end, : 2 * block.pairs] = torch.stack(parts, 2).flatten(1, 2)
        return torch.view_as_complex(torch.unflatten(spectrum, 2, (-1, 2)))

    def _make_blocks(self, sines: np.ndarray) -> list[Wavenumbers]:
        legendre = associated_legendre(self.truncation, sines)
        table = np.zeros((self.orders, self.degrees, len(sines)))
        for m in range(self.orders):
            table[m, : self.truncation + 2 - m] = legendre[m, : self.truncation + 2 - m]
        second = (self.truncation + 2 - FEWEST_ORDERS) % (2 * PAIRS) + FEWEST_ORDERS
        edges = [0, *range(second, self.orders, 2 * PAIRS), self.orders]
        return [self._block(first, end, table) for first, end in itertools.pairwise(edges)]

    def _block(self, first: int, end: int, table: np.ndarray) -> Wavenumbers:
        pairs = -(-min(self.degrees, self.truncation + 2 - first) // 2)
        parities = table[first:end, : 2 * pairs].reshape(end - first, pairs, 2, -1).transpose(2, 0, 1, 3)
        tables = parities, parities * self.weights[: table.shape[2]]
        return Wavenumbers(
            first, end, pairs,
            *(torch.as_tensor(np.ascontiguousarray(each), dtype=self.dtype, device=self.device) for each in tables),
        )  # fmt: skip


def fewest_rows(truncation: int, multiple_of: int = 2) -> int:
    """Latitudes that leave quadratic products of fields of this truncation without aliasing (Orszag's 2/3 rule)."""
    return multiple_of * math.ceil((3 * truncation + 1) / (2 * multiple_of))


def associated_legendre(truncation: int, sines: np.ndarray) -> np.ndarray:
    """P[m, l - m, point] for l up to m + truncation + 1, by the recurrence in l; the integral of P^2 over [-1, 1] is 1.

    Source: Belousov (1962); Holmes and Featherstone (2002).
    """
    table = np.zeros((truncation + 1, truncation + 2, len(sines)))
    sectoral = np.full(len(sines), math.sqrt(0.5))
    cosines = np.sqrt(1 - sines**2)
    for m in range(truncation + 1):
        if m:
            sectoral = sectoral * cosines * math.sqrt((2 * m + 1) / (2 * m))
        table[m, 0] = sectoral
        table[m, 1] = math.sqrt(2 * m + 3) * sines * sectoral
        for n in range(2, truncation + 2):
            below, here = coupling(m, m + n - 1), coupling(m, m + n)
            table[m, n] = (sines * table[m, n - 1] - below * table[m, n - 2]) / here
    return table


def coupling(order: np.ndarray | int, degree: np.ndarray | int) -> np.ndarray:
    """The factor of sin(latitude) Y(l-1, m) on Y(l, m): sqrt((l^2 - m^2) / (4 l^2 - 1))."""
    factor: np.ndarray = np.sqrt(np.maximum(np.square(degree) - np.square(order), 0) / (4.0 * np.square(degree) - 1))
    return factor
