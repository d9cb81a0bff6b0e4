"""What is a label worth? A force field learned by doubt, by labels at random, and by all labels at once.

    python -m lab.force_field --keep FOLDER --arm doubt --seeds 1 6 --out lines.jsonl     # goes on where it was stopped
    python -m lab.force_field --out lines.jsonl                                           # the table

`doubt` is `steersman run force_field` without its goal, `random` the same with every label drawn at random among the
frames that the newest model visited, `before` a potential of as many rattled crystals. `itself` is the expensive code
with another seed: what chance alone does. Each is judged on frames of the expensive code's own dynamics, which no arm
sees, and by its own dynamics beside that.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from ase.calculators.emt import EMT

import steersman
from steersman import Out, Start, models
from steersman.apps import atoms
from steersman.benchmarks.train import say
from steersman.stages import loading
from steersman.system.errors import BadValue

ARMS = ("doubt", "random", "before", "itself")
LABELS, LEARNED = 120, 100  # a run labels more than its network learns from, for its audits
TEMPERATURE_K, GOOD = 2000.0, 0.05  # eV/angstrom, of a component of a force
FILE = Path(steersman.__file__).parent / "workflows" / "force_field.py"
RULE = 'label=lambda p: Doubtful("spread", above=p.doubt, most=10, audits=0.1)'
KNOWN = ("positions", "cell", "energy", "forces")
Arrays = dict[str, np.ndarray]
Stage = tuple[float, int, models.Potential]  # seconds since the command, calls, the potential that they gave


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.force_field", description=__doc__)
    parser.add_argument("--keep", type=Path, default=Path("runs/force-field"))
    parser.add_argument("--arm", choices=ARMS)
    parser.add_argument("--seeds", type=int, nargs=2, default=(1, 6))
    parser.add_argument("--cost", type=float, default=5.0, help="seconds that a call of the expensive code waits")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args(list(arguments))
    if chosen.arm is None:
        table(chosen.out)
        return
    chosen.keep.mkdir(parents=True, exist_ok=True)
    done = {(each["arm"], each["seed"]) for each in lines(chosen.out)}
    for seed in range(*chosen.seeds):
        if (chosen.arm, seed) not in done:
            line = {"arm": chosen.arm, "seed": seed, "cost_s": chosen.cost}
            line |= replica(chosen.arm, seed, chosen.keep, chosen.cost)
            with chosen.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            say(json.dumps(line))


def replica(arm: str, seed: int, keep: Path, cost: float) -> dict[str, Any]:
    """How good each potential of an arm is, and what dynamics by the last one say."""
    torch.set_num_threads(1)
    truth, facts, stages = dynamics(EMT(), 1000 + seed), dict[str, Any](), list[Stage]()
    if arm in ("doubt", "random"):
        facts, stages = loop(arm, seed, keep, cost)
    elif arm == "before":
        stages = before(seed, cost)
    facts["models"] = [
        (after, calls, float(np.abs(said(each.calculator(), truth)[1] - truth["forces"]).mean()))
        for after, calls, each in stages
    ]
    facts["load"] = os.getloadavg()[2]
    return facts | judged(stages[-1][2].calculator() if stages else EMT(), truth, seed)


def loop(arm: str, seed: int, keep: Path, cost: float) -> tuple[dict[str, Any], list[Stage]]:
    """A run of Steersman, timed from the command to each model that it accepts."""
    folder = Path(mkdtemp(prefix=f"{arm}-{seed}-", dir=keep))
    file, text = folder / "force_field.py", FILE.read_text()
    assert RULE in text
    at_random = 'label=Doubtful("spread", above=1e9, most=10, audits=1.0)'
    file.write_text(text.replace(RULE, at_random) if arm == "random" else text)
    changed = {"labels": LABELS, "learn": LEARNED, "trust": 1e-9, "cost_s": cost}  # a goal that it does not reach
    began = time.time()
    run = steersman.run(file, run_dir=folder / "run", seed=seed, workers=1, set=changed)
    labels, used = run.labels, run.models[run.models["accepted"].fillna(False)]
    audits = labels[labels["drawn"] & (labels["model"] == labels["model"].max())]["error"].dropna()
    stages = []
    for version, each in used.iterrows():
        potential = models.Potential.load(run.path / "models" / f"{version:04d}")
        after, calls = each["began"].timestamp() + each["seconds"] - began, (labels["answered"] <= each["began"]).sum()
        stages.append((after, int(calls), potential))
    return {
        "failed": int((run.segments["how"] == "failed").sum()), "explored_ps": float(run.state["simulated"]),
        "audit_95": float(audits.quantile(0.95)),
    }, stages  # fmt: skip


def before(seed: int, cost: float) -> list[Stage]:
    """All labels before the first training. Its clock is its own processor time, and the calls' waits."""
    began, known = time.process_time(), rattled(seed, LEARNED)
    potential = models.Potential.fit(*(known[name] for name in KNOWN), numbers=crystal().numbers, seed=seed)
    return [(time.process_time() - began + cost * LEARNED, LEARNED, potential)]


def crystal() -> Any:
    """As in the workflow."""
    prepare = loading.load(FILE).prepare_function
    assert prepare is not None
    return prepare(None)


def rattled(seed: int, frames: int) -> Arrays:
    """Labels of rattled crystals."""
    out = Out(seed=seed, frames=10**6, seconds=600)
    atoms.rattle(Start(crystal()), out, EMT(), frames=frames, stdev=0.2, strain=0.04)
    return {name: out.stored[name] for name in KNOWN}


def dynamics(calculator: Any, seed: int) -> Arrays:
    """Frames of 20 ps, each 0.1 ps, without the first 2, up to where it explodes."""
    out = Out(seed=seed, frames=10**6, seconds=1200)
    try:
        atoms.run(Start(crystal()), out, calculator, temperature_K=TEMPERATURE_K, timestep_fs=4, segment_ps=20,
                  frame_ps=0.1)  # fmt: skip
    except BadValue as error:
        say(f"it exploded after {out.frames} frames: {error}")
    frames = {name: out.stored[name] for name in (*KNOWN, "temperature")}
    wild = (frames["temperature"] > 3 * TEMPERATURE_K) | (np.abs(frames["forces"]).max(axis=(1, 2)) > 100)
    return {name: each[20 : int(np.argmax([*wild, True]))] for name, each in frames.items()}


def said(calculator: Any, frames: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Energy (n,) and forces (n, A, 3) of frames."""
    alloy, energy, forces = crystal(), [], []
    alloy.calc = calculator
    for positions, cell in zip(frames["positions"], frames["cell"], strict=True):
        alloy.set_cell(cell)
        alloy.positions = positions
        energy.append(alloy.get_potential_energy())
        forces.append(alloy.get_forces())
    return np.array(energy), np.array(forces)


def judged(calculator: Any, truth: Arrays, seed: int) -> dict[str, float]:
    """Errors on frames of the expensive code, and on its own, and what the dynamics of each say."""
    ours = dynamics(calculator, 2000 + seed)
    atom_count, shapes = truth["forces"].shape[1], [radial(each) for each in (truth, ours)]
    errors = [said(calculator, truth)[1] - truth["forces"], said(EMT(), ours)[1] - ours["forces"]]
    worst = [float(np.quantile(np.linalg.norm(each, axis=-1).max(axis=1), 0.95)) for each in errors]
    return {
        "force_mae": float(np.abs(errors[0]).mean()), "worst_95": worst[0],
        "own_mae": float(np.abs(errors[1]).mean()), "own_worst_95": worst[1],
        "mean_energy": float((ours["energy"].mean() - truth["energy"].mean()) / atom_count),
        "radial": float(np.abs(shapes[0] - shapes[1]).sum() / shapes[0].sum()),
        "diffusion": diffusion(ours), "diffusion_truth": diffusion(truth),
        "blown": int(len(ours["energy"]) < len(truth["energy"])), "dynamics_ps": 2 + 0.1 * len(ours["energy"]),
    }  # fmt: skip


def radial(frames: Arrays) -> np.ndarray:
    """Histogram of distances below 4.1 angstrom, the nearest images, per frame."""
    box = np.diagonal(frames["cell"], axis1=1, axis2=2)[:, None, None, :]
    apart = frames["positions"][:, :, None] - frames["positions"][:, None]
    distance = np.linalg.norm(apart - box * np.round(apart / box), axis=-1)
    pairs = distance[:, ~np.eye(distance.shape[1], dtype=bool)]
    return np.histogram(pairs, bins=60, range=(1.5, 4.1))[0] / len(pairs)


def diffusion(frames: Arrays) -> float:
    """Slope of the mean squared displacement between 1 and 5 ps, over 6, angstrom^2/ps."""
    path = frames["positions"] - frames["positions"].mean(axis=1, keepdims=True)
    lags = np.arange(10, 51)
    squared = [((path[lag:] - path[:-lag]) ** 2).sum(axis=-1).mean() for lag in lags]
    return float(np.polyfit(0.1 * lags, squared, 1)[0] / 6)


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def table(out: Path) -> None:
    """Medians over seeds, and the least and largest."""
    every = lines(out)
    usual = np.mean(
        [each[name] for each in every if each["arm"] == "itself" for name in ("diffusion", "diffusion_truth")]
    )
    for each in every:
        good = [after for after, _, error in each.get("models", []) if error <= GOOD]
        each |= {"seconds_to_good": min(good, default=np.inf), "diffusion_ratio": each["diffusion"] / usual}
    names = ("force_mae", "worst_95", "own_mae", "own_worst_95", "audit_95", "mean_energy", "radial", "diffusion_ratio",
             "explored_ps", "failed", "blown", "dynamics_ps", "seconds_to_good", "load")  # fmt: skip
    for arm in ARMS:
        of = [each for each in every if each["arm"] == arm]
        say(f"{arm}, {len(of)} seeds")
        for name in names:
            if values := [each[name] for each in of if name in each]:
                say(f"  {name:<16} {np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})")


if __name__ == "__main__":
    main(sys.argv[1:])
