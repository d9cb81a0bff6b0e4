"""How well a U-Net forecasts jets that it has not seen: VRMSE beside persistence and a coarser solver.

    python benchmarks/shallow_water_surrogate.py --json

Truth is T42 on its 64 x 128 grid, frames of 6 h from day 6 to day 12, jets drawn from the 8-parameter family. Trained
on some runs, reported on others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

import numpy as np
import torch

from steersman.apps.shallow_water import ShallowWater, default_step
from steersman.apps.shallow_water_cases import DAY, jet
from steersman.apps.spherical_harmonics import SphericalHarmonics
from steersman.models.unet import SphericalUNet

TRUTH, COARSE, FRAME_S, DIFFUSION_HOURS, TOGETHER = 42, 21, 6 * 3600, 12.0, 8
SPIN_UP_DAYS, DAYS = 6.0, 6.0  # before, a jet hardly changes
LEADS = {"6 h": 1, "1 d": 4, "3 d": 12, "5 d": 20}


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate, train, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--runs", type=int, default=96, help="training runs")
    parser.add_argument("--test-runs", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=1, help="networks, each with its own training runs' order")
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    rng = np.random.default_rng(42)
    train, _ = truth(rng.standard_normal((given.runs, 8)))
    test, states = truth(rng.standard_normal((given.test_runs, 8)))
    found = {
        "persistence": scores(np.repeat(test[:, :1], test.shape[1], 1), test),
        "T21": scores(coarser(states), test),
    }
    seconds = []
    for seed in range(given.seeds):
        begun = time.process_time()
        model = SphericalUNet.fit(train, epochs=given.epochs, batch=8, seed=seed, report=tell)
        seconds.append(time.process_time() - begun)
        rolled = model.forecast(torch.from_numpy(test[:, 0]), test.shape[1] - 1).transpose(0, 1).numpy()
        found[f"U-Net {seed}"] = scores(np.concatenate([test[:, :1], rolled], 1), test)
    told = {
        "parameters": model.parameter_count,
        "training_cpu_s": seconds,
        "pairs": train.shape[0] * (train.shape[1] - 1),
    }
    print(json.dumps({"vrmse": found, **told}))


def tell(record: dict[str, float]) -> None:
    """Progress of a training."""
    print(f"loss {record['loss']:.4f}, {record['seconds']:.0f} s", file=sys.stderr, flush=True)


def truth(parameters: np.ndarray) -> tuple[np.ndarray, torch.Tensor]:
    """Simulate jets. Returns: (n, times, 3, 64, 128) float32 of height, u, v; and their first states, members last."""
    model = solver(TRUTH)
    frames, states = [], []
    for first in range(0, len(parameters), TOGETHER):
        begun = [model.spectral(jet(*model.grid, each)) for each in parameters[first : first + TOGETHER]]
        state = torch.stack(begun, dim=-1).flatten(2)
        for _ in range(round(SPIN_UP_DAYS * DAY / model.step_s)):
            state = model.step(state)
        states.append(state.reshape(*state.shape[:2], 3, -1))
        frames.append(rollout(model, states[-1]))
        print(f"\r{first + len(begun)}/{len(parameters)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return np.concatenate(frames), torch.cat(states, dim=-1)


def rollout(model: ShallowWater, states: torch.Tensor) -> np.ndarray:
    """Frames of members from their states (orders, degrees, 3, members). Returns: as `truth`."""
    state = states.flatten(2)
    frames = [model.fields(state)[:3]]
    for _ in range(round(DAYS * DAY / FRAME_S)):
        for _ in range(round(FRAME_S / model.step_s)):
            state = model.step(state)
        frames.append(model.fields(state)[:3])
    return torch.stack([torch.stack(fields, 1) for fields in frames], 1).numpy()


def coarser(states: torch.Tensor) -> np.ndarray:
    """The same runs by the solver at T21, from what it can hold of their states; shown on the grid of the truth."""
    model = solver(COARSE, rows=SphericalHarmonics(TRUTH).rows)
    orders, degrees = model.sphere.degree.shape
    return rollout(model, states[:orders, :degrees] * model.sphere.inside[..., None])


def solver(truncation: int, rows: int | None = None) -> ShallowWater:
    """A model for jets, in float32."""
    sphere = SphericalHarmonics(truncation, rows=rows, dtype=torch.float32)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    step_s = min(default_step(truncation), 2400)
    return ShallowWater(sphere, jet(lat, lon, np.zeros(8)), step_s=step_s, diffusion_hours=DIFFUSION_HOURS)


def scores(found: np.ndarray, true: np.ndarray) -> dict[str, list[float]]:
    """VRMSE at each lead, of each field and of their mean: the error over the spread of the truth, by area.

    Source: Ohana et al. (2024), The Well, arXiv 2412.00568.
    """
    weights = np.polynomial.legendre.leggauss(true.shape[3])[1][:, None] / (2 * true.shape[4])
    told = {}
    for name, frame in LEADS.items():
        x, y = found[:, frame], true[:, frame]
        spread = ((y - (y * weights).sum((2, 3), keepdims=True)) ** 2 * weights).sum((2, 3))
        each = np.sqrt(((x - y) ** 2 * weights).sum((2, 3)) / spread).mean(0)
        told[name] = [float(f"{value:.3g}") for value in (*each, each.mean())]
    return told


if __name__ == "__main__":
    main()
