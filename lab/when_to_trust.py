"""When to trust a network: runs that skip ahead with it, and call the solver where a coarse one does not agree.

    python -m lab.shallow_water_surrogate --networks U-Net --keep NETWORKS
    python -m lab.when_to_trust --network NETWORKS/U-Net-0 --json --figure docs/figures/when_to_trust.png

Truth is T85. A network that was trained at T42 goes on training on some runs of it. In the others every step of 6 h is
made by the network where the increment of a solver at T31 agrees with its own better than a tolerance, by the solver
at T85 elsewhere. The runs that it was trained on are then made in the same way, and it learns the steps at which the
solver was called there, too; beside it, as many epochs without them. Costs are CPU seconds of a step, measured once,
times the steps; the rival is a coarser solver. All errors are of height, u and v at day 5, as far as T42 shows them.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab import jet_forecasts as jets
from steersman.apps.shallow_water import ShallowWater
from steersman.apps.shallow_water import forecasts as forecasts
from steersman.apps.shallow_water.cases import DAY, jet
from steersman.benchmarks.three_figures import rounded
from steersman.dashboard import style
from steersman.models.networks.forecaster import Forecaster

TRUTH, ESTIMATE, DAYS = 85, 31, 5.0
STEPS = round(DAYS * DAY / jets.FRAME_S)
TOLERANCES = (0.0, 0.4, 0.5, 0.65, 0.8, 1e9)  # of the disagreement, in spreads of the increments
LEARNT_AT = 0.5  # the tolerance under which steps of the training runs are collected
RIVALS = (21, 31, 42, 63)
EPOCHS, BATCH, RATE = 4, 8, 2e-4
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # of the figure


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate, train on, sweep the tolerance, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--network", type=Path, required=True, help="folder of one trained at T42")
    parser.add_argument("--runs", type=int, default=4, help="runs at T85 to train on")
    parser.add_argument("--test-runs", type=int, default=4)
    parser.add_argument("--figure", type=Path, help="PNG of error against cost")
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    rng = np.random.default_rng(85)
    fine, show = jets.solver(TRUTH), jets.solver(jets.TRUNCATION)
    drawn = [rng.standard_normal((n, 8)) for n in (given.runs, given.test_runs)]
    (train, began), (true, states) = (truth(fine, show, each) for each in drawn)
    before = Forecaster.load(given.network)
    solvers = Solvers(fine, show, jets.solver(ESTIMATE, rows=jets.ROWS))
    report: dict[str, Any] = {"trained_at_T42_cpu_s": round(before.card["cpu_s"])}
    first, first_s = forecasts.timed(lambda: trained_on(before, pairs(train)))
    *_, failed = skipping(solvers, first, began, STEPS, LEARNT_AT)
    costs = measured(solvers, first, states)
    found = {}
    for name, learnt in (("skipping", failed[:0]), ("skipping_with_failures_learnt", failed)):
        model, seconds = forecasts.timed(functools.partial(trained_on, first, np.concatenate([pairs(train), learnt])))
        found[name] = sweep(solvers, model, states, true, costs)
        report[f"{name}_trained_cpu_s"] = rounded(first_s + seconds)
    report["failed_frames"] = len(failed)
    rivals = [rival(states, true, truncation) for truncation in RIVALS]
    if given.figure:
        draw(found, rivals, given.figure)
    print(json.dumps({**found, "solvers": rivals, "step_cpu_s": costs, **report}))


@dataclass(frozen=True)
class Solvers:
    """The one that makes the truth, the one that shows it on the grid, and the one that doubts."""

    fine: ShallowWater
    show: ShallowWater
    coarse: ShallowWater


def pairs(runs: np.ndarray) -> np.ndarray:
    """Runs (n, times, ...) -> frames and the next ones, (n x (times - 1), 2, ...)."""
    both = np.stack([runs[:, :-1], runs[:, 1:]], 2)
    return both.reshape(-1, *both.shape[2:])


def trained_on(model: Forecaster, learnt: np.ndarray) -> Forecaster:
    """The same network after some epochs on pairs of frames."""
    network: dict[str, Any] = {name: model.config[name] for name in model.config.keys() - {"channels", "latitudes"}}
    return type(model).fit(learnt, init=model, epochs=EPOCHS, batch=BATCH, lr=RATE, **network)


def sweep(
    solvers: Solvers, model: Forecaster, states: torch.Tensor, true: np.ndarray, costs: dict[str, float]
) -> list[dict[str, float]]:
    """Cost and error of every tolerance."""
    rows = []
    for tolerance in TOLERANCES:
        fields, solved, _ = skipping(solvers, model, states, STEPS, tolerance)
        steps = STEPS * len(true)
        seconds = solved * costs["solver"] + steps * costs["network"] + (steps - solved) * costs["state"]
        row = {
            "tolerance": tolerance,
            "solved_share": solved / steps,
            "cpu_s_per_day": seconds / (DAYS * len(true)),
            "error": last(fields, true),
        }
        rows.append({name: rounded(value) for name, value in row.items()})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def truth(fine: ShallowWater, show: ShallowWater, parameters: np.ndarray) -> tuple[np.ndarray, torch.Tensor]:
    """Runs at T85 as T42 shows them, and their states after the spin-up."""
    frames, states = [], []
    for first in range(0, len(parameters), jets.TOGETHER):
        begun = [fine.spectral(jet(*fine.grid, each)) for each in parameters[first : first + jets.TOGETHER]]
        state = forecasts.stepped(fine, torch.stack(begun, dim=-1).flatten(2), jets.SPIN_UP_DAYS)
        states.append(members(state))
        shown = [seen(show, states[-1])]
        for _ in range(STEPS):
            state = forecasts.stepped(fine, state, jets.FRAME_S / DAY)
            shown.append(seen(show, members(state)))
        frames.append(np.stack(shown, 1))
        print(f"\r{first + len(begun)}/{len(parameters)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return np.concatenate(frames), torch.cat(states, dim=-1)


def members(state: torch.Tensor) -> torch.Tensor:
    """(orders, degrees, 3 x members) -> (orders, degrees, 3, members)."""
    return state.reshape(*state.shape[:2], 3, -1)


def seen(show: ShallowWater, states: torch.Tensor) -> np.ndarray:
    """Fields (members, 3, 64, 128) of finer states."""
    return forecasts.shown(show, forecasts.truncated(show, states))


def spectral(fine: ShallowWater, show: ShallowWater, fields: np.ndarray) -> torch.Tensor:
    """States of the fine solver from fields (members, 3, 64, 128); nothing is beyond T42."""
    case = jet(*show.grid, np.zeros(8))
    found = [show.spectral(replace(case, depth=height, u=u, v=v)) for height, u, v in fields]
    state = torch.zeros(*fine.sphere.degree.shape, 3, len(fields), dtype=found[0].dtype)
    orders, degrees = show.sphere.degree.shape
    state[:orders, :degrees] = torch.stack(found, dim=-1)
    return state


def doubt(coarse: ShallowWater, model: Forecaster, states: torch.Tensor, change: np.ndarray) -> np.ndarray:
    """How far the coarse solver's increment is from the network's (members, 3, 64, 128), in spreads of increments.

    Returns: (members,), root of the mean square over the sphere, averaged over the fields.
    """
    state = forecasts.truncated(coarse, states)
    later = forecasts.stepped(coarse, state, jets.FRAME_S / DAY)
    found = forecasts.shown(coarse, later) - forecasts.shown(coarse, state)
    wrong = (found - change) / model.increment.numpy()
    return np.asarray(np.sqrt((wrong**2 * forecasts.area(wrong[:, None])).sum((2, 3))).mean(1))


def skipping(
    solvers: Solvers, model: Forecaster, states: torch.Tensor, steps: int, tolerance: float
) -> tuple[np.ndarray, int, np.ndarray]:
    """Run all members to the end under one tolerance.

    Returns: the last fields; how many steps the solver made; their frames before and after, (steps, 2, 3, 64, 128).
    """
    states, failed = states.clone(), []
    fields = seen(solvers.show, states)
    for _ in range(steps):
        ahead = model.forecast(fields, 1)[0]
        doubted = doubt(solvers.coarse, model, states, ahead - fields) >= tolerance
        trusted, again = np.flatnonzero(~doubted), np.flatnonzero(doubted)
        before, fields = fields, ahead
        if len(again):
            stepped = forecasts.stepped(solvers.fine, states[..., again].flatten(2), jets.FRAME_S / DAY)
            states[..., again] = members(stepped)
            fields[again] = seen(solvers.show, states[..., again])
            failed.append(np.stack([before[again], fields[again]], 1))
        if len(trusted):
            states[..., trusted] = spectral(solvers.fine, solvers.show, fields[trusted])
    kept = np.concatenate([np.empty((0, 2, *fields.shape[1:]), fields.dtype), *failed])
    return fields, len(kept), kept


def rival(states: torch.Tensor, true: np.ndarray, truncation: int) -> dict[str, float]:
    """A coarser solver from the same states, on its own grid until the end."""
    model = jets.solver(truncation)
    state = forecasts.truncated(model, states)
    state, seconds = forecasts.timed(lambda: forecasts.stepped(model, state, DAYS))
    show = jets.solver(min(truncation, jets.TRUNCATION), rows=jets.ROWS)
    row = {"cpu_s_per_day": seconds / (DAYS * len(true)), "error": last(seen(show, members(state)), true)}
    return {"truncation": truncation} | {name: rounded(value) for name, value in row.items()}


def measured(solvers: Solvers, model: Forecaster, states: torch.Tensor) -> dict[str, float]:
    """CPU seconds of a step of one of all members: by the solver, by the network with its check, fields to state."""
    fields = seen(solvers.show, states)

    def checked() -> np.ndarray:
        ahead = model.forecast(fields, 1)[0]
        return doubt(solvers.coarse, model, states, ahead - fields)

    tried: dict[str, Callable[[], object]] = {
        "solver": lambda: forecasts.stepped(solvers.fine, states.flatten(2), jets.FRAME_S / DAY),
        "network": checked,
        "state": lambda: spectral(solvers.fine, solvers.show, seen(solvers.show, states)),
    }
    return {name: min(forecasts.timed(each)[1] for _ in range(3)) / len(fields) for name, each in tried.items()}


def last(fields: np.ndarray, true: np.ndarray) -> float:
    """VRMSE of the last fields, the mean of the three."""
    return float(forecasts.vrmse(fields[:, None], true[:, -1:])[0, 3])


def draw(found: dict[str, list[dict[str, float]]], rivals: list[dict[str, float]], path: Path) -> None:
    """Error against cost, each tolerance a point; beside it the coarser solvers."""
    with style.applied():
        figure = style.sheet(2.9)
        axes = figure.subplots()
        for points, look, label in (
            (rivals, {"color": style.INK, "marker": "s", "linestyle": "--"}, "coarser solver"),
            (
                found["skipping"],
                {"color": style.BLUE, "marker": "o"},
                "network, checked at T31; solver at T85 elsewhere",
            ),
            (found["skipping_with_failures_learnt"], {"color": style.ORANGE, "marker": "^"}, "where it failed, learnt"),
        ):
            points = [each for each in points if each["error"] > 0]
            axes.loglog(
                [each["cpu_s_per_day"] for each in points], [each["error"] for each in points], label=label, **look
            )
        for each in rivals:
            name, place = f"T{each['truncation']:.0f}", (each["cpu_s_per_day"], each["error"])
            axes.annotate(name, place, xytext=(4, 4), textcoords="offset points")
        axes.set(xlabel="CPU seconds for a day of one run, without training", ylabel="VRMSE at day 5")
        style.plain_ticks(axes, TICKS, TICKS)
        style.legend_above(axes)
        figure.savefig(path, dpi=170)


if __name__ == "__main__":
    main()
