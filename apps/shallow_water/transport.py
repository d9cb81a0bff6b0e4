"""A tracer in a wind that is prescribed: the flow of case 1 and the moving vortices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from steersman.apps.shallow_water.cases import RADIUS, Case
from steersman.apps.shallow_water.derivatives import Derivatives
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.system.errors import BadValue


class Transport:
    """Advection of one tracer by the case's wind, with the classical Runge-Kutta scheme.

    A state is complex (order, degree - order, 2): the tracer; and the clock, whose first coefficient is the time in s.

    Args:
        case: gives wind and tracer.
        step_s: seconds of one step.
    Raises: BadValue: see `bump`.
    """

    columns, diffusion_hours = 2, None

    def __init__(self, sphere: SphericalHarmonics, case: Case, *, step_s: float) -> None:
        self.sphere, self.step_s = sphere, step_s
        lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
        self.grid = lat, lon
        self._case, self._over_cosine = case, self._field(1 / np.cos(lat))
        self._calculus = Derivatives(sphere, RADIUS)

    def step(self, state: torch.Tensor) -> torch.Tensor:
        """The state one step later."""
        half = self.step_s / 2
        k1 = self.tendency(state)
        k2 = self.tendency(state + half * k1)
        k3 = self.tendency(state + half * k2)
        k4 = self.tendency(state + self.step_s * k3)
        return state + self.step_s / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def forced(self, state: torch.Tensor, generators: Sequence[np.random.Generator]) -> torch.Tensor:
        """Nothing drives it but the wind."""
        return state

    def tendency(self, state: torch.Tensor) -> torch.Tensor:
        """d(state)/dt; that of the clock is one second per second."""
        tracer = self.sphere.synthesis(state[:, :, :1]) * self._over_cosine
        u, v = self._wind(state)
        a, b = torch.split(self.sphere.analysis(torch.cat((u * tracer, v * tracer))), 1, 2)
        clock = torch.zeros_like(a)
        clock[0, 0] = 1
        return torch.cat((self._calculus.convergence(a, b), clock), 2)

    def spectral(self, case: Case) -> torch.Tensor:
        """The state at time 0 of a case with a tracer."""
        assert case.tracer is not None
        tracer = self.sphere.analysis(self._field(case.tracer)) * self.sphere.inside
        return torch.cat((tracer, torch.zeros_like(tracer)), 2)

    def shown(self, state: torch.Tensor) -> dict[str, torch.Tensor]:
        """Fields by the names of FIELDS, and the depth: (1, latitude, longitude)."""
        u, v = self._wind(state)
        along = self._over_cosine
        a, b = torch.split(self.sphere.analysis(torch.cat((u * along, v * along))), 1, 2)
        vorticity = self.sphere.synthesis(self._calculus.curl(a, b))
        depth, tracer = self._field(self._case.depth), self.sphere.synthesis(state[:, :, :1])
        return {"depth": depth, "height": depth, "vorticity": vorticity, "u": u, "v": v, "tracer": tracer}

    def bump(self, rng: np.random.Generator, spread_m: float) -> torch.Tensor:
        """There is no height to be perturbed. Raises: BadValue."""
        raise BadValue("perturbation_m", spread_m, "give 0 where the wind is prescribed")

    def _wind(self, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        assert self._case.wind is not None
        u, v = self._case.wind(float(state[0, 0, 1].real))
        return self._field(u), self._field(v)

    def _field(self, values: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(values, dtype=self.sphere.dtype, device=self.sphere.device)[None]
