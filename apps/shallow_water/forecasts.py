"""Frames of runs -> forecasts of them and their errors: what a network, a coarser solver and persistence make of them.

Runs are (runs, times, 3, latitude, longitude) float32 of height (m), u and v (m/s), on a Gaussian grid from the north.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from steersman.apps.shallow_water import ShallowWater, solver_of
from steersman.apps.shallow_water.cases import DAY, GRAVITY, MEAN_DEPTH

if TYPE_CHECKING:
    from steersman.models.networks.forecaster import Forecaster

FIELDS = ("height", "u", "v")

Result = TypeVar("Result")


def runs_of(frames: Mapping[str, np.ndarray]) -> np.ndarray:
    """Stored frames -> whole runs: those as long as the longest; a run begins where the time does not go on."""
    ends = [*np.flatnonzero(np.diff(frames["time"]) <= 0) + 1, len(frames["time"])]
    spans = list(zip([0, *ends[:-1]], ends, strict=True))
    longest = max(end - first for first, end in spans)
    whole = [slice(first, end) for first, end in spans if end - first == longest]
    fields = [frames[name] for name in FIELDS]
    return np.stack([np.stack([field[run] for field in fields], 1) for run in whole])


def laws(truncation: int) -> dict[str, Any]:
    """What a network that forecasts height, u and v of a solver has to keep, see Forecaster.

    The mean height; nothing beyond the truncation; no more than the energy g h^2 + H (u^2 + v^2) of the step before.
    """
    return {"kept": (0,), "band_limit": truncation, "energy": (GRAVITY, MEAN_DEPTH, MEAN_DEPTH)}


def forecast(model: Forecaster, runs: np.ndarray, *, steps: int | None = None) -> np.ndarray:
    """Runs as a network continues their first frames, over as many steps unless asked otherwise."""
    rolled = model.forecast(runs[:, 0], runs.shape[1] - 1 if steps is None else steps)
    return np.concatenate([runs[:, :1], rolled.swapaxes(0, 1)], 1)


def jet_solver(
    truncation: int, *, every_s: float, rows: int | None = None, diffusion_hours: float | None = 12.0
) -> ShallowWater:
    """A float32 solver of jets whose safe step is a part of `every_s`."""
    model, _ = solver_of("jet", truncation, every_s / 3600, rows=rows, diffusion_hours=diffusion_hours)
    assert isinstance(model, ShallowWater)
    return model


def timed(function: Callable[[], Result]) -> tuple[Result, float]:
    """What a function gives, and the CPU seconds that it takes."""
    begun = time.process_time()
    result = function()
    return result, time.process_time() - begun


def truncated(model: ShallowWater, states: torch.Tensor) -> torch.Tensor:
    """What a coarser model can hold of states (orders, degrees, 3, runs); runs last, as it steps them."""
    orders, degrees = model.sphere.degree.shape
    return states[:orders, :degrees].flatten(2) * model.sphere.inside


def rollout(model: ShallowWater, state: torch.Tensor, *, times: int, every_s: float) -> np.ndarray:
    """Frames of all members of a state; the first is that of the state."""
    frames = [shown(model, state)]
    for _ in range(times - 1):
        state = stepped(model, state, every_s / DAY)
        frames.append(shown(model, state))
    return np.stack(frames, 1)


def stepped(model: ShallowWater, state: torch.Tensor, days: float) -> torch.Tensor:
    """The state so many days later."""
    for _ in range(round(days * DAY / model.step_s)):
        state = model.step(state)
    return state


def shown(model: ShallowWater, state: torch.Tensor) -> np.ndarray:
    """Height, u, v of all members, (members, 3, latitude, longitude)."""
    fields: np.ndarray = torch.stack(model.fields(state)[:3], 1).numpy()
    return fields


def persistence(runs: np.ndarray) -> np.ndarray:
    """Nothing changes."""
    return np.repeat(runs[:, :1], runs.shape[1], 1)


def vrmse(predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Error over the spread of the truth, by area, as the mean over runs: (times, 4) of each field and of their mean.

    Source: Ohana et al. (2024), The Well, arXiv 2412.00568.
    """
    each = _relative(predicted, true).mean(0)
    return np.concatenate([each, each.mean(1, keepdims=True)], 1)


def averaged(runs: np.ndarray) -> np.ndarray:
    """Means over the sphere, (runs, times, 3) float64."""
    return np.asarray((runs.astype(np.float64) * area(runs)).sum((3, 4)))


def area(runs: np.ndarray) -> np.ndarray:
    """Weights of the latitudes, as a column; over the grid their sum is 1."""
    return np.asarray(np.polynomial.legendre.leggauss(runs.shape[3])[1][:, None] / (2 * runs.shape[4]))


def _relative(predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    """(runs, times, 3): root of the mean square error over the spread of the truth, each over the sphere."""
    weights = area(true)
    spread = ((true - averaged(true)[..., None, None]) ** 2 * weights).sum((3, 4))
    return np.asarray(np.sqrt(((predicted - true) ** 2 * weights).sum((3, 4)) / spread))
