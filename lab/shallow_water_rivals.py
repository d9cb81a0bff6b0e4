"""Other people's solvers and transforms on the same grid, and ours, in turns: one JSON object.

    python -m lab.shallow_water_rivals

CPU seconds in float64, one thread; torch-harmonics, Dinosaur and SHTns where they are installed, elsewhere null.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from statistics import median
from typing import Any

import torch

from steersman.apps.shallow_water import ShallowWater
from steersman.apps.shallow_water.cases import DAY
from steersman.benchmarks.shallow_water import OUR_STEP_S, in_turns, solver
from steersman.benchmarks.three_figures import rounded
from steersman.models.sphere.harmonics import SphericalHarmonics

THEIR_STEP_S = 12_750.0  # times truncation: 150 s at T85, stable for a jet
DINOSAUR = (
    "coordinate_systems", "spherical_harmonic", "layer_coordinates", "shallow_water", "shallow_water_states", "scales",
    "time_integration", "units",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--truncation", type=int, default=85)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    print(json.dumps(ratios(given.truncation, given.turns)))


def ratios(truncation: int, turns: int) -> dict[str, float | None]:
    """Theirs over ours for a simulated day and for a step as long, and our evaluation over its transforms by SHTns."""
    model, state = solver("galewsky", truncation, step_s=OUR_STEP_S / truncation)
    tried: dict[str, Callable[[], object] | None] = {
        "ours": lambda: model.step(state),
        "theirs": torch_harmonics(model, state),
        "dinosaur": dinosaur(model.sphere, model.step_s),
        "shtns": shtns_transforms(model.sphere),
    }
    twice = in_turns({name: function for name, function in tried.items() if function}, turns)
    first, warm = ({name: taken[:, again] for name, taken in twice.items()} for again in (0, 1))
    their_steps = DAY * truncation / THEIR_STEP_S / (DAY / model.step_s)
    return {
        "ratio_to_torch_harmonics":
            rounded(median(first["theirs"] / first["ours"]) * their_steps) if "theirs" in first else None,
        "ratio_to_dinosaur": rounded(median(warm["dinosaur"] / warm["ours"])) if "dinosaur" in warm else None,
        "evaluation_over_shtns_transforms":
            rounded(median(warm["ours"] / 4 / warm["shtns"])) if "shtns" in warm else None,
    }  # fmt: skip


def torch_harmonics(model: ShallowWater, state: torch.Tensor) -> Callable[[], object] | None:
    """One step of the ShallowWaterSolver of torch-harmonics 0.8.0 in float64; None where it is not installed."""
    theirs = their_solver(model.sphere, THEIR_STEP_S / model.sphere.truncation)
    if theirs is None:
        return None
    begun = their_state(theirs, model, state)
    return lambda: theirs.timestep(begun, 1)


def their_solver(sphere: SphericalHarmonics, step_s: float) -> Any:
    """The solver of torch-harmonics on the same grid and truncation, or None."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # it builds its tables in the default
    try:
        with warnings.catch_warnings():  # its sources hold escape sequences that Python warns of
            warnings.simplefilter("ignore")
            made = import_module("torch_harmonics.examples").ShallowWaterSolver
            size = {"lmax": sphere.truncation + 1, "mmax": sphere.truncation + 1, "grid": "legendre-gauss"}
            return made(sphere.rows, sphere.columns, step_s, **size).double()
    except ImportError:
        return None
    finally:
        torch.set_default_dtype(before)


def their_state(theirs: Any, model: ShallowWater, state: torch.Tensor) -> torch.Tensor:
    """Our state as theirs: geopotential, vorticity, divergence."""
    geopotential_first = state[:, :, [2, 0, 1]]
    converted: torch.Tensor = theirs.grid2spec(model.sphere.synthesis(geopotential_first))
    return converted


def dinosaur(sphere: SphericalHarmonics, step_s: float) -> Callable[[], object] | None:
    """One step of Dinosaur 1.5.1 (JAX) in float64, of the same jet on the same grid; None where it is not installed.

    Its scheme is SIL3 (implicit-explicit Runge-Kutta, three evaluations), also one-step, and stands as long steps.
    """
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    try:
        jax, parts = import_module("jax"), [import_module(f"dinosaur.{name}") for name in DINOSAUR]
    except ImportError:
        return None
    coordinates, harmonics, layers, equations, jets, scales, schemes, units = parts
    jax.config.update("jax_enable_x64", True)
    grid = harmonics.Grid.construct(max_wavenumber=sphere.truncation, gaussian_nodes=sphere.rows // 2)
    where, physics = coordinates.CoordinateSystem(grid, layers.LayerCoordinates(1)), units.SimUnits.from_si()
    draw, features = jets.barotropic_instability_tc(where, physics)
    flow = equations.ShallowWaterEquations(where, physics, None, features["reference_potential"])
    step = jax.jit(schemes.imex_rk_sil3(flow, physics.nondimensionalize(step_s * scales.units.s)))
    begun = draw(jax.random.PRNGKey(0))
    return lambda: jax.block_until_ready(step(begun))


def shtns_transforms(sphere: SphericalHarmonics) -> Callable[[], object] | None:
    """The transforms of one evaluation by SHTns in float64; None where it is not installed.

    Vorticity, geopotential and a wind of vorticity and divergence to the grid, two vectors and the energy back.
    """
    try:
        with printing_to_stderr():
            shtns = import_module("shtns")
    except ImportError:
        return None
    made = shtns.sht(sphere.truncation, sphere.truncation)
    made.set_grid(sphere.rows, sphere.columns, flags=shtns.sht_gauss | shtns.SHT_PHI_CONTIGUOUS)
    spectral = made.spec_array()
    spectral[:] = 1

    def evaluation() -> None:
        field, _, (u, v) = made.synth(spectral), made.synth(spectral), made.synth(spectral, spectral)
        made.analys(u, v), made.analys(u, v), made.analys(field)

    return evaluation


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """For a library that prints its version, in C, where our one JSON object goes."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


if __name__ == "__main__":
    main()
