"""Vector calculus on the sphere in coefficients of spherical harmonics: winds, curl, divergence."""

from __future__ import annotations

import numpy as np
import torch

from steersman.apps.spherical_harmonics import SphericalHarmonics, coupling


class Derivatives:
    """First derivatives of coefficients (order, degree - order, fields), exact up to degree truncation + 1.

    Args:
        radius: of the sphere, m.
    Attributes:
        laplace: l (l + 1) / radius^2, the negative eigenvalues of the Laplacian, 1/m^2.
    """

    def __init__(self, sphere: SphericalHarmonics, radius: float) -> None:
        degree, order = sphere.degree.astype(float), sphere.order
        known = degree <= sphere.truncation + 1
        here, above = coupling(order, degree) * known, coupling(order, degree + 1) * known
        eigenvalues = degree * (degree + 1) / radius**2
        inverse = np.where(eigenvalues > 0, -1 / np.where(eigenvalues > 0, eigenvalues, 1), 0) * known
        self.laplace = sphere.coefficients(eigenvalues)
        self._inverse_laplace = sphere.coefficients(inverse)
        self._along = sphere.coefficients((order + 0.0 * degree) / radius) * 1j
        self._above = sphere.coefficients((degree + 2) * above / radius)
        self._below = sphere.coefficients((degree - 1) * here / radius)
        self._below_parts = sphere.coefficients((degree + 1) * here / radius)
        self._above_parts = sphere.coefficients(degree * above / radius)

    def wind(self, vorticity: torch.Tensor, divergence: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """u cos(lat) and v cos(lat), m/s, of vorticity and divergence, 1/s."""
        stream, potential = vorticity * self._inverse_laplace, divergence * self._inverse_laplace
        return self._along * potential - self._slope(stream), self._along * stream + self._slope(potential)

    def curl(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Curl of a vector whose components were divided by cos(lat) on the grid before the analysis."""
        return self._along * b + self._by_parts(a)

    def divergence(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Divergence of such a vector."""
        return self._along * a - self._by_parts(b)

    def _slope(self, q: torch.Tensor) -> torch.Tensor:
        """cos(lat) d/dlat."""
        return self._above * _next(q) - self._below * _previous(q)

    def _by_parts(self, q: torch.Tensor) -> torch.Tensor:
        """The same of what was divided by cos2(lat), the derivative moved to the harmonics."""
        return self._below_parts * _previous(q) - self._above_parts * _next(q)


def _next(q: torch.Tensor) -> torch.Tensor:
    """Coefficients of degree l + 1 at the place of l."""
    return torch.cat((q[:, 1:], torch.zeros_like(q[:, :1])), 1)


def _previous(q: torch.Tensor) -> torch.Tensor:
    return torch.cat((torch.zeros_like(q[:, :1]), q[:, :-1]), 1)
