"""How often a jet breeds a storm with winds above 12.4 m/s: 200 guided runs, live, beside plain sampling.

PYTHONPATH=. python docs/figures/rare_events.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab.jet_population import storms
from lab.rare_events import ROUNDS, population, replay
from steersman.dashboard import style
from steersman.steering.rare_events import Estimate, guided, plain

THRESHOLD_M_S, REPLAYS, SEED = 12.4, 100, 1


def live() -> Estimate:
    """Simulate 200 jets, chosen in five rounds among fresh candidates."""
    return guided(
        lambda rng: rng.standard_normal((10_000, 8)),
        lambda parameters: np.log(storms(parameters)),
        np.log(THRESHOLD_M_S),
        np.random.default_rng(SEED),
        rounds=ROUNDS,
    )


def replays(parameters: np.ndarray, quantities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimates of 200 runs each, guided and plain, from the stored population; (REPLAYS,) both."""
    guided_ones, plain_ones = [], []
    for seed in range(REPLAYS):
        rng = np.random.default_rng(seed)
        guided_ones.append(replay(parameters, quantities, np.log(THRESHOLD_M_S), rng)[0].probability)
        plain_ones.append((rng.choice(quantities, sum(ROUNDS), replace=False) > np.log(THRESHOLD_M_S)).mean())
    return np.array(guided_ones), np.array(plain_ones)


def main() -> None:
    parameters, quantities = population()
    estimates = {
        "200 plain runs": plain(quantities[:200], np.log(THRESHOLD_M_S)),
        "200 guided runs": live(),
        "2,560 plain runs": plain(quantities, np.log(THRESHOLD_M_S)),
    }
    for name, estimate in estimates.items():
        print(f"{name}: {estimate}")
    found = replays(parameters, quantities)
    with style.applied():
        figure = style.sheet(2.4)
        left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
        for place, (_, estimate) in enumerate(estimates.items()):
            low, high = estimate.interval
            left.plot([100 * low, 100 * high], [place, place], linewidth=3, color=f"C{place}")
            left.plot(100 * estimate.probability, place, "o", color=f"C{place}")
        left.set_yticks(range(len(estimates)), list(estimates))
        left.set_ylim(len(estimates) - 0.5, -0.5)
        left.set_xlim(0, None)
        left.set_xlabel("storms above 12.4 m/s, % of jets, with 95 % interval")
        bins = np.arange(-0.25, 4, 0.25)
        right.hist(100 * found[1], bins=bins, color="C0", alpha=0.5, label="plain")
        right.hist(100 * found[0], bins=bins, color="C1", alpha=0.7, label="guided")
        right.axvline(100 * (quantities > np.log(THRESHOLD_M_S)).mean(), color="black", linewidth=0.8)
        right.set_xlabel("estimate from 200 stored runs, %")
        right.set_ylabel(f"of {REPLAYS} replays")
        right.legend()
        figure.savefig(Path(__file__).with_suffix(".png"), dpi=170)


if __name__ == "__main__":
    main()
