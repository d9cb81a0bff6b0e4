"""What helps a network to find storms: weights of classes, LARC, gradient lag, bf16, channels. One training each.

    python -m lab.storm_masks RUN --results masks.jsonl --figure docs/figures/storm_masks_ablation.png

RUN is a run of the workflow storm_masks. All networks are trained on its flows and judged by those that it held out, by
the pooled intersection over union of cyclones and of rivers. The same command goes on after an interruption.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from steersman.apps import storms
from steersman.dashboard import style
from steersman.data.history import History
from steersman.journal import published, run_directory
from steersman.models.networks.pixels import confusion
from steersman.store import Window

BASE: dict[str, Any] = {
    "power": 0.5, "network": "tiramisu", "width": 0.25, "optimizer": "adam", "lr": 2e-3, "batch": 4,
    "strategy": "single", "precision": "fp32", "choice": "all",
}  # fmt: skip
LARGE = {"batch": 4 * BASE["batch"], "lr": 0.1}
ARMS: dict[str, dict[str, Any]] = {
    "Tiramisu, 1/√f": {},
    "unweighted": {"power": 0.0},
    "1/f": {"power": 1.0},
    "4 x batch, SGD": LARGE | {"optimizer": "sgd"},
    "4 x batch, LARC": LARGE | {"optimizer": "larc"},
    "gradient lag 1": {"strategy": "ddp(lag=1)"},
    "bf16": {"precision": "bf16"},
    "u, v, divergence, q": {"choice": "indirect"},
    "DeepLabv3+": {"network": "deeplab", "width": 0.125},
}
STRENGTHS = 0.6, 0.7, 0.8, 0.9, 1.0  # of the rule's thresholds, on observations


def main(argv: Sequence[str] | None = None) -> None:
    """Train all arms, print one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--results", type=Path, required=True, help="a row of JSON for each training, kept")
    parser.add_argument("--flows", type=int, default=100, help="the first of the run to train on")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--figure", type=Path, help="PNG of the results")
    given = parser.parse_args(argv)
    torch.set_num_threads(1)
    learnt, judged = (flows(given.run, held_out=held_out) for held_out in (False, True))
    learnt = {name: values[: given.flows] for name, values in learnt.items()}
    for seed in range(given.seeds):
        for arm, settings in ARMS.items():
            if (arm, seed) not in {(row["arm"], row["seed"]) for row in read(given.results)}:
                row = {"arm": arm, "seed": seed} | trained(learnt, judged, given.epochs, seed, BASE | settings)
                print(json.dumps(row), file=sys.stderr, flush=True)
                with given.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    rows, rule = list(read(given.results)), by_rule(learnt, judged)
    if given.figure:
        draw(rows, rule, given.figure)
    sizes = {"flows": len(learnt["mask"]), "held_out": len(judged["mask"]), "epochs": given.epochs}
    print(json.dumps(sizes | {"rule": rule, "results": rows}))


def flows(run: Path, *, held_out: bool) -> dict[str, np.ndarray]:
    """Frames of a run that its trainings saw, or those that they did not, in order of their starts."""
    directory = run_directory.open_run(run)
    window = Window(directory.frames, published.spans(History(directory).state, held_out=held_out))
    return {name: window[name] for name in ("observed", "mask", "ruled", "point")}


def trained(
    learnt: Mapping[str, np.ndarray], judged: Mapping[str, np.ndarray], epochs: int, seed: int, settings: dict[str, Any]
) -> dict[str, Any]:
    """Train one network, give its intersection over union, and the processor seconds that it took."""
    began = time.process_time()
    model = storms.fitted(learnt, members=1, epochs=epochs, seed=seed, **settings)
    spent = time.process_time() - began
    found = storms.judged(model, judged, settings["choice"])
    return storms.pooled(found, np.ones(len(judged["mask"]), bool)) | {"cpu_s": round(spent, 1)}


def by_rule(learnt: Mapping[str, np.ndarray], judged: Mapping[str, np.ndarray]) -> dict[str, float]:
    """The rule on observations, with its thresholds times the strength that does best on the flows to learn from."""

    def iou(flows: Mapping[str, np.ndarray], strength: float) -> dict[str, float]:
        found = np.stack([storms.ruled(fields, strength) for fields in flows["observed"]])
        counts = confusion(flows["mask"], found, len(storms.CLASSES)).reshape(len(found), -1)
        return storms.pooled({"confusion": counts}, np.ones(len(found), bool))

    best = max(STRENGTHS, key=lambda strength: sum(iou(learnt, strength)[name] for name in storms.CLASSES[1:]))
    return iou(judged, best) | {"strength": best}


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of results."""
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def draw(rows: Sequence[Mapping[str, Any]], rule: Mapping[str, float], path: Path) -> None:
    """A bar for each arm, a dot for each seed, a panel for each class; the rule as a line across."""
    figure = style.sheet(3.4)
    arms = [arm for arm in ARMS if any(row["arm"] == arm for row in rows)]
    panels = figure.subplots(1, len(storms.CLASSES) - 1, sharey=True)
    for axes, name, colour in zip(panels, storms.CLASSES[1:], (style.VERMILION, style.BLUE), strict=True):
        for place, arm in enumerate(arms):
            values = [row[name] for row in rows if row["arm"] == arm]
            axes.barh(place, np.mean(values), color=colour, alpha=0.35, height=0.7)
            axes.plot(values, [place] * len(values), "o", color=colour, markersize=4)
        axes.axvline(rule[name], color=style.INK, linestyle="--", linewidth=1, label="rule on what is seen")
        axes.set(xlabel=f"intersection over union, {name}s", xlim=(0, None))
    panels[0].set_yticks(range(len(arms)), arms)
    panels[0].invert_yaxis()
    panels[-1].legend(loc="lower left", bbox_to_anchor=(0, 1))
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
