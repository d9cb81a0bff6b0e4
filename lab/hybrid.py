"""Does a coarse solver whose steps a network corrects beat a finer one that costs more? Forecasts of jets, by T42.

    python -m lab.hybrid --keep FOLDER --figure docs/figures/hybrid.png > hybrid.json

Truth is T42, frames of 6 h from day 6 of jets of the 8-parameter family. The network corrects T21 every 6 h; it is
trained on 96 runs of six days by single steps, then through four steps of the solver. 32 other runs are forecast.
Costs are CPU seconds of one thread, of the solvers one after another in many rounds, so that a busy core slows all.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab import jet_forecasts as jets
from steersman.apps.shallow_water import Coarse, forecasts
from steersman.benchmarks.three_figures import rounded
from steersman.dashboard import style
from steersman.models.networks.corrector import Corrector

COARSE, DAYS, LONG_DAYS, HOURS = 21, 6.0, 30.0, 6.0
LEADS = {"6 h": 1, "1 d": 4, "2 d": 8, "3 d": 12, "5 d": 20}
RIVALS = (15, 21, 25, 31, 36)
STAGES: tuple[dict[str, Any], ...] = (
    {"epochs": 12, "batch": 16, "lr": 1e-3},
    {"epochs": 4, "batch": 8, "lr": 2e-4, "unrolled": 4},
)
ROUNDS, RESAMPLED = 15, 2000
Forecast = Callable[[torch.Tensor], torch.Tensor]  # of a state, 6 h


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate, train, and print one JSON object."""
    given = arguments().parse_args(argv)
    torch.set_num_threads(1)
    rng = np.random.default_rng(42)
    learnt, tried = (rng.standard_normal((runs, 8)) for runs in (given.runs, given.test_runs))
    solver = Coarse(COARSE, hours=HOURS)
    begun = time.process_time()
    seen = solver.seen(jets.truth(learnt, DAYS)[0])
    simulated_s = time.process_time() - begun
    long, states = jets.truth(tried, LONG_DAYS)
    models = [trained(solver, seen, seed, given) for seed in range(given.seeds)]
    rolled = {f"T{each}": jets.coarser(states, each, LONG_DAYS) for each in RIVALS}
    rolled |= {f"corrected {seed}": corrected(states, model) for seed, model in enumerate(models)}
    times = jets.frames_of(DAYS)
    errors = {name: each_run(runs[:, :times], long[:, :times]) for name, runs in rolled.items()}
    errors["persistence"] = each_run(forecasts.persistence(long[:, :times]), long[:, :times])
    costs = alternating(states, models[0])
    if given.figure:
        draw(errors, costs, given.figure)
    found: dict[str, Any] = {
        "vrmse": {name: at_leads(error.mean(0)) for name, error in errors.items()},
        "over T31": {
            f"corrected {seed}": ratios(errors[f"corrected {seed}"], errors["T31"]) for seed in range(len(models))
        },
        "cpu_ms_per_day": {name: rounded(1e3 * np.median(values)) for name, values in costs.items()},
        "cost over T31": interval(costs["corrected"] / costs["T31"]),
        "training_cpu_s": [round(model.card["cpu_s"]) for model in models] + [round(simulated_s)],
        "parameters": models[0].parameter_count,
        "month": {
            name: month(runs, long)
            for name, runs in rolled.items()
            if name in ("T21", "T31") or name.startswith("corrected")
        },
    }
    print(json.dumps(found))


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=96, help="training runs")
    parser.add_argument("--test-runs", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3, help="networks: first weights, order of the runs")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--keep", type=Path, help="folder for the trained networks; one that is there is not trained")
    parser.add_argument("--figure", type=Path, help="PNG of the error against lead time, and against cost")
    return parser


def trained(solver: Coarse, seen: np.ndarray, seed: int, given: argparse.Namespace) -> Corrector:
    """By single steps, then through the solver."""
    folder = given.keep / f"{seed}" if given.keep else None
    if folder and folder.exists():
        return Corrector.load(folder)
    begun = time.process_time()
    model: Corrector | None = None
    for stage in STAGES:
        told: dict[str, Any] = {"step": solver, "kept": (0,), "width": given.width}
        model = Corrector.fit(seen, init=model, seed=seed, report=say, **stage, **told)
    assert model is not None
    model.card["cpu_s"] = time.process_time() - begun
    if folder:
        model.save(folder)
    return model


def say(record: dict[str, float], model: Corrector) -> None:
    """What an epoch came to."""
    print(f"loss {record['loss']:.4f}, {record['seconds']:.0f} s", file=sys.stderr, flush=True)


def corrected(states: torch.Tensor, model: Corrector) -> np.ndarray:
    """Runs from states (orders, degrees, 3, n) as solver and network go on, on the grid of the truth."""
    show, step = jets.solver(COARSE, rows=jets.ROWS), hybrid_step(model)
    state = forecasts.truncated(show, states)
    frames = [forecasts.shown(show, state)]
    for _ in range(jets.frames_of(LONG_DAYS) - 1):
        state = step(state)
        frames.append(forecasts.shown(show, state))
    return np.stack(frames, 1)


def hybrid_step(model: Corrector) -> Forecast:
    """A state 6 h later, as a run with a corrector takes it."""
    solver = jets.solver(COARSE, rows=model.config["latitudes"])
    return lambda state: solver.corrected(forecasts.stepped(solver, state, HOURS / 24), model)


def alternating(states: torch.Tensor, model: Corrector) -> dict[str, np.ndarray]:
    """CPU seconds for a day of one of 8 members, (rounds,), of each in turn."""
    steps: dict[str, tuple[torch.Tensor, Forecast]] = {}
    for each in (*RIVALS, jets.TRUNCATION):
        solver = jets.solver(each)
        state = forecasts.truncated(solver, states[..., : jets.TOGETHER])
        steps[f"T{each}"] = state, partial(forecasts.stepped, solver, days=HOURS / 24)
    steps["corrected"] = steps[f"T{COARSE}"][0], hybrid_step(model)
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS + 1):
        for name, (state, step) in steps.items():
            begun, later = time.process_time(), state
            for _ in range(8):
                later = step(later)
            taken[name].append((time.process_time() - begun) / (2 * jets.TOGETHER))
    return {name: np.array(values[1:]) for name, values in taken.items()}


def each_run(predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    """(runs, times): VRMSE, the mean of height, u and v."""
    return np.concatenate(
        [forecasts.vrmse(one[None], other[None])[None, :, 3] for one, other in zip(predicted, true, strict=True)]
    )


def ratios(errors: np.ndarray, others: np.ndarray) -> dict[str, list[float]]:
    """Errors over those of another forecast of the same runs, with the interval of a bootstrap over runs."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(errors), size=(RESAMPLED, len(errors)))
    found = {}
    for name, at in LEADS.items():
        whole = errors[:, at].mean() / others[:, at].mean()
        again = errors[drawn, at].mean(1) / others[drawn, at].mean(1)
        found[name] = [rounded(value) for value in (whole, *np.quantile(again, (0.025, 0.975)))]
    return found


def interval(values: np.ndarray) -> list[float]:
    """Median, and that of a bootstrap of 95 %."""
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLED, len(values)))
    return [rounded(value) for value in (np.median(values), *np.quantile(np.median(values[drawn], 1), (0.025, 0.975)))]


def at_leads(error: np.ndarray) -> dict[str, float]:
    """Of (times,)."""
    return {name: rounded(error[at]) for name, at in LEADS.items()}


def month(runs: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """The last day of a month beside the truth: winds, and how much varies between longitudes."""
    winds, others = (np.hypot(each[:, -4:, 1], each[:, -4:, 2]) for each in (runs, true))
    eddies, theirs = ((each[:, -4:] - each[:, -4:].mean(4, keepdims=True)).std((0, 1, 3, 4)) for each in (runs, true))
    drift = np.abs(forecasts.averaged(runs)[:, :, 0] / forecasts.averaged(runs)[:, :1, 0] - 1).max()
    return {
        "finite": bool(np.isfinite(runs).all()),
        "mass_drift": rounded(drift),
        "strongest wind": rounded(winds.max() / others.max()),
        "eddies of v": rounded(eddies[2] / theirs[2]),
        "eddies of height": rounded(eddies[0] / theirs[0]),
    }


def draw(errors: dict[str, np.ndarray], costs: dict[str, np.ndarray], path: Path) -> None:
    """Left: the error against the lead time. Right: that after three days against the cost."""
    networks = [name for name in errors if name.startswith("corrected")]
    with style.applied():
        figure = style.sheet(2.9)
        left, right = figure.subplots(1, 2)
        days = np.arange(errors["T21"].shape[1]) * jets.FRAME_S / 86400
        for name, line in (("T21", ":"), ("T31", "--")):
            left.plot(days, errors[name].mean(0), color=style.INK, linestyle=line, label=f"solver at {name}")
        for number, name in enumerate(networks):
            label = None if number else f"T{COARSE} + network ({len(networks)} trained)"
            left.plot(days, errors[name].mean(0), color=style.BLUE, label=label)
        left.set(xlabel="lead time (days)", ylabel="VRMSE, mean of height, u, v", xlim=(0, days[-1]), ylim=(0, 0.6))
        left.legend(loc="upper left")
        late = {name: float(error[:, LEADS["3 d"]].mean()) for name, error in errors.items()}
        cost = {name: 1e3 * float(np.median(values)) for name, values in costs.items()}
        solvers = [f"T{each}" for each in RIVALS]
        right.plot([cost[name] for name in solvers], [late[name] for name in solvers], "o-", color=style.INK)
        for name in solvers:
            right.annotate(name, (cost[name], late[name]), xytext=(5, 3), textcoords="offset points")
        found = [late[name] for name in networks]
        right.plot([cost["corrected"]] * len(found), found, "s", color=style.BLUE)
        words, place = f"T{COARSE} +\nnetwork", (cost["corrected"], min(found))
        right.annotate(words, place, xytext=(-8, -28), textcoords="offset points", color=style.BLUE)
        right.set(
            xlabel="CPU time of a simulated day (ms)", ylabel="VRMSE after 3 days", xlim=(0, None), ylim=(0, None)
        )
        figure.savefig(path, dpi=170)


if __name__ == "__main__":
    main()
