"""Vector calculus on the sphere in coefficients of spherical harmonics: winds, curl, divergence."""

from __future__ import annotations

import numpy as np
import torch

from steersman.models.spherical_harmonics import SphericalHarmonics, coupling


class Derivatives:
    """First derivatives of coefficients (order, degree - order, fields).

    Vectors are exact up to degree truncation + 1; what is derived from them is cut at the truncation.

    Args:
        radius: of the sphere, m.
    Attributes:
        laplace: l (l + 1) / radius^2, the negative eigenvalues of the Laplacian, 1/m^2; 0 beyond the truncation.
    """

    def __init__(self, sphere: SphericalHarmonics, radius: float) -> None:
        degree, order = sphere.degree.astype(float), sphere.order
        inside, known = degree <= sphere.truncation, degree <= sphere.truncation + 1
        here, above = coupling(order, degree), coupling(order, degree + 1)
        self.laplace = sphere.coefficients(inside * degree * (degree + 1) / radius**2)
        self._along = 1j * sphere.coefficients(inside * order / radius)
        self._below = _complex(sphere.coefficients(inside * (degree + 1) * here / radius))[:, 1:]
        self._above = _complex(sphere.coefficients(-1.0 * inside * degree * above / radius))[:, :-1]
        # A wind is derived from stream function and potential: the inverse Laplacian is in its factors.
        inverse = -1.0 * inside * radius**2 / np.maximum(degree * (degree + 1), 1) * (degree > 0)
        self._along_inverse = 1j * sphere.coefficients(inverse * order / radius)
        slope_above = (known * (degree + 2) * above / radius)[:, :-1] * inverse[:, 1:]
        slope_below = (-1.0 * known * (degree - 1) * here / radius)[:, 1:] * inverse[:, :-1]
        self._slope_above, self._slope_below = (_complex(sphere.coefficients(f)) for f in (slope_above, slope_below))

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
