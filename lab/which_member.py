"""Which member to simulate next, so that a surrogate of the ensemble becomes good soonest: uncertainty against random.

    python -m lab.which_member --json --figure docs/figures/which_member.png

Members are the stored population of jets (8 parameters -> logarithm of the largest meridional wind of day 6). Five
networks are fitted to those simulated so far; the next are chosen at random, or where the networks disagree and nothing
near was chosen. Errors are those of their mean on members that are never chosen.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lab.rare_events import population
from steersman.dashboard import style

NETWORKS, WIDTH, STEPS, RATE = 5, 48, 400, 5e-3
SIZES = (64, 128, 256, 512)
HELD_OUT = 560

Choose = Callable[[np.ndarray, np.ndarray, np.ndarray, int, np.random.Generator], np.ndarray]


def main(argv: Sequence[str] | None = None) -> None:
    """Learn under both policies, and print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--figure", type=Path, help="PNG of the errors against the members simulated")
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    errors: dict[str, list[np.ndarray]] = {name: [] for name in POLICIES}
    for seed in range(given.seeds):
        for name, choose in POLICIES.items():
            errors[name].append(learned(choose, seed))
            print(seed, name, errors[name][-1][-1].round(4), file=sys.stderr, flush=True)
    stacked = {name: np.stack(each) for name, each in errors.items()}
    if given.figure:
        draw(stacked, given.figure)
    print(json.dumps({"members": SIZES, "seeds": given.seeds, **summary(stacked)}))


def learned(choose: Choose, seed: int) -> np.ndarray:
    """(sizes, 2): root mean square and 95th percentile of errors on members held out, over the quantity's spread."""
    parameters, quantities = population()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(parameters))
    held_out, pool = order[:HELD_OUT], order[HELD_OUT:]
    chosen, found = pool[: SIZES[0]], []
    for more in (*np.diff(SIZES), 0):
        fitted = networks(parameters[chosen], quantities[chosen], seed)
        wrong = np.abs(fitted(parameters[held_out]).mean(0) - quantities[held_out]) / quantities.std()
        found.append((np.sqrt((wrong**2).mean()), np.percentile(wrong, 95)))
        rest = np.setdiff1d(pool, chosen)
        spread = fitted(parameters[rest]).std(0)
        chosen = np.concatenate([chosen, rest[choose(parameters[rest], spread, parameters[chosen], int(more), rng)]])
    return np.array(found)


def at_random(
    points: np.ndarray, spread: np.ndarray, known: np.ndarray, more: int, rng: np.random.Generator
) -> np.ndarray:
    """Any members."""
    return rng.choice(len(points), more, replace=False)


def uncertain_and_diverse(
    points: np.ndarray, spread: np.ndarray, known: np.ndarray, more: int, rng: np.random.Generator
) -> np.ndarray:
    """One after another the member with the largest product of spread and distance to the nearest that is chosen."""
    near = np.full(len(points), np.inf)
    for each in known:
        near = np.minimum(near, np.linalg.norm(points - each, axis=1))
    chosen: list[int] = []
    for _ in range(more):
        chosen.append(int((spread * near).argmax()))
        near = np.minimum(near, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.array(chosen, int)


POLICIES: dict[str, Choose] = {"random": at_random, "uncertain and diverse": uncertain_and_diverse}


def networks(parameters: np.ndarray, quantities: np.ndarray, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Fit five networks of two hidden layers side by side, each to a bootstrap sample. Returns: (n, 8) -> (5, n)."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (parameters.shape[1], WIDTH, WIDTH, 1)
    layers = [torch.randn(NETWORKS, a + 1, b, generator=generator) / a**0.5 for a, b in itertools.pairwise(sizes)]
    mean, scale = quantities.mean(), quantities.std()
    sample = torch.randint(len(parameters), (NETWORKS, len(parameters)), generator=generator)
    x, y = torch.tensor(parameters).float()[sample], torch.tensor((quantities - mean) / scale).float()[sample]
    optimizer = torch.optim.AdamW([layer.requires_grad_() for layer in layers], lr=RATE, weight_decay=1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.autograd.backward((through(layers, x) - y).square().mean(1).sum())
        optimizer.step()

    @torch.no_grad()
    def predict(points: np.ndarray) -> np.ndarray:
        every = torch.tensor(points).float().expand(NETWORKS, *points.shape)
        return np.asarray(through(layers, every).numpy() * scale + mean)

    return predict


def through(layers: list[Tensor], x: Tensor) -> Tensor:
    """(networks, n, d) -> (networks, n); the last row of a layer is its bias."""
    for number, layer in enumerate(layers):
        x = torch.baddbmm(layer[:, -1:], x, layer[:, :-1])
        x = x if number == len(layers) - 1 else torch.tanh(x)
    return x[..., 0]


def summary(errors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Means over the seeds; and how much smaller the second policy's are, in %, with its standard error."""
    first, second = errors.values()
    gain = 100 * (1 - second / first)
    report = {
        name: {"rms": np.round(each.mean(0)[:, 0], 4).tolist(), "p95": np.round(each.mean(0)[:, 1], 4).tolist()}
        for name, each in errors.items()
    }
    error = gain.std(0, ddof=1) / np.sqrt(len(gain))
    saved = {"rms": gain.mean(0)[:, 0], "rms_error": error[:, 0], "p95": gain.mean(0)[:, 1], "p95_error": error[:, 1]}
    return report | {"smaller_percent": {name: np.round(each, 1).tolist() for name, each in saved.items()}}


def draw(errors: dict[str, np.ndarray], path: Path) -> None:
    """Both errors of both policies; bands are the standard error of the mean over the seeds."""
    with style.applied():
        figure = style.sheet(2.6)
        for axes, column, label in zip(
            figure.subplots(1, 2), (0, 1), ("root mean square", "95th percentile"), strict=True
        ):
            for (name, each), colour in zip(errors.items(), (style.GREY, style.BLUE), strict=True):
                mean, half = each[..., column].mean(0), each[..., column].std(0, ddof=1) / np.sqrt(len(each))
                axes.plot(SIZES, mean, "o-", color=colour, label=name)
                axes.fill_between(SIZES, mean - half, mean + half, color=colour, alpha=0.3)
            axes.set(xscale="log", xlabel="members simulated", ylabel=f"{label} of the error (spreads)", ylim=(0, None))
            axes.set_xticks(SIZES, map(str, SIZES))
            axes.minorticks_off()
            style.legend_above(axes)
        figure.savefig(path, dpi=170)


if __name__ == "__main__":
    main()
