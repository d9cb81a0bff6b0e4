"""The equations of shallow water once more, slowly: what the solver is held against."""

from __future__ import annotations

import numpy as np
import torch

from steersman.apps.shallow_water import ShallowWater
from steersman.apps.shallow_water.cases import GRAVITY, RADIUS, Case
from steersman.apps.shallow_water.derivatives import Derivatives


def mean(model: ShallowWater, field: np.ndarray) -> float:
    """Over the sphere, of (latitude, longitude)."""
    return float((field * model.sphere.weights[:, None]).sum() / (2 * model.sphere.columns))


def invariants(model: ShallowWater, case: Case, state: torch.Tensor) -> dict[str, float]:
    """Means over the sphere of one member: mass (m), energy (m3/s2), potential enstrophy (1/(m s2))."""
    depth, u, v, vorticity, *_ = (field[0].double().numpy() for field in model.fields(state))
    ground = model.sphere.synthesis(model.ground)[0].double().numpy() / GRAVITY
    energy = 0.5 * depth * (u**2 + v**2) + 0.5 * GRAVITY * ((depth + ground) ** 2 - ground**2)
    values = {"mass": depth, "energy": energy, "potential_enstrophy": 0.5 * (vorticity + case.coriolis) ** 2 / depth}
    return {name: mean(model, value) for name, value in values.items()}


def step_explicitly(model: ShallowWater, case: Case, state: torch.Tensor) -> torch.Tensor:
    """One step by the classical Runge-Kutta scheme, without diffusion: steps must be far shorter."""
    laplace, geopotential = Derivatives(model.sphere, RADIUS).laplace, GRAVITY * mean(model, case.depth)

    def everything(state: torch.Tensor) -> torch.Tensor:
        vorticity, divergence, height = torch.split(state, 1, 2)
        waves = torch.cat((torch.zeros_like(vorticity), laplace * height, -geopotential * divergence), 2)
        rest: torch.Tensor = model.scheme.tendency(state)
        return rest + waves

    k1 = everything(state)
    k2 = everything(state + model.step_s / 2 * k1)
    k3 = everything(state + model.step_s / 2 * k2)
    k4 = everything(state + model.step_s * k3)
    return (state + model.step_s / 6 * (k1 + 2 * k2 + 2 * k3 + k4)) * model.sphere.inside
