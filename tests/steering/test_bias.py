"""A bias: a softer copy, and what its versions depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steersman.checks.plan import check_plan
from steersman.checks.trying import tried
from steersman.engine.campaign import plan
from steersman.stages import loading
from steersman.steering import Bias, Opes, Scores
from steersman.steering.opes import _fluctuation
from steersman.system.errors import BadValue


def scores(dimensions: int = 2, segments: int = 6, frames: int = 50) -> Scores:
    """Walks of two walkers, which take turns."""
    rng = np.random.default_rng(1)
    number = np.repeat(np.arange(segments), frames)
    walker, row = number % 2, np.tile(np.arange(frames), segments) + frames * (number // 2)
    z = rng.normal(size=(segments, frames, dimensions)).cumsum(axis=1).reshape(-1, dimensions)
    values = {"z": z, "bias": rng.normal(size=len(z))}
    return Scores(walker, row, number // 2, np.zeros_like(row), row % frames == frames - 1, values)


def test_a_softer_copy_has_that_share_of_the_energy_and_its_file_is_the_whole_version() -> None:
    bias = Opes("z", barrier_kT=12).made(scores())
    half, z = bias.softer(0.5), np.random.default_rng(2).normal(size=(20, 2))
    np.testing.assert_allclose(half.energy(z), bias.energy(z) / 2, rtol=1e-12)
    np.testing.assert_allclose(half.gradient(z), bias.gradient(z) / 2, rtol=1e-12)
    assert Bias.from_bytes(half.to_bytes()).energy(z).tolist() == bias.energy(z).tolist()


@pytest.mark.parametrize("exploring", [True, False])
def test_its_table_is_the_formula_of_opes(exploring: bool) -> None:
    """Of many kernels, along an angle and a length; the norm is the mean density at their centres."""
    rng, period = np.random.default_rng(3), np.array([2 * np.pi, 0.0])
    centres, widths, heights = rng.uniform(0, 6, (200, 2)), rng.uniform(0.2, 0.6, (200, 2)), rng.uniform(0.1, 1, 200)
    single = centres.astype(np.float32), widths.astype(np.float32), heights.astype(np.float32)
    bias = Bias(1, 9.0, exploring, *single, period)

    def density(at: np.ndarray) -> np.ndarray:
        apart = at[:, None] - bias.centres.astype(float)
        apart[..., 0] -= period[0] * np.round(apart[..., 0] / period[0])
        width = bias.widths.astype(float)
        return np.asarray(np.exp(-0.5 * ((apart / width) ** 2).sum(-1)) @ (bias.heights / width.prod(1)))

    nodes = np.stack(np.meshgrid(*bias.axes, indexing="ij"), -1).reshape(-1, 2)
    strength = 8.0 if exploring else 1 - 1 / 9.0
    relative = density(nodes) / density(bias.centres.astype(float)).mean()
    np.testing.assert_allclose(bias.table.ravel(), strength * np.log(relative + np.exp(-9.0 / strength)), rtol=1e-5)


def test_what_a_coordinate_fluctuates_does_not_depend_on_the_numbers_of_walkers() -> None:
    """To the last bit: in rounds a walker that was lost has another number afterwards."""
    found = scores()
    z, none = found.matrix("z"), np.zeros(2)
    for walker in (5 - found.walker, found.walker + 7):
        for one, other in zip(
            _fluctuation(found, z, none), _fluctuation(replace(found, walker=walker), z, none), strict=True
        ):
            assert one.tolist() == other.tolist()


def test_what_a_coordinate_fluctuates_is_seen_within_segments_alone() -> None:
    """Wherever each of them begins: the median of their deviations, and all their steps."""
    found = scores(segments=5, frames=7)
    z = found.matrix("z") + 50.0 * (found.segment + 7 * found.walker)[:, None]
    each = z.reshape(5, 7, 2)
    spread, steps = _fluctuation(found, z, np.zeros(2))
    np.testing.assert_allclose(spread, np.median(each.std(axis=1), axis=0))
    steps_of = sorted(map(tuple, np.diff(each, axis=1).reshape(-1, 2)))
    np.testing.assert_allclose(sorted(map(tuple, steps)), steps_of)


def test_frames_of_before_the_model_count_as_so_many_at_most() -> None:
    """By Kish's effective size of 200 frames that count 40 together, and of 100 that count 1 each."""
    of = Opes("z", barrier_kT=9, most=40)
    found = replace(scores(), model=2, values=dict(scores().values) | {"bias": np.zeros(300)})
    by = np.repeat([0, 1, 2], 100)
    for biased_by, weight in ((by, 40 / 200 * (by < 2) + (by == 2)), (np.full(300, 2), np.ones(300))):
        effective = of.made(replace(found, biased_by=biased_by)).effective
        assert effective == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_a_density_is_that_of_one_frame_in_all() -> None:
    bias = Opes("z", barrier_kT=8, width=(0.3, 1.5)).made(scores())
    for dimension in range(2):
        at = np.linspace(-60, 60, 20_001)
        assert np.trapezoid(bias.density(at, dimension), at) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("barrier_kT", [0, 1, 1000])
def test_a_barrier_that_cannot_be_crossed_or_needs_no_bias_is_refused(barrier_kT: float) -> None:
    with pytest.raises(BadValue):
        Opes("z", barrier_kT=barrier_kT)


@pytest.mark.parametrize("exact", [False, True])
def test_a_frame_is_drawn_by_its_weight_under_the_version_that_pushes_now(exact: bool) -> None:
    """Probability: exp(energy that it was simulated under - energy of the version), of 300 frames; of ends that were
    continued alone, where a segment needs their state. An end that waits to be continued is never drawn."""
    found, bias = scores(), Opes("z", barrier_kT=6)
    ends = np.flatnonzero(found.ends)
    found.starts[ends[:4]] = 1
    may = np.isin(np.arange(300), ends[:4]) if exact else ~np.isin(np.arange(300), ends[4:])
    now, rng = bias.made(found), np.random.default_rng(3)
    chance = np.where(may, np.exp(found.values["bias"] - now.energy(found.values["z"])), 0.0)
    chance /= chance.sum()
    drawn = np.bincount(
        [bias.drawn(replace(found, exact=exact), now, rng) or 0 for _ in range(2000)], minlength=len(chance)
    )
    assert not drawn[~may].any()
    for part in np.array_split(np.flatnonzero(may)[np.argsort(chance[may])], 4 if exact else 10):  # of like chances
        expected = 2000 * chance[part].sum()
        assert abs(drawn[part].sum() - expected) < 5 * np.sqrt(expected)
    found.starts[:] = 0
    assert bias.drawn(replace(found, exact=True), now, rng) is None


def test_a_log_weight_is_relative_to_the_mean_weight_of_all() -> None:
    found, bias = scores(), Opes("z", barrier_kT=6)
    rows, energy = np.arange(40, 60), found.values["bias"]
    assert bias.log_weight(found, rows) == pytest.approx(energy[rows].mean() - np.log(np.exp(energy).mean()))
    shifted = replace(found, values=dict(found.values) | {"bias": energy + 700})
    assert bias.log_weight(shifted, rows) == pytest.approx(bias.log_weight(found, rows))


@pytest.mark.parametrize("lost", [0.0, 3.0])
def test_a_weight_that_is_no_loss_is_refused(lost: float) -> None:
    with pytest.raises(BadValue):
        Opes("z", barrier_kT=6, lost=lost)


@pytest.mark.parametrize("pushed", [True, False])
def test_a_simulation_that_stores_the_energy_and_leaves_out_the_force_is_found(pushed: bool, tmp_path: Path) -> None:
    """The weights would be those of a bias that nobody felt, and nothing in the run would show it."""
    text = (Path(__file__).parents[1] / "faults" / "biased.py").read_text()
    source = tmp_path / "mine.py"
    source.write_text(text if pushed else text.replace(" - [float(push), 0.0]", ""))
    workflow = loading.load(source)
    steps = list(tried(workflow, workflow.params(), source))
    assert [step.what for step in steps if not step.ok] == ([] if pushed else ["simulate from there, pushed"])


def test_check_says_along_what_a_bias_pushes_and_how_far(tmp_path: Path) -> None:
    source = Path(__file__).parents[1] / "faults" / "biased.py"
    found = {each.what: each.found for each in check_plan(plan(str(source)), tmp_path)}
    assert "to 10 kT" in found["steering"]
