"""The benchmark of shallow water: convergence, and another solver's word where it is installed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from lab.shallow_water_rivals import their_solver, their_state
from steersman.apps.shallow_water import ShallowWater
from steersman.apps.shallow_water import cases as cases
from steersman.benchmarks import shallow_water_gpu
from steersman.benchmarks.shallow_water import errors, norms, on_grid, solver
from steersman.models.sphere.harmonics import SphericalHarmonics

DAY = 86400


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two on busy cores are up to twenty times slower than one."""
    torch.set_num_threads(1)


@pytest.mark.parametrize("case", ["mountain", "rossby_haurwitz", "galewsky"])
def test_errors_fall_with_the_truncation(case: str) -> None:
    """At day 1 against T42; the whole table is the benchmark's."""
    coarse, fine = errors(case, (1.0,), [21, 31], 42)
    for name in ("l1", "l2", "vorticity_l2"):
        assert fine[name] < 0.8 * coarse[name]


def test_the_table_of_a_gpu_has_a_row_for_each_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured on the CPU, where both ways are the same."""
    monkeypatch.setattr(shallow_water_gpu, "STEPS", 1)
    rows = shallow_water_gpu.table(partial(solver, "galewsky"), [10], [1, 3])
    assert [(row["truncation"], row["members"]) for row in rows] == [(10, 1), (10, 3)]
    assert all(row["ms_per_day"] > 0 and row["launched_ms_per_day"] > 0 for row in rows)


def test_torch_harmonics_agrees() -> None:
    """Another code, another scheme (Adams-Bashforth, 150 s), another state vector: its own jet at T42 after a day."""
    sphere = SphericalHarmonics(42)
    theirs = their_solver(sphere, 150.0)
    if theirs is None:
        pytest.skip("torch-harmonics 0.8.0 is not installed")
    theirs.hyperdiff = torch.ones_like(theirs.hyperdiff)
    case = cases.jet(*on_grid(sphere), np.zeros(8))
    model = ShallowWater(sphere, case, step_s=600)
    state = model.spectral(case)
    other = theirs.timestep(their_state(theirs, model, state), round(DAY / 150))
    for _ in range(round(DAY / 600)):
        state = model.step(state)
    truth = theirs.spec2grid(other)[0].numpy()
    found = model.fields(state)[0][0].numpy() * cases.GRAVITY
    assert norms(found, truth, sphere)["l2"] < 5e-5
