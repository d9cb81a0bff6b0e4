"""Truth that forecasts of jets are compared with: runs of the 8-parameter family, frames of 6 h after the spin-up."""

from __future__ import annotations

import sys

import numpy as np
import torch

from steersman.apps.shallow_water import ShallowWater
from steersman.apps.shallow_water import forecasts as forecasts
from steersman.apps.shallow_water.cases import DAY, jet

FRAME_S, TOGETHER = 6 * 3600.0, 8
TRUNCATION, ROWS = 42, 64
SPIN_UP_DAYS = 6.0  # before, a jet hardly changes


def truth(parameters: np.ndarray, days: float, truncation: int = TRUNCATION) -> tuple[np.ndarray, torch.Tensor]:
    """Simulate jets of (n, 8) parameters for so many days after the spin-up.

    Returns: frames (n, times, 3, latitude, longitude); and their first states (orders, degrees, 3, n).
    """
    model = solver(truncation)
    frames, states = [], []
    for first in range(0, len(parameters), TOGETHER):
        begun = [model.spectral(jet(*model.grid, each)) for each in parameters[first : first + TOGETHER]]
        state = forecasts.stepped(model, torch.stack(begun, dim=-1).flatten(2), SPIN_UP_DAYS)
        states.append(state.reshape(*state.shape[:2], 3, -1))
        frames.append(forecasts.rollout(model, state, times=frames_of(days), every_s=FRAME_S))
        print(f"\r{first + len(begun)}/{len(parameters)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return np.concatenate(frames), torch.cat(states, dim=-1)


def coarser(states: torch.Tensor, truncation: int, days: float) -> np.ndarray:
    """The same runs by a coarser solver, on the grid of the frames."""
    model = solver(truncation, rows=ROWS)
    state = forecasts.truncated(model, states)
    return forecasts.rollout(model, state, times=frames_of(days), every_s=FRAME_S)


def solver(truncation: int, rows: int | None = None) -> ShallowWater:
    """A model for jets, on its own grid unless asked otherwise."""
    return forecasts.jet_solver(truncation, rows=rows, every_s=FRAME_S)


def frames_of(days: float) -> int:
    """How many there are with the first one."""
    return round(days * DAY / FRAME_S) + 1
