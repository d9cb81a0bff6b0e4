"""A forecast that is learned meanwhile, on the double well, whose probabilities are exact."""

from __future__ import annotations

import math

import numpy as np
import pytest

from steersman.apps import double_well
from steersman.models import Outlook
from steersman.steering import NEW, Candidate, Scores, Splitting

BARRIER_KT, STEPS, WINDOW, TIMESTEP = 5.0, 50, 8, 1e-3
PLAIN, WINDOWS, MEMBERS, RUNS = 2, 10, 64, 12


def exact(above: float) -> float:
    """Probability to end a window above a place, from the left well: the steps of `double_well.run` on a fine grid."""
    x = np.linspace(-2.2, 2.2, 1101)
    mean = x + TIMESTEP * double_well.force(np.stack([x, 0 * x], 1), BARRIER_KT)[:, 0]
    step = np.exp(-((x[None] - mean[:, None]) ** 2) / (4 * TIMESTEP))
    step /= step.sum(1, keepdims=True)
    whole = np.linalg.matrix_power(step, STEPS * WINDOW)
    return float(whole[np.abs(x + 1).argmin(), x > above].sum())


def moved(position: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    for _ in range(STEPS):
        noise = math.sqrt(2 * TIMESTEP) * rng.standard_normal(position.shape)
        position = position + TIMESTEP * double_well.force(position, BARRIER_KT) + noise
    return position


@pytest.mark.slow
def test_a_learned_forecast_gives_the_exact_probability_of_the_other_well() -> None:
    """It pays nothing here: the end of a window is in one well or in the other, and no forecast of its mean and spread
    says how seldom a member jumps. The answer is right all the same."""
    policy = Splitting("x", above=0.0, window=WINDOW, members=MEMBERS)
    estimates = [policy.estimate(run(policy, seed)).probability for seed in range(RUNS)]
    assert abs(np.mean(estimates) - exact(0.0)) < 3 * np.std(estimates, ddof=1) / math.sqrt(RUNS)


def run(policy: Splitting, seed: int) -> Scores:
    """Windows of plain sampling, a fit to them, and windows that are split by it."""
    rng, columns, fitted = np.random.default_rng(seed), dict[str, list[np.ndarray]](), None
    position, shown = np.empty((0, 2)), scores(columns, -1)
    for round_ in range(1, WINDOW * WINDOWS + 1):
        members = policy.rank(shown, rng)
        position = moved(begun(members, position), rng)
        if round_ == PLAIN * WINDOW + 1:
            fitted = fit(columns)
        add(columns, members, position, round_)
        shown = scores(columns, round_)
        if fitted is not None:
            add_forecast(shown, fitted, policy.window - round_ % policy.window)
    return scores(columns, None)


def begun(members: list[Candidate], position: np.ndarray) -> np.ndarray:
    return np.stack([double_well.LEFT if each.index == NEW else position[each.index] for each in members])


def add(columns: dict[str, list[np.ndarray]], members: list[Candidate], position: np.ndarray, round_: int) -> None:
    count, before = len(members), columns.get("root", [np.empty(0, int)])[-1]
    root = [10**6 * round_ + i if each.index == NEW else before[each.index] for i, each in enumerate(members)]
    made = {"position": position, "weight": np.array([each.weight for each in members]), "root": np.array(root)}
    for name, column in (made | {"round": np.full(count, round_)}).items():
        columns.setdefault(name, []).append(column)


def scores(columns: dict[str, list[np.ndarray]], round_: int | None) -> Scores:
    """Of one round, or of the ends of all windows."""
    rounds = range(WINDOW, WINDOW * WINDOWS + 1, WINDOW) if round_ is None else [round_] * (round_ > 0)
    empty = {"position": np.empty((0, 2)), "weight": np.empty(0), "root": np.empty(0, int), "round": np.empty(0, int)}
    parts = {name: [none, *(columns[name][each - 1] for each in rounds)] for name, none in empty.items()}
    position, weight, root, number = (np.concatenate(each) for each in parts.values())
    at, ends = np.arange(len(position)), np.ones(len(position), bool)
    return Scores(at, at, at, at, ends, {"x": position[:, 0]}, 1, weight=weight, root=root, round=number)


def fit(columns: dict[str, list[np.ndarray]]) -> Outlook:
    """Plain windows: members stay at their places."""
    inputs, outcome, lead, groups = [], [], [], []
    for window in range(PLAIN):
        positions = columns["position"][window * WINDOW : (window + 1) * WINDOW]
        for age, early in enumerate(positions[:-1], 1):
            inputs.append(early)
            outcome.append(positions[-1][:, 0])
            lead.append(np.full(len(early), WINDOW - age))
            groups.append(np.arange(len(early)) + window * MEMBERS)
    seen, came = np.concatenate(inputs), np.concatenate(outcome)
    return Outlook.fit(seen, came, lead=np.concatenate(lead), groups=np.concatenate(groups))


def add_forecast(shown: Scores, model: Outlook, left: int) -> None:
    position = np.stack([shown.values["x"], 0 * shown.values["x"]], 1)
    mean, spread = model.forecast(position, float(left % WINDOW))
    shown.values.update({"mean": mean, "spread": spread})  # type: ignore[attr-defined]
