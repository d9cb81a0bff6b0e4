"""What will come of a state: against processes whose future is known exactly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from steersman.models import Model, Outlook
from steersman.models.networks.outcomes import FOLDS, folds_of
from steersman.steering import reliability
from steersman.store.lineages import Fate
from steersman.system.errors import BadValue

MEMORY, PULL, LAST = np.array([1.0, 2.0, 4.0]), np.array([1.0, -1.0, 2.0]), 4
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def members(count: int, of: Callable[[np.ndarray], np.ndarray], seed: int = 0) -> Rows:
    """Three Ornstein-Uhlenbeck processes: rows (n, 3), what came of each, the time left, and whose it is."""
    rng, keep = np.random.default_rng(seed), np.exp(-1 / MEMORY)
    path = [rng.normal(size=(count, 3))]
    for _ in range(LAST):
        path.append(keep * path[-1] + np.sqrt(1 - keep**2) * rng.normal(size=(count, 3)))
    rows, whose = np.concatenate(path[:-1]), np.tile(np.arange(count), LAST)
    return rows, np.tile(of(path[-1]), LAST), np.repeat(np.arange(LAST, 0, -1), count), whose


def linear(x: np.ndarray) -> np.ndarray:
    return np.asarray(x @ PULL)


def bent(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(x[:, 2]))


def exact(rows: np.ndarray, lead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of `linear`."""
    keep = np.exp(-lead[:, None] / MEMORY)
    return (rows * keep) @ PULL, np.sqrt(((1 - keep**2) * PULL**2).sum(1))


def fitted(count: int, of: Callable[[np.ndarray], np.ndarray], seed: int = 0, **settings: object) -> Outlook:
    rows, outcome, lead, whose = members(count, of, seed)
    return Outlook.fit(rows, outcome, lead=lead, groups=whose, **settings)  # type: ignore[arg-type]


@pytest.mark.slow
def test_of_a_linear_process_mean_and_spread_are_the_exact_ones_at_each_time_left() -> None:
    model = fitted(2000, linear)
    rows, _, lead, _ = members(5000, linear, seed=1)
    mean, spread = model.forecast(rows, lead)
    true, width = exact(rows, lead)
    for left in range(1, LAST + 1):
        at = lead == left
        assert np.sqrt((((mean - true) / width)[at] ** 2).mean()) < 0.1
        assert (spread / width)[at].mean() == pytest.approx(1, abs=0.06)
        assert np.abs((spread / width)[at] - 1).mean() < 0.1
    between = model.forecast(rows[:9], 2.5)[1]
    assert (between > model.forecast(rows[:9], 2)[1]).all()
    assert (between < model.forecast(rows[:9], 3)[1]).all()


@pytest.mark.slow
@pytest.mark.parametrize("of", [linear, bent])
def test_an_event_that_is_forecast_with_one_per_cent_happens_in_half_to_two_per_cent(
    of: Callable[[np.ndarray], np.ndarray],
) -> None:
    model = fitted(4000, of)
    rows, outcome, lead, _ = members(40_000, of, seed=1)
    mean, spread = model.forecast(rows, lead)
    threshold = np.quantile(outcome, 0.99)
    (found,) = reliability(ndtr((mean - threshold) / spread), outcome > threshold, edges=(0, 0.005, 0.02, 1))[1:2]
    assert found.number > 5000
    assert 0.5 < found.frequency / found.forecast < 2


@pytest.mark.slow
def test_depth_is_used_where_it_pays_and_only_there() -> None:
    curved, straight = fitted(1500, bent), fitted(1500, linear)
    assert curved.card["taken"] == "network"
    likely = curved.card["log_likelihood"]
    assert likely["network"] > likely["ridge"] + 0.02
    assert curved.card["R2"]["1"]["network"] > curved.card["R2"]["1"]["ridge"] + 0.1
    rows, outcome, lead, _ = members(5000, linear, seed=1)
    wrong = np.square(straight.forecast(rows, lead)[0] - outcome).mean()
    assert wrong < 1.01 * np.square(exact(rows, lead)[0] - outcome).mean()


def test_rows_of_one_first_member_never_stand_on_both_sides() -> None:
    groups = np.random.default_rng(0).geometric(0.02, 3000) - 1
    parts = folds_of(groups, seed=3)
    assert all(len(set(parts[groups == group])) == 1 for group in np.unique(groups))
    sizes = np.bincount(parts)
    assert len(sizes) == FOLDS
    assert sizes.max() < 1.3 * sizes.min()


def test_a_model_that_learned_members_by_heart_is_seen_through_when_whole_members_are_held_out() -> None:
    """Numbers that say who a member is, and nothing of what comes of it."""
    rng = np.random.default_rng(0)
    who, outcome = rng.normal(size=(60, 40)), rng.normal(size=60)
    whose = np.repeat(np.arange(60), 20)
    rows, came = who[whose] + 0.01 * rng.normal(size=(1200, 40)), outcome[whose]
    honest, fooled = (Outlook.fit(rows, came, lead=np.ones(1200), groups=groups, epochs=1) for groups in (whose, None))
    assert fooled.card["R2"]["1"]["ridge"] > 0.5
    assert honest.card["R2"]["1"]["ridge"] < 0.1
    others = rng.normal(size=(500, 40))
    assert honest.forecast(others, 1)[1].mean() > 0.8 * outcome.std()


@pytest.mark.slow
def test_it_is_saved_goes_on_from_another_and_leaves_that_as_it_is(tmp_path: Path) -> None:
    rows, outcome, lead, whose = members(500, bent)
    first = Outlook.fit(rows, outcome, lead=lead, groups=whose)
    before = first.forecast(rows, lead)
    first.save(tmp_path)
    for again in (Model.load(tmp_path), Outlook.load(tmp_path)):
        assert np.array_equal(again.forecast(rows, lead), before)  # type: ignore[operator]
    later = Outlook.fit(rows, outcome, lead=lead, groups=whose, init=first)
    assert later.card["warm_start"]
    assert len(later.history) < len(first.history) / 2
    assert np.array_equal(first.forecast(rows, lead), before)
    assert not Outlook.fit(rows[:, :2], outcome, lead=lead, groups=whose, init=first, epochs=1).card["warm_start"]
    assert np.array_equal(Outlook.fit(rows, outcome, lead=lead, groups=whose).forecast(rows, lead), before)


def test_weights_count_as_copies() -> None:
    rows, outcome, lead, whose = members(400, linear)
    weights = np.random.default_rng(0).integers(0, 3, 400)[whose]
    heavy = Outlook.fit(rows, outcome, lead=lead, groups=whose, weights=weights, epochs=1, lr=0.0)
    copies = np.repeat(np.arange(len(rows)), weights)
    many = Outlook.fit(rows[copies], outcome[copies], lead=lead[copies], groups=whose[copies], epochs=1, lr=0.0)
    one, other = (model.forecast(rows, lead)[0] for model in (heavy, many))
    assert np.abs(one - other).mean() < 0.05 * outcome.std()
    assert np.corrcoef(one, other)[0, 1] > 0.999


def test_of_ranks_a_gap_is_no_wider_than_it_is_rare() -> None:
    """Outcomes of two wells, and others that ascend with them, are forecast alike; a place is what lies below it."""
    rows, outcome, lead, whose = members(400, linear)
    weights = np.random.default_rng(0).integers(0, 3, 400)[whose]
    settings = {"lead": lead, "groups": whose, "weights": weights, "epochs": 1, "ranks": True}
    wells = np.where(outcome > 4, 1000 + outcome, np.exp(outcome))
    one, other = (Outlook.fit(rows, each, **settings) for each in (outcome, wells))  # type: ignore[arg-type]
    assert np.abs(np.subtract(one.forecast(rows, lead), other.forecast(rows, lead))).max() < 1e-3
    copies = np.repeat(outcome, weights)
    shares = np.array([0.02, 0.5, 0.9, 0.99])
    assert one.ranked(np.quantile(copies, shares)) == pytest.approx(ndtri(shares), abs=0.05)
    assert other.ranked(np.array([500.0])) == pytest.approx(ndtri(np.mean(copies < 4)), abs=0.05)
    assert (np.diff(one.ranked(copies.max() + np.arange(3))) > 0.1).all()
    assert np.array_equal(fitted(20, linear, epochs=1).ranked(copies), copies)
    light = Outlook.fit(rows, outcome, **settings | {"weights": np.where(outcome == outcome.max(), 1e-17, 1.0)})  # type: ignore[arg-type]
    assert np.isfinite(light.forecast(rows, lead)).all()


def test_what_came_of_frames_is_learned_by_weights_and_roots() -> None:
    rows, outcome, lead, whose = members(100, linear)
    weights, order = (
        np.random.default_rng(0).uniform(0.5, 2, 100)[whose],
        np.random.default_rng(1).permutation(len(rows)),
    )
    fate = Fate(order, order, outcome[order], weights[order], whose[order], lead[order])
    model = Outlook.fit_fate(rows, fate, epochs=1)
    same = Outlook.fit(rows[order], outcome[order], lead=fate.lead, weights=fate.weight, groups=fate.root, epochs=1)
    mean, _ = same.forecast(rows, lead)
    assert np.array_equal(model.forecast(rows, lead)[0], mean)
    spread = np.average((outcome - np.average(outcome, weights=weights)) ** 2, weights=weights)
    assert model.error(rows, fate) == pytest.approx(np.average((mean - outcome) ** 2, weights=weights) / spread)
    assert model.error(rows, Fate(*(each[:0] for each in (order, order, outcome, weights, whose, lead)))) == 0


@pytest.mark.parametrize("ranks", [False, True])
def test_a_gate_tells_a_model_that_knows_something_whatever_each_was_fitted_to(ranks: bool) -> None:
    """Of wider outcomes the curve to normal scores is flatter, and so would be an error in its unit."""
    rng, errors = np.random.default_rng(0), []
    held = rng.normal(size=(500, 1))
    came = held[:, 0] + rng.normal(0, 0.5, 500)
    fate = Fate(*(np.arange(500),) * 2, came, np.ones(500), np.arange(500), np.ones(500))
    for size, told in ((1.0, 1.0), (2.0, 1.0), (3.0, 0.0)):
        x = rng.normal(0, size, (2000, 1))
        y = told * x[:, 0] + rng.normal(0, size / 2 + (1 - told) * size, 2000)
        errors.append(Outlook.fit(x, y, lead=np.ones(2000), epochs=1, ranks=ranks).error(held, fate))
    assert errors[:2] == pytest.approx([0.2, 0.2], abs=0.05)
    assert errors[2] == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("count", [1, 3, 4])
def test_of_few_rows_it_is_the_mean_of_what_came_of_them(count: int) -> None:
    rows, outcome, lead, whose = members(count, linear)
    model = Outlook.fit(rows, outcome, lead=lead, groups=whose)
    assert model.card["taken"] == "mean"
    mean, spread = model.forecast(rows, lead)
    assert mean == pytest.approx(np.full(len(rows), outcome.mean()))
    assert spread == pytest.approx(np.full(len(rows), outcome.std())) if count > 1 else (spread > 0).all()


@pytest.mark.slow
def test_of_no_rows_it_knows_nothing_and_says_so() -> None:
    """As in the first training of a run, of which no window is over."""
    model = Outlook.fit(np.zeros((0, 2, 8, 16)), np.zeros(0), lead=np.zeros(0), groups=np.zeros(0, int))
    assert model.card["taken"] == "nothing"
    mean, spread = model.forecast(np.ones((3, 2, 8, 16)), 2)
    assert (mean.tolist(), spread.tolist()) == ([0.0] * 3, [1.0] * 3)


@pytest.mark.slow
def test_waves_that_travel_around_the_sphere_are_forecast_days_before() -> None:
    """Of a ring of waves that move and fade, a box knows what lies upstream of it; of |v|, a network knows more."""
    rng, days, lon = np.random.default_rng(0), 3, 2 * np.pi * np.arange(24) / 24
    wave, keep = np.arange(1, 5), 0.95
    state = rng.normal(size=(1500, 4)) + 1j * rng.normal(size=(1500, 4))
    paths = []
    for _ in range(days + 1):
        field = np.einsum("nm,mx->nx", state, np.exp(1j * wave[:, None] * lon)).real
        paths.append(
            np.stack([5000 + field, np.gradient(field, axis=1)], 1)[:, :, None] * np.hanning(10)[:, None][1:-1]
        )
        noise = rng.normal(size=(1500, 4)) + 1j * rng.normal(size=(1500, 4))
        state = keep * np.exp(-0.5j * wave) * state + np.sqrt(1 - keep**2) * noise
    fields, lead = np.concatenate(paths[:-1]).astype(np.float32), np.repeat(np.arange(days, 0, -1), 1500)
    whose = np.tile(np.arange(1500), days)
    line = np.tile(paths[-1][:, 0, 4, 3:6].mean(1), days)
    model = Outlook.fit(fields, line, lead=lead, groups=whose, epochs=2)
    assert [model.card["R2"][str(left)]["ridge"] for left in (1, 3)] == pytest.approx([keep**2, keep**6], abs=0.03)
    strength = np.abs(np.tile(paths[-1][:, 1, 4, 3:6].mean(1), days))
    model = Outlook.fit(fields, strength, lead=lead, groups=whose)
    assert model.card["taken"] == "network"
    some, by = fields[:5].astype(float), rng.normal(size=fields[:5].shape)
    slope = (model.forecast(some + 1e-2 * by, 1.5)[0] - model.forecast(some - 1e-2 * by, 1.5)[0]) / 2e-2
    assert (model.gradient(some, 1.5) * by).sum((1, 2, 3)) == pytest.approx(slope, rel=0.02, abs=1e-3)
    for left, least in (("1", 0.6), ("2", 0.4)):  # 0.43 and 0.15 for a network that does not know the time left
        assert model.card["R2"][left]["network"] > least > 0.1 > model.card["R2"][left]["ridge"]


def test_what_cannot_be_learned_is_refused() -> None:
    rows, outcome, lead, _ = members(50, linear)
    for changed in (
        {"outcome": outcome[:4]}, {"outcome": np.where(outcome == outcome[0], np.nan, outcome)},
        {"lead": lead * np.inf}, {"inputs": rows * np.nan}, {"inputs": rows * 1j}, {"inputs": rows[:, 0]},
        {"weights": -np.ones(200)}, {"weights": np.zeros(200)}, {"groups": lead[:3]},
    ):  # fmt: skip
        with pytest.raises(BadValue):
            Outlook.fit(**({"inputs": rows, "outcome": outcome, "lead": lead} | changed))
    model = Outlook.fit(rows, outcome, lead=lead, epochs=1)
    for wrong in ((rows[:, :2], lead), (rows * np.nan, lead), (rows, np.nan)):
        with pytest.raises(BadValue):
            model.forecast(*wrong)
    assert model.forecast(rows[:0], 1)[0].shape == (0,)


def test_of_no_rows_nothing_is_forecast() -> None:
    """As of held-out frames of which none has come to its end yet."""
    fields = np.random.default_rng(1).normal(size=(3, 2, 12, 24))
    model = Outlook.fit(fields, fields[:, 0, 5, 5], lead=np.ones(3))
    assert [each.shape for each in model.forecast(fields[:0], np.empty(0))] == [(0,), (0,)]
