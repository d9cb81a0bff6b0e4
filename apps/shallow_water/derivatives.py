"""Vector calculus on the sphere in coefficients of spherical harmonics: winds, curl, divergence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from steersman.models.sphere.harmonics import SphericalHarmonics, coupling
from steersman.models.sphere.packed import Packing


@dataclass(frozen=True)
class Factors:
    """What coefficients are multiplied with to derive them, (order, degree - order) of a sphere of that radius, m.

    Args:
        laplace: l (l + 1) / radius^2, the negative eigenvalues of the Laplacian, 1/m^2; 0 beyond the truncation.
        along: of the derivative to the east, without its i.
        above, below: of the coefficients one degree above and below, for curl and divergence.
        along_inverse, slope_above, slope_below: the same for a wind, which is derived from stream function and
            potential: the inverse Laplacian is in them.
    """

    laplace: np.ndarray
    along: np.ndarray
    above: np.ndarray
    below: np.ndarray
    along_inverse: np.ndarray
    slope_above: np.ndarray
    slope_below: np.ndarray

    @classmethod
    def of(cls, sphere: SphericalHarmonics, radius: float) -> Factors:
        """Vectors are exact up to degree truncation + 1; what is derived from them is cut at the truncation."""
        degree, order = sphere.degree.astype(float), sphere.order
        inside, known = degree <= sphere.truncation, degree <= sphere.truncation + 1
        here, above = coupling(order, degree), coupling(order, degree + 1)
        inverse = -1.0 * inside * radius**2 / np.maximum(degree * (degree + 1), 1) * (degree > 0)
        higher, lower = np.zeros_like(inverse), np.zeros_like(inverse)
        higher[:, :-1], lower[:, 1:] = inverse[:, 1:], inverse[:, :-1]
        return cls(
            laplace=inside * degree * (degree + 1) / radius**2,
            along=inside * order / radius,
            above=-1.0 * inside * degree * above / radius,
            below=inside * (degree + 1) * here / radius,
            along_inverse=inverse * order / radius,
            slope_above=known * (degree + 2) * above / radius * higher,
            slope_below=-1.0 * known * (degree - 1) * here / radius * lower,
        )


class Derivatives:
    """First derivatives of coefficients (order, degree - order, fields); see Factors."""

    def __init__(self, sphere: SphericalHarmonics, radius: float) -> None:
        factors = Factors.of(sphere, radius)
        self.laplace = sphere.coefficients(factors.laplace)
        self._along, self._along_inverse = (
            1j * sphere.coefficients(each) for each in (factors.along, factors.along_inverse)
        )
        self._above, self._slope_above = (
            _complex(sphere.coefficients(each[:, :-1])) for each in (factors.above, factors.slope_above)
        )
        self._below, self._slope_below = (
            _complex(sphere.coefficients(each[:, 1:])) for each in (factors.below, factors.slope_below)
        )

    def wind(self, vorticity: torch.Tensor, divergence: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """u cos(lat) and v cos(lat), m/s, of vorticity and divergence, 1/s."""
        u, v = self._along_inverse * divergence, self._along_inverse * vorticity
        u[:, :-1].addcmul_(self._slope_above, vorticity[:, 1:], value=-1)
        u[:, 1:].addcmul_(self._slope_below, vorticity[:, :-1], value=-1)
        v[:, :-1].addcmul_(self._slope_above, divergence[:, 1:])
        v[:, 1:].addcmul_(self._slope_below, divergence[:, :-1])
        return u, v

    def curl(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Curl of a vector whose components were divided by cos(lat) on the grid before the analysis."""
        return self._parts(self._along * b, a, 1)

    def divergence(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Divergence of such a vector."""
        return self._parts(self._along * a, b, -1)

    def convergence(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Its negative."""
        return self._parts(-self._along * a, b, 1)

    def _parts(self, found: torch.Tensor, q: torch.Tensor, sign: int) -> torch.Tensor:
        """Add cos(lat) d/dlat of q, which was divided by cos2(lat): the derivative is moved to the harmonics."""
        found[:, 1:].addcmul_(self._below, q[:, :-1], value=sign)
        found[:, :-1].addcmul_(self._above, q[:, 1:], value=sign)
        return found


def _complex(factors: torch.Tensor) -> torch.Tensor:
    return factors.to(factors.dtype.to_complex())


class RowDerivatives:
    """The same of packed rows (..., 2, 2, positions), see Packing, written into rows that are there.

    Attributes:
        laplace: (2, positions).
    """

    def __init__(self, sphere: SphericalHarmonics, packing: Packing, radius: float) -> None:
        factors = Factors.of(sphere, radius)
        self.laplace = packing.factors(factors.laplace)
        # i times a factor: the real part is written with the first, the imaginary part with the second.
        self._along, self._along_inverse = (
            torch.stack((packing.factors(-each), packing.factors(each)))
            for each in (factors.along, factors.along_inverse)
        )
        self._neighbours = packing.factors(factors.above), packing.factors(factors.below)
        self._slopes = packing.factors(factors.slope_above), packing.factors(factors.slope_below)
        self._against, self._against_slopes = -self._along, tuple(-each for each in self._slopes)

    def wind(self, vorticity: torch.Tensor, divergence: torch.Tensor, out: torch.Tensor) -> None:
        """Write u cos(lat) and v cos(lat), see Derivatives."""
        _turn(self._along_inverse, divergence, out[0])
        _turn(self._along_inverse, vorticity, out[1])
        _add_neighbours(self._against_slopes, vorticity, out[0])
        _add_neighbours(self._slopes, divergence, out[1])

    def curl(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        """Write it, see Derivatives."""
        _turn(self._along, b, out)
        _add_neighbours(self._neighbours, a, out)

    def convergence(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        """Write it, see Derivatives."""
        _turn(self._against, a, out)
        _add_neighbours(self._neighbours, b, out)


def _turn(factors: torch.Tensor, rows: torch.Tensor, out: torch.Tensor) -> None:
    """Write i times factor times rows."""
    torch.mul(rows[..., 1, :, :], factors[0], out=out[..., 0, :, :])
    torch.mul(rows[..., 0, :, :], factors[1], out=out[..., 1, :, :])


def _add_neighbours(factors: tuple[torch.Tensor, ...], rows: torch.Tensor, out: torch.Tensor) -> None:
    """Add the coefficients of one degree more and of one less, which are of the other parity."""
    above, below = factors
    out[..., 0, :].addcmul_(above[0], rows[..., 1, :])
    out[..., 0, 1:].addcmul_(below[0, 1:], rows[..., 1, :-1])
    out[..., 1, :].addcmul_(below[1], rows[..., 0, :])
    out[..., 1, :-1].addcmul_(above[1, :-1], rows[..., 0, 1:])
