"""What is a label worth? A force field learned by doubt, by labels at random, and by all labels before it simulates.

    python -m lab.force_field --keep FOLDER --arm doubt --seeds 1 6 --out lines.jsonl     # goes on where it was stopped
    python -m lab.force_field --out lines.jsonl                                           # the table

`doubt` is `steersman run force_field` without its goal, `random` the same with every label drawn at random among the
frames that the newest model visited, `before` a potential of as many rattled crystals. Each is judged on frames of the
expensive code's own dynamics, which no arm sees, and by its own dynamics beside that: energy and radial distribution.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ase.calculators.emt import EMT

import steersman
from steersman import Out, Start, models
from steersman.apps import atoms
from steersman.benchmarks.train import say
from steersman.stages import loading

ARMS = ("doubt", "random", "before")
LABELS, TEMPERATURE_K = 120, 2000.0
FILE = Path(steersman.__file__).parent / "workflows" / "force_field.py"
RULE = 'label=lambda p: Doubtful("spread", above=p.doubt, most=10, audits=0.1)'


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.force_field", description=__doc__)
    parser.add_argument("--keep", type=Path, default=Path("runs/force-field"))
    parser.add_argument("--arm", choices=ARMS)
    parser.add_argument("--seeds", type=int, nargs=2, default=(1, 6))
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args(list(arguments))
    if chosen.arm is None:
        table(chosen.out)
        return
    chosen.keep.mkdir(parents=True, exist_ok=True)
    done = {(each["arm"], each["seed"]) for each in lines(chosen.out)}
    for seed in range(*chosen.seeds):
        if (chosen.arm, seed) not in done:
            line = {"arm": chosen.arm, "seed": seed, **replica(chosen.arm, seed, chosen.keep)}
            with chosen.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            say(json.dumps(line))


def replica(arm: str, seed: int, keep: Path) -> dict[str, Any]:
    """A potential of one arm, and how good it is."""
    began, facts = time.monotonic(), dict[str, Any]()
    if arm == "before":
        potential = before(seed)
    else:
        file = keep / f"{arm}.py"
        text = FILE.read_text()
        assert RULE in text
        at_random = 'label=Doubtful("spread", above=1e9, most=10, audits=1.0)'
        file.write_text(text.replace(RULE, at_random) if arm == "random" else text)
        changed = {"labels": LABELS, "trust": 1e-9}  # a goal that it does not reach
        run = steersman.run(file, run_dir=keep / f"{arm}-{seed}", seed=seed, workers=1, set=changed)
        labels, used = run.labels, run.models[run.models["accepted"].fillna(False)]
        audits = labels[labels["drawn"] & (labels["model"] == labels["model"].max())]["error"].dropna()
        facts = {
            "labels": len(labels), "failed": int((run.segments["how"] == "failed").sum()),
            "simulated_ps": float(run.state["simulated"]), "audit_95": float(audits.quantile(0.95)),
        }  # fmt: skip
        potential = models.Potential.load(run.path / "models" / f"{used.index[-1]:04d}")
    return facts | {"seconds": time.monotonic() - began} | judged(potential, seed)


def crystal() -> Any:
    """As in the workflow."""
    prepare = loading.load(FILE).prepare_function
    assert prepare is not None
    return prepare(None)


def before(seed: int) -> models.Potential:
    """All labels before the first training, of rattled crystals."""
    out, alloy = Out(seed=seed, frames=10**6, seconds=600), crystal()
    atoms.rattle(Start(alloy), out, EMT(), frames=LABELS, stdev=0.25, strain=0.04)
    known = [out.stored[name] for name in ("positions", "cell", "energy", "forces")]
    return models.Potential.fit(*known, numbers=alloy.numbers, epochs=80, batch=8, seed=seed)


def dynamics(calculator: Any, seed: int) -> dict[str, np.ndarray]:
    """Frames of 8 ps, each 0.1 ps, without the first 2."""
    out = Out(seed=seed, frames=10**6, seconds=1200)
    atoms.run(Start(crystal()), out, calculator, temperature_K=TEMPERATURE_K, timestep_fs=4, segment_ps=8, frame_ps=0.1)
    return {name: out.stored[name][20:] for name in ("positions", "cell", "energy", "forces", "temperature")}


def judged(potential: models.Potential, seed: int) -> dict[str, float]:
    """Errors on frames of the expensive code, and what the dynamics of each say."""
    truth, ours = dynamics(EMT(), 1000 + seed), dynamics(potential.calculator(), 2000 + seed)
    energy, forces, _ = potential.said(truth["positions"], truth["cell"])
    worst = np.linalg.norm(forces - truth["forces"], axis=-1).max(axis=1)
    shapes = [radial(each) for each in (truth, ours)]
    return {
        "force_mae": float(np.abs(forces - truth["forces"]).mean()),
        "force_95": float(np.quantile(np.abs(forces - truth["forces"]), 0.95)),
        "worst_95": float(np.quantile(worst, 0.95)),
        "energy_mae": float(np.abs(energy - truth["energy"]).mean() / forces.shape[1]),
        "mean_energy": float((ours["energy"].mean() - truth["energy"].mean()) / forces.shape[1]),
        "radial": float(np.abs(shapes[0] - shapes[1]).sum() / shapes[0].sum()),
        "hottest": float(ours["temperature"].max()),
    }


def radial(frames: dict[str, np.ndarray]) -> np.ndarray:
    """Histogram of distances below 3.8 angstrom, the nearest images."""
    box = np.diagonal(frames["cell"], axis1=1, axis2=2)[:, None, None, :]
    apart = frames["positions"][:, :, None] - frames["positions"][:, None]
    distance = np.linalg.norm(apart - box * np.round(apart / box), axis=-1)
    return np.histogram(distance[:, ~np.eye(distance.shape[1], dtype=bool)], bins=60, range=(1.5, 3.8))[0] + 0.0


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(out: Path) -> None:
    """Medians over seeds, and the least and largest."""
    names = (
        "force_mae",
        "force_95",
        "worst_95",
        "audit_95",
        "energy_mae",
        "mean_energy",
        "radial",
        "failed",
        "seconds",
    )
    say(f"{'arm':<8} seeds  " + "  ".join(f"{name:>22}" for name in names))
    for arm in ARMS:
        of = [each for each in lines(out) if each["arm"] == arm]
        cells = []
        for name in names:
            values = [each[name] for each in of if name in each]
            words = f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})" if values else "-"
            cells.append(f"{words:>22}")
        say(f"{arm:<8} {len(of):>5}  " + "  ".join(cells))


if __name__ == "__main__":
    main(sys.argv[1:])
