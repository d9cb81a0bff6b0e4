"""Jets and what forecasts of them are compared with: truth, persistence, coarser solvers, and the error of each.

Frames are (runs, times, 3, latitude, longitude) float32 of height (m), u and v (m/s), 6 h apart, on the 64 x 128 grid.
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from steersman.apps.shallow_water import ShallowWater, default_step
from steersman.apps.shallow_water_cases import DAY, jet
from steersman.models.spherical_harmonics import SphericalHarmonics

FRAME_S, DIFFUSION_HOURS, TOGETHER = 6 * 3600, 12.0, 8
TRUNCATION, ROWS = 42, 64
SPIN_UP_DAYS = 6.0  # before, a jet hardly changes
FIELDS = ("height", "u", "v")


def truth(parameters: np.ndarray, days: float, truncation: int = TRUNCATION) -> tuple[np.ndarray, torch.Tensor]:
    """Simulate jets for so many days after the spin-up.

    Returns: frames of (n, 8) parameters, and their first states (orders, degrees, 3, n).
    """
    model = solver(truncation)
    frames, states = [], []
    for first in range(0, len(parameters), TOGETHER):
        begun = [model.spectral(jet(*model.grid, each)) for each in parameters[first : first + TOGETHER]]
        state = torch.stack(begun, dim=-1).flatten(2)
        state = stepped(model, state, SPIN_UP_DAYS)
        states.append(state.unflatten(2, (3, -1)))
        frames.append(rollout(model, states[-1], days))
        print(f"\r{first + len(begun)}/{len(parameters)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return np.concatenate(frames), torch.cat(states, dim=-1)


def rollout(model: ShallowWater, states: torch.Tensor, days: float) -> np.ndarray:
    """Frames of members from their states (orders, degrees, 3, members); the first is that of the states."""
    state = states.flatten(2)
    frames = [shown(model, state)]
    for _ in range(round(days * DAY / FRAME_S)):
        state = stepped(model, state, FRAME_S / DAY)
        frames.append(shown(model, state))
    return np.stack(frames, 1)


def stepped(model: ShallowWater, state: torch.Tensor, days: float) -> torch.Tensor:
    """The state so many days later."""
    for _ in range(round(days * DAY / model.step_s)):
        state = model.step(state)
    return state


def shown(model: ShallowWater, state: torch.Tensor) -> np.ndarray:
    """Fields of all members on the grid of the frames, (members, 3, 64, 128)."""
    return torch.stack(model.fields(state)[:3], 1).numpy()


def coarser(states: torch.Tensor, truncation: int, days: float) -> np.ndarray:
    """The same runs by a coarser solver, from what it can hold of their states."""
    model = solver(truncation)
    orders, degrees = model.sphere.degree.shape
    return rollout(model, states[:orders, :degrees] * model.sphere.inside[..., None], days)


def solver(truncation: int, *, own_grid: bool = False) -> ShallowWater:
    """A model for jets, in float32, on the grid of the frames; on its own where asked for, or where that is finer."""
    rows = None if own_grid or truncation > TRUNCATION else ROWS
    sphere = SphericalHarmonics(truncation, rows=rows, dtype=torch.float32)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    case = jet(lat, lon, np.zeros(8))
    return ShallowWater(sphere, case, step_s=default_step(truncation), diffusion_hours=DIFFUSION_HOURS)


def persistence(true: np.ndarray) -> np.ndarray:
    """Nothing changes."""
    return np.repeat(true[:, :1], true.shape[1], 1)


def vrmse(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Error over the spread of the truth, by area, as the mean over runs: (times, 4) of each field and of their mean.

    Source: Ohana et al. (2024), The Well, arXiv 2412.00568.
    """
    mean, weights = averaged(true), area(true)
    spread = ((true - mean[..., None, None]) ** 2 * weights).sum((3, 4))
    each = np.sqrt(((found - true) ** 2 * weights).sum((3, 4)) / spread).mean(0)
    return np.concatenate([each, each.mean(1, keepdims=True)], 1)


def averaged(frames: np.ndarray) -> np.ndarray:
    """Means over the sphere, (runs, times, 3) float64."""
    return (frames.astype(np.float64) * area(frames)).sum((3, 4))


def area(frames: np.ndarray) -> np.ndarray:
    """Weights of the latitudes, as a column; over the grid their sum is 1."""
    weights = np.polynomial.legendre.leggauss(frames.shape[3])[1][:, None] / (2 * frames.shape[4])
    return np.asarray(weights)
