"""Fields on the sphere <-> spherical harmonics of triangular truncation, many fields at once, in plain torch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from steersman.models.errors import UnfitGrid

BLOCKS = 4  # zonal wavenumbers are multiplied in so many blocks: the triangle's empty half is mostly left out


@dataclass(frozen=True)
class _Block:
    """Zonal wavenumbers [first, end) with `degrees` coefficients; even and odd ones, as symmetric about the equator."""

    first: int
    end: int
    degrees: int
    even: torch.Tensor
    odd: torch.Tensor
    even_weighted: torch.Tensor
    odd_weighted: torch.Tensor


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
    Raises: UnfitGrid: rows that are odd, or too few.
    Source: Durran (2010), Numerical Methods for Fluid Dynamics, section 6.4.
    """

    def __init__(
        self, truncation: int, *, rows: int | None = None, dtype: torch.dtype = torch.float64, device: str = "cpu"
    ) -> None:
        self.truncation, self.dtype, self.device = truncation, dtype, torch.device(device)
        fewest = 2 * math.ceil((3 * truncation + 1) / 4)
        self.rows = fewest if rows is None else rows
        if self.rows < fewest or self.rows % 2:
            raise UnfitGrid(self.rows, fewest, truncation)
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
        self._blocks = self._make_blocks(sines[: self.rows // 2])

    def coefficients(self, values: np.ndarray) -> torch.Tensor:
        """Real factors (m, l - m) as a tensor that multiplies coefficients (m, l - m, fields)."""
        return torch.as_tensor(values, dtype=self.dtype, device=self.device)[..., None]

    def synthesis(self, spectral: torch.Tensor) -> torch.Tensor:
        """Coefficients (m, l - m, fields) -> grid (fields, latitude, longitude)."""
        return self._grid(self._circles(spectral))

    def analysis(self, grid: torch.Tensor) -> torch.Tensor:
        """Grid (fields, latitude, longitude) -> coefficients (m, l - m, fields), up to degree truncation + 1."""
        even, odd = self._parities(grid)
        return self._coefficients(even.permute(2, 1, 0).contiguous(), odd.permute(2, 1, 0).contiguous())

    def on_grid(self, spectral: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Coefficients of a function of fields on the grid, with many members at once.

        The Legendre products are of all members together, for their tables are read once; on the grid it is one member
        after another, for its fields stay in the cache.

        Args:
            spectral: (m, l - m, members, fields).
            function: grid (fields, latitude, longitude) of one member -> other fields, likewise.
        Returns: (m, l - m, members, other fields).
        """
        members, fields = spectral.shape[2:]
        circles = self._circles(spectral.flatten(2)).view(self.orders, self.rows, members, fields)
        even, odd = spectral.new_empty(0), spectral.new_empty(0)
        for member in range(members):
            parities = self._parities(function(self._grid(circles[:, :, member])))
            if not member:
                shape = self.orders, self.rows // 2, members, len(parities[0])
                even, odd = spectral.new_empty(shape), spectral.new_empty(shape)
            even[:, :, member], odd[:, :, member] = (parity.permute(2, 1, 0) for parity in parities)
        return self._coefficients(even.flatten(2), odd.flatten(2)).view(self.orders, self.degrees, members, -1)

    def _circles(self, spectral: torch.Tensor) -> torch.Tensor:
        """Coefficients -> Fourier coefficients (m, latitude, fields) along circles of latitude."""
        fields, half = spectral.shape[2], self.rows // 2
        flat = torch.view_as_real(spectral).reshape(self.orders, self.degrees, 2 * fields)
        fourier = torch.empty(self.orders, self.rows, 2 * fields, dtype=self.dtype, device=self.device)
        for block in self._blocks:
            part = flat[block.first : block.end]
            even = torch.bmm(block.even, part[:, 0 : block.degrees : 2])
            odd = torch.bmm(block.odd, part[:, 1 : block.degrees : 2])
            fourier[block.first : block.end, :half] = even + odd
            fourier[block.first : block.end, half:] = (even - odd).flip(1)
        return torch.view_as_complex(fourier.view(self.orders, self.rows, fields, 2))

    def _grid(self, circles: torch.Tensor) -> torch.Tensor:
        # An FFT along contiguous numbers takes half the time; what it would pad itself costs another copy.
        along = circles.new_empty(circles.shape[2], self.rows, self.rows + 1)
        along[:, :, : self.orders] = circles.permute(2, 1, 0)
        along[:, :, self.orders :] = 0
        grid: torch.Tensor = torch.fft.irfft(along, n=self.columns, dim=2, norm="forward")
        return grid

    def _parities(self, grid: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Fourier coefficients (fields, northern latitude, m), symmetric and antisymmetric about the equator."""
        turned = torch.fft.rfft(grid, dim=2, norm="forward")[:, :, : self.orders]
        north, south = turned[:, : self.rows // 2], turned[:, self.rows // 2 :].flip(1)
        return north + south, north - south

    def _coefficients(self, even: torch.Tensor, odd: torch.Tensor) -> torch.Tensor:
        fields = even.shape[2]
        flat = torch.empty(self.orders, self.degrees, 2 * fields, dtype=self.dtype, device=self.device)
        for block in self._blocks:
            orders = slice(block.first, block.end)
            flat[orders, 0 : block.degrees : 2] = torch.bmm(block.even_weighted, _columns(even[orders]))
            flat[orders, 1 : block.degrees : 2] = torch.bmm(block.odd_weighted, _columns(odd[orders]))
            flat[orders, block.degrees :] = 0
        return torch.view_as_complex(flat.view(self.orders, self.degrees, fields, 2))

    def _make_blocks(self, sines: np.ndarray) -> list[_Block]:
        legendre = associated_legendre(self.truncation, sines)
        table = np.zeros((self.orders, self.degrees, len(sines)))
        for m in range(self.orders):
            table[m, : self.truncation + 2 - m] = legendre[m, : self.truncation + 2 - m]
        edges = np.unique(np.linspace(0, self.orders, BLOCKS + 1).astype(int))
        return [self._block(int(first), int(end), table) for first, end in itertools.pairwise(edges)]

    def _block(self, first: int, end: int, table: np.ndarray) -> _Block:
        degrees = min(self.degrees, self.truncation + 2 - first)
        degrees += degrees % 2
        even, odd = table[first:end, 0:degrees:2], table[first:end, 1:degrees:2]
        weights = self.weights[: table.shape[2]]
        matrices = (even.transpose(0, 2, 1), odd.transpose(0, 2, 1), even * weights, odd * weights)
        return _Block(
            first, end, degrees,
            *(torch.as_tensor(np.ascontiguousarray(each), dtype=self.dtype, device=self.device) for each in matrices),
        )  # fmt: skip


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


def _columns(fourier: torch.Tensor) -> torch.Tensor:
    """(m, latitude, fields) complex -> (m, latitude, 2 fields) real."""
    return torch.view_as_real(fourier).flatten(2)
