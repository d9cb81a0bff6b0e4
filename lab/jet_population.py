"""2,560 jets -> how strong their storms become: the stored population on which estimates of rare events are replayed.

    python -m lab.jet_population

Each run is T31 for six days, its 8 parameters drawn from a normal distribution; 7 CPU minutes for all. Row i of
jet_population.npy is (8 parameters, largest meridional wind of day 6 in m/s), float32.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from steersman.apps.shallow_water import ShallowWater
from steersman.apps.shallow_water.cases import DAY, jet
from steersman.models.sphere.harmonics import SphericalHarmonics

FILE = Path(__file__).with_name("jet_population.npy")
TRUNCATION, STEP_S, DAYS, DIFFUSION_HOURS, MEMBERS, SEED = 31, 1200.0, 6, 4.0, 32, 20260


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate them all and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=2560)
    parser.add_argument("--output", type=Path, default=FILE)
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    rows = []
    for done in range(0, given.runs, MEMBERS):
        parameters = rng.standard_normal((min(MEMBERS, given.runs - done), 8))
        rows.append(np.column_stack([parameters, storms(parameters)]))
        print(f"\r{done + len(parameters)}/{given.runs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    np.save(given.output, np.concatenate(rows).astype(np.float32))


def storms(parameters: np.ndarray) -> np.ndarray:
    """Run jets side by side. Args: (n, 8). Returns: (n,) float64, the largest |v| of day 6 in m/s."""
    sphere = SphericalHarmonics(TRUNCATION, dtype=torch.float32)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    model = ShallowWater(sphere, jet(lat, lon, np.zeros(8)), step_s=STEP_S, diffusion_hours=DIFFUSION_HOURS)
    state = torch.stack([model.spectral(jet(lat, lon, each)) for each in parameters], dim=-1).flatten(2)
    for _ in range(round(DAYS * DAY / STEP_S)):
        state = model.step(state)
    wind: np.ndarray = model.fields(state)[2].abs().amax((1, 2)).double().numpy()
    return wind


if __name__ == "__main__":
    main()
