"""A coarse solver whose steps a network corrects: what goes through it, what it keeps, and that it learns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from steersman.apps import shallow_water as sw
from steersman.apps.shallow_water.plain_scheme import PlainScheme
from steersman.apps.shallow_water.scheme import Scheme
from steersman.apps.shallow_water.solver import solver_of
from steersman.models import Corrector, SphericalUNet
from steersman.stages.start import Start
from steersman.system.errors import BadValue

HOURS = 6.0


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def runs() -> np.ndarray:
    """Twelve jets at T31 from day 4, when they begin to roll up: (12, 9, 3, 48, 96)."""
    members = sw.run_members([Start()] * 12, seeds=range(12), days=6, truncation=31, rows=48)
    frames = [[np.stack([f.height, f.u, f.v]) for f in each if isinstance(f, sw.Frame)] for each in members]
    return np.stack(frames[15:], 1)


@pytest.fixture(scope="module")
def corrector(runs: np.ndarray) -> Corrector:
    solver = sw.Coarse(15, hours=HOURS)
    seen = solver.seen(runs[:-1])
    told: dict[str, Any] = {"step": solver, "kept": (0,), "width": 8}
    first = Corrector.fit(seen, epochs=30, batch=8, lr=3e-3, **told)
    fitted: Corrector = Corrector.fit(seen, epochs=2, batch=8, unrolled=2, init=first, **told)
    assert fitted.history[-1]["loss"] < 0.7
    return fitted


@pytest.mark.parametrize("case", ["jet", "mountain", "galewsky"])
@pytest.mark.parametrize("tracer", [False, True])
def test_the_plain_scheme_is_the_scheme(case: str, tracer: bool) -> None:
    """In double precision to rounding, with mountains and with a tracer, of two members side by side."""
    models = [
        solver_of(case, 21, HOURS, tracer=tracer, dtype=torch.float64, scheme=scheme)
        for scheme in (Scheme, PlainScheme)
    ]
    (fast, beginning), (plain, _) = models
    assert isinstance(fast, sw.ShallowWater)
    assert isinstance(plain, sw.ShallowWater)
    begun = fast.spectral(beginning)
    state = torch.stack([begun, begun + fast.bump(np.random.default_rng(1), 50.0)], 3).flatten(2)
    one = other = state
    for _ in range(4):
        one, other = fast.step(one), plain.step(other)
    assert (one - other).abs().max() < 1e-12 * one.abs().max()
    assert (one - state).abs().max() > 1e-3 * one.abs().max()


def test_gradients_go_through_the_solver(runs: np.ndarray) -> None:
    """Beside a difference quotient, in double precision."""
    solver = sw.Coarse(15, hours=HOURS)
    solver_64, _ = solver_of("jet", 15, HOURS, rows=24, dtype=torch.float64, scheme=PlainScheme)
    assert isinstance(solver_64, sw.ShallowWater)
    fields = torch.from_numpy(solver.seen(runs[:1, :1])[0]).double()
    rng = np.random.default_rng(0)
    push, weight = (torch.from_numpy(rng.standard_normal(fields.shape)) for _ in range(2))

    def later(size: torch.Tensor) -> torch.Tensor:
        return (solver_64.together(solver_64.step(solver_64.of_together(fields + size * push))) * weight).sum()

    size = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(later(size), size)
    quotient = (later(torch.tensor(1e-3)) - later(torch.tensor(-1e-3))) / 2e-3
    assert float(slope) == pytest.approx(float(quotient), rel=1e-6)


def test_a_corrected_step_is_nearer_to_the_finer_solver(runs: np.ndarray, corrector: Corrector) -> None:
    """Of a jet that it was not trained on, over a day."""
    solver = sw.Coarse(15, hours=HOURS)
    true = torch.from_numpy(solver.seen(runs[-1:]))[0]
    with torch.no_grad():
        plain = hybrid = true[:1]
        for _ in range(4):
            plain, hybrid = solver(plain), corrector(solver(hybrid))
    wrong, left = ((each - true[4]).square().mean((0, 2, 3)) for each in (plain, hybrid))
    assert (left < 0.5 * wrong).all()


def test_a_run_takes_the_step_that_the_network_was_trained_with(corrector: Corrector) -> None:
    """What the solver cannot hold of a correction is cut off; and a frame is gone on from bit for bit."""
    settings: dict[str, Any] = {"seed": 1, "truncation": 15, "corrector": corrector}
    frames = list(sw.run(Start(), days=6, **settings))
    shown = [torch.from_numpy(np.stack([each.height, each.u, each.v]))[None] for each in frames[-2:]]
    solver = sw.Coarse(15, hours=HOURS)
    with torch.no_grad():
        later = corrector(solver(shown[0]))
    expected = solver.seen(later[None].numpy())[0]
    np.testing.assert_allclose(shown[1].numpy(), expected, rtol=1e-4, atol=5e-3)
    again = list(sw.run(Start(frame={"state": frames[-3].state}), days=0.5, **settings))
    np.testing.assert_array_equal(again[-1].state, frames[-1].state)


def test_the_mass_stays_to_the_last_bit_for_a_month(corrector: Corrector) -> None:
    frames = list(sw.run(Start(), seed=1, days=30, truncation=15, corrector=corrector))
    mass = {frame.state[0, 0, 2, 0].item() for frame in frames}
    assert len(mass) == 1
    assert np.abs(frames[-1].v).max() < 100


def test_a_corrector_of_another_solver_is_refused(corrector: Corrector) -> None:
    others: tuple[dict[str, Any], ...] = (
        {"truncation": 21},
        {"report_hours": 12.0},
        {"diffusion_hours": 4.0},
        {"case": "galewsky"},
    )
    for other in others:
        settings: dict[str, Any] = {"truncation": 15, "corrector": corrector} | other
        with pytest.raises(BadValue):
            next(sw.run(Start(), seed=1, days=1, **settings))
    with pytest.raises(BadValue):
        next(sw.run(Start(), seed=1, days=1, truncation=15, corrector=SphericalUNet(3, 24, width=8)))


@pytest.mark.parametrize("case", ["stirred", "cosine_bell"])
def test_what_drives_a_flow_is_not_learned_and_then_done_twice(case: str) -> None:
    with pytest.raises(BadValue):
        sw.Coarse(15, case=case)
