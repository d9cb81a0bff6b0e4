"""The life of a state by a simulation that is pushed, beside the transfer matrix of one that is not."""

import numpy as np
import pytest

from lab.weighted_ensemble import DOUBLE_STEP, THERE, double_well_passage
from steersman.apps import double_well
from steersman.steering import Bias, life
from steersman.steering.errors import NoAnswerYet

BARRIER_KT, PUSH_KT = 10.0, 3.0


def pushed_wells(push_kT: float, particles: int, steps: int) -> tuple[float, int]:
    """The time, by exp(V - V on the barrier), that particles spend in either well until they come to the other, and how
    often they do."""
    rng, grid = np.random.default_rng(0), np.linspace(-1.4, 1.4, 57)
    of_wells = np.exp(-BARRIER_KT * (grid**2 - 1) ** 2)
    bias = Bias(0, push_kT, False, grid[:, None], np.full((57, 1), 0.06), of_wells / of_wells.sum(), np.zeros(1))
    at = np.array([-2.0, *np.linspace(-1.5, 1.5, 1201), 2.0])
    energy, slope = bias.energy(at), bias.gradient(at)
    level, x, y = bias.energy(np.zeros(1)).item(), np.full(particles, -1.0), np.zeros(particles)
    well, time, left = np.full(particles, -1.0), 0.0, 0
    for _ in range(steps):
        force = double_well.force(np.stack([x, y], axis=1), BARRIER_KT)[:, 0] - np.interp(x, at, slope)
        x = x + DOUBLE_STEP * force + np.sqrt(2 * DOUBLE_STEP) * rng.normal(size=particles)
        time += DOUBLE_STEP * float(np.exp(np.interp(x, at, energy) - level).sum())
        there = np.where(np.abs(x) > THERE, np.sign(x), well)
        left += int((there != well).sum())
        well = there
    return time, left


def test_the_life_of_a_state_that_is_pushed_is_that_of_one_that_is_not() -> None:
    """10 kT, pushed by 3: some 130 passages in the time of three."""
    time, left = pushed_wells(PUSH_KT, particles=400, steps=20_000)
    found, exact = life(time, left), double_well_passage(BARRIER_KT)
    assert left > 50
    assert found.low < exact < found.high
    assert found.value == pytest.approx(exact, rel=0.3)


def test_intervals_hold_nineteen_times_in_twenty() -> None:
    rng = np.random.default_rng(1)
    held = [each.low < 2.0 < each.high for each in (life(2.0 * 7, int(n)) for n in rng.poisson(7, 2000))]
    assert 0.94 < np.mean(held) < 0.99


def test_a_state_that_was_never_left_has_a_shortest_life_alone() -> None:
    assert life(3.0, 0)[0] == life(3.0, 0).high == np.inf
    assert 0.5 < life(3.0, 0).low < 1.0
    with pytest.raises(NoAnswerYet):
        life(0.0, 0)
