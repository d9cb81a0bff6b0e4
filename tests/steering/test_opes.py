"""A bias of scored frames: what it is a function of, that it fills wells, and that weights undo it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steersman.steering import Bias, Opes, Scores
from steersman.steering.opes import ENERGY, HOT, MOST_KERNELS
from steersman.system.errors import BadValue


def scored(z: np.ndarray, energy: np.ndarray | None = None, *, segment: int = 20, **others: Any) -> Scores:
    """Frames of one walker, in segments of equal length."""
    n = len(z)
    row = np.arange(n)
    values = {"z": z, ENERGY: np.zeros(n) if energy is None else energy}
    return Scores(np.zeros(n, int), row, row // segment, np.zeros(n), np.zeros(n), values, 1, **others)


def walk(dimensions: int, n: int = 400, seed: int = 0) -> np.ndarray:
    """A path that fluctuates around a centre, (n, d)."""
    rng = np.random.default_rng(seed)
    z = np.zeros((n, dimensions))
    for i in range(1, n):
        z[i] = 0.8 * z[i - 1] + 0.3 * rng.normal(size=dimensions)
    return z


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_its_gradient_is_that_of_its_energy(dimensions: int) -> None:
    bias = Opes("z", barrier_kT=10, periods=(0.0, 2.0, 0.0)[:dimensions]).made(scored(walk(dimensions)))
    z, step = walk(dimensions, 50, 1)[1:], 1e-5  # the first is at the cut
    for j, along in enumerate(np.eye(dimensions)):
        slope = (bias.energy(z + step * along) - bias.energy(z - step * along)) / (2 * step)
        np.testing.assert_allclose(bias.gradient(z)[:, j], slope, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("barrier", [14, 80, 150, 200])
def test_it_is_that_of_the_weights_however_high_the_barrier(barrier: float) -> None:
    """Where it is sampled evenly under the exact bias -F, it is -F again; weights there are e^-100 and less."""
    z = np.repeat(np.linspace(0, 10, 101), 50)
    bias = Opes("z", barrier_kT=barrier, width=0.2).made(scored(z[:, None], -0.075 * barrier * z))
    between = np.linspace(1, 9, 17)
    found = bias.energy(between[:, None])
    np.testing.assert_allclose(found - found[0], -0.075 * (barrier - 1) * (between - between[0]), atol=0.1)


def test_it_is_between_the_barrier_and_a_little_above_nothing_and_flat_far_away() -> None:
    bias = Opes("z", barrier_kT=10).made(scored(walk(2)))
    assert bias.table.min() == pytest.approx(-10, abs=1e-3)
    assert 0 < bias.table.max() < 3
    assert bias.energy(np.array([[90.0, -50.0]]))[0] == pytest.approx(-10, abs=1e-2)
    assert (bias.gradient(np.array([[90.0, -50.0]])) == 0).all()


def test_a_period_is_the_same_place() -> None:
    angle = np.random.default_rng(2).vonmises(3.0, 4.0, size=(300, 1))  # around the cut at pi
    bias = Opes("z", barrier_kT=8, periods=2 * np.pi).made(scored(angle))
    z = np.linspace(-3, 3, 41)
    for turns in (-1, 1):
        np.testing.assert_allclose(bias.energy(z + turns * 2 * np.pi), bias.energy(z), atol=1e-9)
    across = np.pi + np.linspace(-0.05, 0.05, 1001)
    assert np.abs(np.diff(bias.energy(across))).max() < 1e-2  # no step at the cut


def test_what_is_saved_is_the_same_bias_bit_for_bit_and_small() -> None:
    made = Opes("z", barrier_kT=12).made(scored(np.random.default_rng(1).normal(size=(30_000, 3)), segment=10))
    data = made.to_bytes()
    read = Bias.from_bytes(data)
    z = walk(3, 30)
    assert len(data) < 100_000
    assert len(made.heights) <= MOST_KERNELS
    assert (read.energy(z) == made.energy(z)).all()
    assert read.to_bytes() == data


@pytest.mark.parametrize(("exploring", "strength"), [(False, 1 - 1 / 14), (True, 14 - 1)])
def test_kernels_stand_for_the_density_of_all_frames(exploring: bool, strength: float) -> None:
    x = np.random.default_rng(3).normal(size=2000)
    bias = Opes("z", barrier_kT=14, width=0.2, exploring=exploring).made(scored(x))
    at = np.linspace(-1.5, 1.5, 31)
    every = np.exp(-0.5 * ((at[:, None] - x) / 0.2) ** 2).mean(axis=1)
    made = np.exp(bias.energy(at) / strength) - np.exp(-14 / strength)
    assert np.ptp(np.log(every / made)) < 0.02  # the density but for its norm


@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("width", [0.2, None])
def test_one_frame_far_out_takes_the_push_from_no_other_and_is_pushed_no_harder(
    dimensions: int, width: float | None
) -> None:
    """However far it lies, and whenever it came: also where steps are short, and segments too."""
    opes, slow = Opes("z", barrier_kT=10, width=width), np.random.default_rng(0).normal(size=(60, dimensions)) * 0.1
    for z, segment in ((walk(dimensions), 20), (walk(dimensions), 401), (slow.cumsum(axis=0), 5)):
        plain = np.abs(opes.made(scored(z, segment=segment)).gradient(z)).max()
        for far, at in ((4, 30), (6, 30), (6, 7), (-30, len(z)), (-1e20, 30)):
            beside = np.insert(z, at, far * z.std(axis=0), axis=0)
            bias = opes.made(scored(beside, segment=segment))
            assert np.abs(bias.gradient(z)).max() > plain / 4, (far, len(z), segment)
            assert (
                np.abs(bias.energy(np.concatenate([beside, 10 * z, 9 - z]))).max() < 10.2
            )  # its table overshoots a little


def test_a_constant_in_the_weights_changes_nothing() -> None:
    z = walk(1)
    energy = np.random.default_rng(4).normal(size=len(z))
    now = np.ones(len(z), int)
    one, other = (Opes("z", barrier_kT=10).made(scored(z, energy + shift, biased_by=now)) for shift in (0.0, 500.0))
    np.testing.assert_allclose(one.energy(z), other.energy(z), atol=1e-5)


def test_it_depends_on_which_frames_there_are_and_not_on_their_order() -> None:
    scores = scored(walk(2))
    order = np.random.default_rng(5).permutation(len(scores))
    shuffled = replace(
        scores, walker=scores.walker[order], row=scores.row[order], segment=scores.segment[order],
        values={name: value[order] for name, value in scores.values.items()},
    )  # fmt: skip
    one, other = (Opes("z", barrier_kT=10).made(each) for each in (scores, shuffled))
    np.testing.assert_allclose(one.energy(walk(2, 50, 6)), other.energy(walk(2, 50, 6)), atol=1e-4)


def test_a_version_is_due_when_a_fiftieth_is_new_or_the_model_is() -> None:
    opes, scores = Opes("z", barrier_kT=10), scored(walk(1))
    assert opes.due(scores, 0, 400)
    assert not opes.due(scores, 1, 395)
    assert opes.due(scores, 1, 392)
    assert not opes.due(replace(scores, values={"z": scores.values["z"]}), 0, 0)


@pytest.mark.parametrize(
    ("name", "given"),
    [("barrier_kT", {"barrier_kT": 0}), ("barrier_kT", {"barrier_kT": 1000}), ("width", {"width": 0.0})],
)
def test_a_bias_that_would_help_nothing_is_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(BadValue) as refused:
        Opes("z", **{"barrier_kT": 10, **given})
    assert refused.value.name == f"Opes({name})"


@pytest.mark.parametrize("z", [np.zeros((100, 4)), np.full((100, 1), np.nan), np.zeros((100, 1)), np.zeros((100, 0))])
def test_scores_that_cannot_be_biased_are_refused(z: np.ndarray) -> None:
    with pytest.raises(BadValue):
        Opes("z", barrier_kT=10).made(scored(z))


def test_hot_frames_change_no_bias_and_no_version_comes_sooner_or_later_by_them() -> None:
    """So the weights of a run with a hot phase are those of one without."""
    opes, rng, cold = Opes("z", barrier_kT=12), np.random.default_rng(7), np.linspace(0, 7, 400)
    hot = rng.normal(scale=3.0, size=300)
    z, of = np.concatenate([hot, np.sin(cold)]), np.repeat([True, False], [300, 400])
    by, energy = np.repeat([0, 1], [450, 250]), np.concatenate([np.zeros(450), rng.normal(size=250)])
    both = scored(z, energy, biased_by=by)
    both = replace(both, values={**both.values, HOT: of})
    alone = scored(np.sin(cold), energy[300:], biased_by=by[300:])
    assert opes.made(both).to_bytes() == opes.made(alone).to_bytes()
    for frames in range(20, 400, 7):
        some, few = both.only(np.arange(300 + frames)), alone.only(np.arange(frames))
        for known in (10, frames - 9, frames - 1):
            assert opes.due(some, 1, 300 + known) == opes.due(few, 1, known)
    assert not opes.due(both.only(np.arange(319)), -1, 0)
    with pytest.raises(BadValue):
        opes.made(both.only(np.arange(300)))
