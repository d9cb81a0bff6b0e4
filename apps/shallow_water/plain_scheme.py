"""The step of scheme.py in plain torch, so that gradients go through it: a network beside it is trained so."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from steersman.apps.shallow_water.cases import RADIUS
from steersman.apps.shallow_water.derivatives import Derivatives
from steersman.apps.shallow_water.scheme import propagators
from steersman.models.sphere.harmonics import SphericalHarmonics

Parts = Sequence[torch.Tensor]  # vorticity, divergence, geopotential and what is carried, of all members each


class PlainScheme:
    """One step as that of `Scheme`, the same but for rounding, in twice the time.

    Args:
        columns: see `Scheme`, as all others.
    """

    def __init__(
        self, sphere: SphericalHarmonics, columns: int, *, step_s: float, damping: np.ndarray,
        mean_geopotential: float, ground: torch.Tensor | None, planetary: torch.Tensor,
    ) -> None:  # fmt: skip
        self._sphere, self._columns, self._calculus = sphere, columns, Derivatives(sphere, RADIUS)
        self._ground, self._planetary, self._mean = ground, planetary, math.sqrt(2) * mean_geopotential
        over = 1 / np.cos(sphere.latitudes[:, None]) ** 2  # winds are times the cosine, and so are fluxes divided by it
        self._over = torch.as_tensor(over, dtype=sphere.dtype, device=sphere.device)
        self._functions = [
            tuple(sphere.coefficients(factor) for factor in each)
            for each in propagators(sphere.degree, step_s, mean_geopotential, damping)
        ]

    def step(self, state: torch.Tensor) -> torch.Tensor:
        """See `Scheme`."""
        half, first, whole, once, middle, last = self._functions
        before = torch.split(state, state.shape[2] // self._columns, 2)
        n1, coasting = self._tendency(before), _applied(half, before)
        stage = _sum(coasting, _applied(first, n1))
        n2 = self._tendency(stage)
        n3 = self._tendency(_sum(coasting, _applied(first, n2)))
        ahead = [2 * late - early for late, early in zip(n3, n1, strict=True)]
        n4 = self._tendency(_sum(_applied(half, stage), _applied(first, ahead)))
        derivatives = _applied(once, n1), _applied(middle, _sum(n2, n3)), _applied(last, n4)
        return torch.cat(list(_sum(_applied(whole, before), *derivatives)), 2)

    def _tendency(self, parts: Parts) -> Parts:
        vorticity, divergence, *carried = parts
        shift = torch.zeros_like(carried[0])
        shift[0, 0] = self._mean
        amounts = (vorticity + self._planetary, carried[0] - shift, *carried[1:])
        members, wind = vorticity.shape[2], self._calculus.wind(vorticity, divergence)
        u, v, *fields = torch.split(self._sphere.synthesis(torch.cat((*wind, *amounts), 2)), members)
        products = [field * along * self._over for field in fields for along in (u, v)]
        spectra = self._sphere.analysis(torch.cat((*products, (u * u + v * v) * self._over / 2)))
        *fluxes, energy = torch.split(spectra, members, 2)
        absolute, *others = zip(fluxes[::2], fluxes[1::2], strict=True)
        potential = energy if self._ground is None else energy + self._ground
        turning = self._calculus.curl(*absolute) + self._calculus.laplace * potential
        gathered = [self._calculus.convergence(*each) for each in others]
        return [self._calculus.convergence(*absolute), turning, *gathered]


def _applied(function: tuple[torch.Tensor, ...], parts: Parts) -> Parts:
    """f(L) of a state, see `propagators`."""
    (straight, at_rest, speeding, rising), (vorticity, divergence, geopotential, *carried) = function, parts
    return [
        at_rest * vorticity,
        straight * divergence + speeding * geopotential,
        straight * geopotential + rising * divergence,
        *(at_rest * each for each in carried),
    ]


def _sum(*states: Parts) -> Parts:
    return [sum(each[1:], each[0]) for each in zip(*states, strict=True)]
