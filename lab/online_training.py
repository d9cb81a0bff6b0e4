r"""Does a network learn more from samples that it uses as they arrive? Diffraction patterns, the same steps four ways.

    python -m lab.online_training --patterns patterns.npz --results online.jsonl \
        --figure docs/figures/online_training.png

Patterns are drawn evenly and come one after another. Each time `every` more are there, a network that names their
classes is trained: with `epochs` passes over all that came so far, from the last weights, as workflows do; on a
reservoir, which goes on, with and without what its optimizer remembers; or on the first two hundred alone. Each way
takes the same gradient steps in all, and its last network is judged by patterns that none saw. A seed is of the
weights, the draws, and the order in which the patterns come. The same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from steersman.apps import diffraction as cbed
from steersman.dashboard import style
from steersman.models import Committee, Reservoir

BATCH, WINDOW = 32, 200
FIXED, GROWING, STREAM, RESTARTED = "fixed window", "growing window", "stream", "stream, new optimizer"
COLOURS = {FIXED: style.INK, GROWING: style.BLUE, STREAM: style.VERMILION, RESTARTED: style.ORANGE}
Patterns = Mapping[str, np.ndarray]


def main(argv: Sequence[str] | None = None) -> None:
    """Simulate, train in each way, print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--patterns", type=Path, required=True, help="where they are kept; simulated when missing")
    parser.add_argument("--results", type=Path, required=True, help="a row of JSON for each way and seed, kept")
    parser.add_argument("--arriving", type=int, default=1000)
    parser.add_argument("--held-out", type=int, default=300)
    parser.add_argument("--every", type=int, default=100, help="patterns from one training to the next")
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 3], help="of the growing window: steps for all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--figure", type=Path, help="PNG of the held-out errors")
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    known = simulated(given.patterns, given.arriving + given.held_out)
    judged = {name: values[given.arriving :] for name, values in known.items()}
    for epochs, seed, arm in itertools.product(given.epochs, range(given.seeds), COLOURS):
        if (epochs, seed, arm) in {(row["epochs"], row["seed"], row["arm"]) for row in read(given.results)}:
            continue
        order = np.random.default_rng(seed).permutation(given.arriving)
        learnt = {name: values[order] for name, values in known.items()}
        began = time.process_time()
        found = trained(arm, learnt, judged, given.every, epochs, seed)
        row = {"epochs": epochs, "seed": seed, "arm": arm, "cpu_s": round(time.process_time() - began, 1)} | found
        with given.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
    rows = list(read(given.results))
    if given.figure:
        draw(rows, given.figure)
    sizes = {"arriving": given.arriving, "held_out": given.held_out, "every": given.every, "batch": BATCH}
    cost = {"pattern_cpu_s": round(float(np.median(known["cpu_s"])), 3)}
    print(json.dumps(sizes | cost | {"ends": ends(rows), "rows": rows}))


def simulated(path: Path, count: int) -> dict[str, np.ndarray]:
    """Patterns of points drawn evenly: `seen` (n, 1, 120, 85), `label` (n,), and `cpu_s` that each took."""
    if not path.exists():
        made, spent = [], []
        points = np.random.default_rng((7, 0)).random((count, cbed.DIMENSIONS))
        for seed, point in enumerate(points):
            began = time.process_time()
            made.append(cbed.counts(cbed.Conditions.of(point), seed))
            spent.append(time.process_time() - began)
        labels = np.array([cbed.Conditions.of(point).label for point in points])
        np.savez_compressed(path, pattern=np.array(made), label=labels, cpu_s=spent)
    kept = np.load(path)
    return {"seen": cbed.seen(kept["pattern"][:count]), "label": kept["label"][:count], "cpu_s": kept["cpu_s"][:count]}


def trained(arm: str, learnt: Patterns, judged: Patterns, every: int, epochs: int, seed: int) -> dict[str, float]:
    """Train in one way; gives the steps, how many `different` patterns they used, and what held-out ones say."""
    arrived = range(every, len(learnt["label"]) + 1, every)
    steps = [epochs * -(-count // BATCH) for count in arrived]  # of the growing window
    each = sum(steps) // len(steps)  # of the others, whose trainings are all alike
    model, done, different, pass_over = None, 0, 0, -(-WINDOW // BATCH)
    for number, count in enumerate(arrived):
        if arm == GROWING:
            model = fitted(learnt, count, epochs=epochs, init=model, seed=seed + 1000 * number)
            done, different = done + steps[number], count
        elif arm == FIXED:
            passes = max(1, round((each * (number + 1) - done) / pass_over))
            model = fitted(learnt, WINDOW, epochs=passes, init=model, seed=seed + 1000 * number)
            done, different = done + passes * pass_over, WINDOW
        else:
            reservoir = Reservoir(np.arange(count), uses=2 * -(-each * BATCH // every), steps=each)
            model = fitted(learnt, count, epochs=1, init=model, seed=seed, reservoir=reservoir)
            done, different = model.card["reservoir"]["drawn"] // BATCH, model.card["reservoir"]["different"]
            if arm == RESTARTED:
                model.stream = {name: value for name, value in model.stream.items() if not name.startswith("moments/")}
    assert model is not None
    found = model.judgement(judged["seen"], judged["label"])
    report = {name: round(float(found[name].mean()), 4) for name in ("wrong", "error")}
    return {"steps": done, "different": different} | report


def fitted(learnt: Patterns, count: int, **settings: Any) -> Committee:
    """Go on with one network, on the first patterns."""
    return Committee.fit(
        learnt["seen"][:count], learnt["label"][:count], classes=cbed.CLASSES, members=1, batch=BATCH, **settings
    )


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of results."""
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def ends(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Median, lowest and highest of the seeds, for each way."""
    found = []
    for epochs, arm in dict.fromkeys((row["epochs"], row["arm"]) for row in rows):
        these = [row for row in rows if (row["epochs"], row["arm"]) == (epochs, arm)]
        report = {
            name: np.quantile([row[name] for row in these], (0.5, 0, 1)).round(4).tolist()
            for name in ("wrong", "error")
        }
        same = {name: these[0][name] for name in ("steps", "different")}
        found.append({"epochs": epochs, "arm": arm, "seeds": len(these)} | same | report)
    return found


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A bar for each way, its median, and a dot for each seed; a panel for each number of steps."""
    figure = style.sheet(2.2)
    budgets = list(dict.fromkeys(row["epochs"] for row in rows))
    panels = np.atleast_1d(figure.subplots(1, len(budgets), sharex=True, sharey=True))
    for axes, epochs in zip(panels, budgets, strict=True):
        for place, (arm, colour) in enumerate(COLOURS.items()):
            values = [row["wrong"] for row in rows if (row["epochs"], row["arm"]) == (epochs, arm)]
            if values:
                axes.barh(place, np.median(values), color=colour, alpha=0.35, height=0.7)
                axes.plot(values, [place] * len(values), "o", color=colour, markersize=4)
        steps = [row["steps"] for row in rows if row["epochs"] == epochs]
        axes.set(xlabel="share named wrongly", title=f"{min(steps)} to {max(steps)} gradient steps")
    panels[0].set_yticks(range(len(COLOURS)), COLOURS)
    panels[0].invert_yaxis()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
