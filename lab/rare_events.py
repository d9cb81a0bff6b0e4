"""How many simulations guided sampling saves: replayed on a stored population of 2,560 storms.

    python -m lab.rare_events --probability 0.01 0.05
    python -m lab.rare_events --network runs/shallow_water-0001/models/0004

With a network, a model of the workflow shallow_water, the surrogate is its own forecast of each jet, from the beginning
to day 6, and a Gaussian process of that one number.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lab.jet_population import DAYS, FILE, MEMBERS, TRUNCATION
from steersman.apps.shallow_water.cases import jet
from steersman.benchmarks.three_figures import rounded
from steersman.models.networks.forecaster import Forecaster
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.steering.rare_events import Estimate, Surrogate, gaussian_process, guided, round_weights

PARAMETERS = 8
FRAMES_PER_DAY = 4  # of the network
ROUNDS = (60, 35, 35, 35, 35)  # 200 runs, as settled on an earlier population


def main(argv: Sequence[str] | None = None) -> None:
    """Replay, and print one JSON object per probability."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always JSON, an object a line")
    parser.add_argument("--probability", type=float, nargs="+", default=[0.01])
    parser.add_argument("--loops", type=int, default=100)
    parser.add_argument("--network", type=Path, help="folder of a model whose forecasts are the score")
    given = parser.parse_args(argv)
    surrogate = None if given.network is None else forecast_by(Forecaster.load(given.network))
    for probability in given.probability:
        print(json.dumps(replayed(given.loops, probability, surrogate)), flush=True)


def population() -> tuple[np.ndarray, np.ndarray]:
    """The stored runs. Returns: (n, 8) parameters, and (n,) logarithm of the largest meridional wind."""
    stored = np.load(FILE).astype(np.float64)
    return stored[:, :PARAMETERS], np.log(stored[:, PARAMETERS])


def forecast_by(model: Forecaster) -> Surrogate:
    """A Gaussian process of what the network forecasts of each jet of the population."""
    parameters, quantities = population()
    forecasts = strongest(model, parameters)
    report = np.corrcoef(forecasts, quantities)[0, 1]
    print(f"correlation of forecasts and runs: {report:.3f}", file=sys.stderr)
    known = {row.tobytes(): value for row, value in zip(parameters, forecasts, strict=True)}

    def column(points: np.ndarray) -> np.ndarray:
        return np.array([[known[row.tobytes()]] for row in points])

    def surrogate(ran: np.ndarray, found: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return gaussian_process(column(ran), found, column(candidates))

    return surrogate


def strongest(model: Forecaster, parameters: np.ndarray) -> np.ndarray:
    """Logarithm of the largest meridional wind that a network forecasts for day 6 of each jet, (n,)."""
    torch.set_num_threads(1)
    latitudes = int(model.config["latitudes"])
    sphere = SphericalHarmonics(TRUNCATION, rows=latitudes)
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    found = []
    for part in np.array_split(parameters, -(-len(parameters) // MEMBERS)):
        cases = [jet(lat, lon, each) for each in part]
        fields = np.stack([[case.depth, case.u, case.v] for case in cases]).astype(np.float32)
        last = model.forecast(torch.from_numpy(fields), DAYS * FRAMES_PER_DAY)[-1]
        found.append(last[:, 2].abs().amax((1, 2)).numpy())
    return np.asarray(np.log(np.maximum(np.concatenate(found), 1e-3)))


def replayed(loops: int, probability: float = 0.01, surrogate: Surrogate | None = None) -> dict[str, Any]:
    """Estimate the probability of the upper quantile many times; the truth is that of the candidates.

    Returns: the gain: how many times more plain runs would give the same mean square error, and its 95 % interval; the
        relative bias with its standard error; extremes among the runs.
    """
    parameters, quantities = population()
    threshold = float(np.quantile(quantities, 1 - probability))
    errors, extremes = [], []
    for loop in range(loops):
        estimate, truth = replay(parameters, quantities, threshold, np.random.default_rng(loop), surrogate)
        errors.append(estimate.probability - truth)
        extremes.append(estimate.extremes)
        print(f"\r{loop + 1}/{loops}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    truth = float((quantities > threshold).mean())
    wrong = np.array(errors) / truth
    squares = wrong**2 * sum(ROUNDS) * truth / (1 - truth)  # in those of as many plain runs
    return {
        "rare_event_gain": rounded(1 / squares.mean()),
        "rare_event_gain_interval": [rounded(bound) for bound in bootstrap(squares)],
        "rare_event_bias": rounded(wrong.mean()),
        "rare_event_bias_error": rounded(wrong.std(ddof=1) / np.sqrt(loops)),
        "rare_event_error": rounded(np.sqrt((wrong**2).mean())),
        "rare_event_plain_error": rounded(np.sqrt((1 - truth) / truth / sum(ROUNDS))),
        "rare_event_extremes": rounded(float(np.mean(extremes))),
        "rare_event_probability": rounded(truth),
        "rare_event_runs": sum(ROUNDS),
        "rare_event_loops": loops,
    }


def replay(
    parameters: np.ndarray,
    quantities: np.ndarray,
    threshold: float,
    rng: np.random.Generator,
    surrogate: Surrogate | None = None,
) -> tuple[Estimate, float]:
    """Estimate once from stored runs. Returns: the estimate, and what it would be if every candidate were simulated."""
    dealt = np.array_split(rng.permutation(len(parameters)), len(ROUNDS))
    hands = iter(dealt)
    stored = {row.tobytes(): quantity for row, quantity in zip(parameters, quantities, strict=True)}
    estimate = guided(
        lambda _: parameters[next(hands)],
        lambda chosen: np.array([stored[row.tobytes()] for row in chosen]),
        threshold,
        rng,
        rounds=ROUNDS,
        surrogate=surrogate,
    )
    return estimate, float(round_weights(ROUNDS) @ [(quantities[hand] > threshold).mean() for hand in dealt])


def bootstrap(squares: np.ndarray, draws: int = 2000) -> tuple[float, float]:
    """95 % of the gains that other replays of as many loops would give."""
    rng = np.random.default_rng(0)
    means = rng.choice(squares, (draws, len(squares))).mean(axis=1)
    low, high = np.percentile(1 / means, [2.5, 97.5])
    return float(low), float(high)


if __name__ == "__main__":
    main()
