"""How well networks forecast jets that they have not seen: VRMSE beside persistence and a coarser solver of equal cost.

    python -m lab.shallow_water_surrogate --json --figure docs/figures/shallow_water_surrogate.png

Truth is T42 on its 64 x 128 grid, frames of 6 h from day 6 to day 12, jets drawn from the 8-parameter family. Each
network is trained on one set of runs, on single steps first and then on three in a row; the epoch whose weights are
kept is chosen on a second set, and a third is reported. That one goes on to day 36, which no network was trained on.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab import jet_forecasts as jets
from steersman.apps.shallow_water import forecasts as forecasts
from steersman.benchmarks.three_figures import rounded
from steersman.dashboard import style
from steersman.models.networks.forecaster import Forecaster
from steersman.models.networks.spherical_fourier import SphericalFourier
from steersman.models.networks.unet import SphericalUNet

DAYS, LONG_DAYS = 6.0, 30.0
LEADS = {"6 h": 1, "1 d": 4, "3 d": 12, "5 d": 20}
CHOSEN_AT = LEADS["5 d"]
COARSER = (10, 15, 21, 25, 31)
BATCH, RATE, FINE_RATE = 8, 1e-3, 2e-4
UNROLLED = 3  # steps at the second rate
NETWORKS: dict[str, tuple[type[Forecaster], dict[str, Any], tuple[int, int]]] = {  # epochs at each rate
    "U-Net": (SphericalUNet, {"width": 32}, (6, 2)),
    "Fourier": (SphericalFourier, {"width": 32, "layers": 3, "truncation": 31}, (3, 2)),
}
THE_WELL = {"FNO": 0.173, "TFNO": 0.085, "U-Net": 0.362, "CNextU-Net": 0.372}  # planetswe, 1 h: another task


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate, train, and print one JSON object."""
    given = arguments().parse_args(argv)
    torch.set_num_threads(1)
    rng = np.random.default_rng(42)
    drawn = [rng.standard_normal((runs, 8)) for runs in (given.runs, given.validation_runs, given.test_runs)]
    learnt = functools.cache(lambda: (jets.truth(drawn[0], DAYS)[0], jets.truth(drawn[1], DAYS)[0]))
    long, states = jets.truth(drawn[2], LONG_DAYS)
    test = long[:, : jets.frames_of(DAYS)]
    found = {"persistence": forecasts.vrmse(forecasts.persistence(test), test)}
    costs = {f"T{each}": solver_cost(states, each) for each in COARSER}
    networks: dict[str, Any] = {}
    for kind in given.networks:
        made = [trained(kind, seed, learnt, given) for seed in range(given.seeds)]
        rolled = [forecasts.forecast(model, test) for model in made]
        found |= {f"{kind} {seed}": forecasts.vrmse(frames, test) for seed, frames in enumerate(rolled)}
        if len(made) > 1:
            found[f"{kind}, mean of {len(made)}"] = forecasts.vrmse(np.mean(rolled, axis=0), test)
        costs[kind] = network_cost(made[0], test)
        equal = min(COARSER, key=lambda each: abs(np.log(costs[f"T{each}"] / costs[kind])))
        networks[kind] = {
            "parameters": made[0].parameter_count,
            "training_cpu_s": [round(model.card["cpu_s"]) for model in made],
            "chosen_epoch": [model.card["epoch"] for model in made],
            "equal_cost": f"T{equal}",
            "long": [stability(model, long) for model in made],
            "uncertainty": uncertainty(np.stack(rolled), test) if len(made) > 1 else None,
        }
    found |= {f"T{each}": forecasts.vrmse(jets.coarser(states, each, DAYS), test) for each in COARSER}
    if given.figure:
        draw(found, networks, given.figure)
    print(json.dumps(summary(found, costs) | {"networks": networks, "training_runs": given.runs}))


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--runs", type=int, default=96, help="training runs")
    parser.add_argument("--validation-runs", type=int, default=8)
    parser.add_argument("--test-runs", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=3, help="networks of each kind: first weights, order of the runs")
    parser.add_argument("--epochs", type=int, nargs=2, help="at each of the two rates, instead of the networks' own")
    parser.add_argument("--keep", type=Path, help="folder for the trained networks; one that is there is not trained")
    parser.add_argument("--figure", type=Path, help="PNG of the error against the lead time")
    return parser


def trained(
    kind: str, seed: int, learnt: Callable[[], tuple[np.ndarray, np.ndarray]], given: argparse.Namespace
) -> Forecaster:
    """Train one network, and keep the weights of the epoch that forecasts five days of the validation runs best."""
    folder = given.keep / f"{kind}-{seed}" if given.keep else None
    if folder and folder.exists():
        return Forecaster.load(folder)
    network, settings, epochs = NETWORKS[kind]
    train, validation = learnt()
    laws, choice = forecasts.laws(jets.TRUNCATION), Choice(validation)
    model: Forecaster | None = None
    for passes, rate, unrolled in zip(given.epochs or epochs, (RATE, FINE_RATE), (1, UNROLLED), strict=True):
        if passes:
            fitting = {"epochs": passes, "batch": BATCH, "lr": rate, "seed": seed, "unrolled": unrolled}
            model = network.fit(train, init=model, report=choice.see, **fitting, **laws, **settings)
    if folder:
        choice.best.save(folder)
    return choice.best


class Choice:
    """The weights that do best on the validation runs, and the CPU seconds of all training before the last look."""

    def __init__(self, validation: np.ndarray) -> None:
        self.validation, self.error, self.epoch, self.seconds = validation, np.inf, 0, 0.0
        self.since = time.process_time()
        self.best: Forecaster

    def see(self, record: dict[str, float], model: Forecaster) -> None:
        """Look at the network after an epoch."""
        self.epoch, self.seconds = self.epoch + 1, self.seconds + time.process_time() - self.since
        error = float(forecasts.vrmse(forecasts.forecast(model.eval(), self.validation), self.validation)[CHOSEN_AT, 3])
        print(f"epoch {self.epoch}, {self.seconds:.0f} CPU s: loss {record['loss']:.4f}, 5 days {error:.3f}",
              file=sys.stderr, flush=True)  # fmt: skip
        if error < self.error:
            self.error, self.best = error, copy.deepcopy(model)
            self.best.card["epoch"] = self.epoch
        self.best.card["cpu_s"] = self.seconds
        self.since = time.process_time()


def network_cost(model: Forecaster, true: np.ndarray) -> float:
    """CPU seconds for a day of one of 8 members, the best of three."""
    return min(cost(lambda: model.forecast(torch.from_numpy(true[: jets.TOGETHER, 0]), 8)) for _ in range(3))


def solver_cost(states: torch.Tensor, truncation: int) -> float:
    """The same of a solver on its own grid, without showing fields."""
    model = jets.solver(truncation)
    state = forecasts.truncated(model, states[..., : jets.TOGETHER])
    return min(cost(lambda: forecasts.stepped(model, state, 2.0)) for _ in range(3))


def cost(two_days: Any) -> float:
    """CPU seconds of two days of 8 members, for a day of one."""
    begun = time.process_time()
    two_days()
    return (time.process_time() - begun) / (2 * jets.TOGETHER)


def stability(model: Forecaster, true: np.ndarray) -> dict[str, float]:
    """A month from the first frames: the drift of the mean height; winds over those of the truth; the error at its end.

    Returns: the strongest wind of all over that of the truth; and on the last day the mean over runs of the strongest,
        of the root mean square, and of that of the northward component alone.
    """
    frames = forecasts.forecast(model, true)
    height = forecasts.averaged(frames)[:, :, 0]
    winds, others = (np.hypot(runs[:, :, 1], runs[:, :, 2]) for runs in (frames, true))
    last, last_true = (forecasts.averaged(runs[:, -1:] ** 2)[:, 0].mean(0) for runs in (frames, true))
    return {
        "finite": bool(np.isfinite(frames).all()),
        "mass_drift": rounded(np.abs(height / height[:, :1] - 1).max()),
        "wind_ratio": rounded(winds.max() / others.max()),
        "last_wind_ratio": rounded(winds[:, -1].max((1, 2)).mean() / others[:, -1].max((1, 2)).mean()),
        "last_rms_wind_ratio": rounded(np.sqrt(last[1:].sum() / last_true[1:].sum())),
        "last_rms_v_ratio": rounded(np.sqrt(last[2] / last_true[2])),
        "last_vrmse": rounded(forecasts.vrmse(frames[:, -1:], true[:, -1:])[0, 3]),
    }


def uncertainty(members: np.ndarray, true: np.ndarray) -> dict[str, dict[str, float]]:
    """Spread of the members (K, runs, ...) beside the error of their mean: their ratio, and how both go together."""
    weights = forecasts.area(true)
    scale = true.std((0, 1, 3, 4))[:, None, None]
    spread = np.sqrt((members.var(0, ddof=1) / scale**2 * weights).sum((3, 4)).mean(2))
    error = np.sqrt((((members.mean(0) - true) / scale) ** 2 * weights).sum((3, 4)).mean(2))
    return {
        name: {
            "spread_over_error": rounded(spread[:, lead].mean() / error[:, lead].mean()),
            "correlation": rounded(np.corrcoef(spread[:, lead], error[:, lead])[0, 1]),
        }
        for name, lead in LEADS.items()
    }


def summary(found: dict[str, np.ndarray], costs: dict[str, float]) -> dict[str, Any]:
    """Errors at the leads, as numbers of three figures."""
    table = {
        name: {lead: [rounded(value) for value in errors[at]] for lead, at in LEADS.items()}
        for name, errors in found.items()
    }
    cheap = {name: rounded(1e3 * seconds) for name, seconds in costs.items()}
    return {"vrmse": table, "cpu_ms_per_day": cheap, "the_well_planetswe_1_h": THE_WELL}


def draw(found: dict[str, np.ndarray], networks: dict[str, Any], path: Path) -> None:
    """The mean error against the lead time, all seeds of a network in its colour."""
    with style.applied():
        figure = style.sheet(2.9)
        axes = figure.subplots()
        days = np.arange(len(found["persistence"])) * jets.FRAME_S / 86400
        axes.plot(days, found["persistence"][:, 3], color=style.GREY, label="persistence")
        rivals = dict.fromkeys(network["equal_cost"] for network in networks.values())
        for line, rival in zip(("--", ":"), rivals, strict=False):
            axes.plot(days, found[rival][:, 3], color=style.INK, linestyle=line, label=f"solver at {rival}")
        for colour, kind in zip((style.BLUE, style.ORANGE), networks, strict=False):
            curves = [errors for name, errors in found.items() if name.startswith(f"{kind} ")]
            for number, curve in enumerate(curves):
                axes.plot(days, curve[:, 3], color=colour, label=None if number else f"{kind} ({len(curves)} trained)")
        axes.set(xlabel="lead time (days)", ylabel="VRMSE, mean of height, u, v", xlim=(0, days[-1]), ylim=(0, None))
        style.legend_above(axes)
        figure.savefig(path, dpi=170)


if __name__ == "__main__":
    main()
