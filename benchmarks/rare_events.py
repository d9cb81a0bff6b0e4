"""How many simulations guided sampling saves: replayed on a stored population of 2,560 storms.

python benchmarks/rare_events.py --probability 0.01 0.05
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from steersman.benchmarks.jet_population import FILE
from steersman.steering.rare_events import Estimate, guided, round_weights

PARAMETERS = 8
ROUNDS = (60, 35, 35, 35, 35)  # 200 runs, as settled on an earlier population


def main(argv: Sequence[str] | None = None) -> None:
    """Replay, and print one JSON object per probability."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always JSON, an object a line")
    parser.add_argument("--probability", type=float, nargs="+", default=[0.01])
    parser.add_argument("--loops", type=int, default=100)
    given = parser.parse_args(argv)
    for probability in given.probability:
        print(json.dumps(replayed(given.loops, probability)), flush=True)


def population() -> tuple[np.ndarray, np.ndarray]:
    """The stored runs. Returns: (n, 8) parameters, and (n,) logarithm of the largest meridional wind."""
    stored = np.load(FILE).astype(np.float64)
    return stored[:, :PARAMETERS], np.log(stored[:, PARAMETERS])


def replayed(loops: int, probability: float = 0.01) -> dict[str, Any]:
    """Estimate the probability of the upper quantile many times; the truth is that of the candidates.

    Returns: the gain: how many times more plain runs would give the same mean square error, and its 95 % interval; the
        relative bias with its standard error; extremes among the runs.
    """
    parameters, quantities = population()
    threshold = float(np.quantile(quantities, 1 - probability))
    errors, extremes = [], []
    for loop in range(loops):
        estimate, truth = replay(parameters, quantities, threshold, np.random.default_rng(loop))
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
    parameters: np.ndarray, quantities: np.ndarray, threshold: float, rng: np.random.Generator
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
    )
    return estimate, float(round_weights(ROUNDS) @ [(quantities[hand] > threshold).mean() for hand in dealt])


def bootstrap(squares: np.ndarray, draws: int = 2000) -> tuple[float, float]:
    """95 % of the gains that other replays of as many loops would give."""
    rng = np.random.default_rng(0)
    means = rng.choice(squares, (draws, len(squares))).mean(axis=1)
    low, high = np.percentile(1 / means, [2.5, 97.5])
    return float(low), float(high)


def rounded(value: float) -> float:
    """Three figures."""
    return float(f"{value:.3g}")


if __name__ == "__main__":
    main()
