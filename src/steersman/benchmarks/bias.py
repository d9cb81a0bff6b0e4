"""What a bias along a model's coordinate costs: a step, a new version in a simulation, and making one.

    python -m steersman.benchmarks.bias --json

The biased and the plain context of a molecule take turns, so that a noisy machine slows both alike; figures are
processor time. The plain one is `md.run`'s own context without a bias.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from steersman.apps import molecular_dynamics as md
from steersman.apps.molecular_dynamics.biasing import Coordinate
from steersman.apps.molecular_dynamics.context import Settings, SimulationContext
from steersman.stages.start import Start
from steersman.steering import Bias, Opes, Scores

MOLECULES = {"alanine": ("A", True, "Reference"), "chignolin": ("YYDPETGTWY", False, "CPU")}
HIDDEN, DIMENSIONS, STEPS = 12, 3, 250


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="steersman bench bias", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--pairs", type=int, default=15, help="turns of the biased and the plain simulation")
    parser.add_argument("--frames", type=int, default=100_000, help="scored frames that a version is made of")
    given = parser.parse_args(argv)
    found = {name: steps(*how, given.pairs) for name, how in MOLECULES.items()}
    print(json.dumps({"bench": "bias", "dimensions": DIMENSIONS, "hidden": HIDDEN, **found, **version(given.frames)}))


def steps(
    sequence: str, capped: bool, platform: str | None, pairs: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Time of a biased step over that of a plain one, and of a new version, s: processor time, or that of a clock."""
    molecule = md.build_peptide(sequence, capped=capped)
    features = md.Distances.between(molecule) if capped else md.Distances.of_residues(molecule)
    settings = Settings(300.0, platform=platform)
    start: dict[str, Any] = {"temperature_K": 300.0, "duration_ps": 4.0, "seed": 1, "platform": platform}
    path = np.array([features.values(frame.positions) for frame in md.run(Start(molecule), **start)])
    rng = np.random.default_rng(0)
    scale = path.std() * np.sqrt(features.count)
    inner = rng.normal(size=(HIDDEN, features.count)) / scale, rng.normal(size=HIDDEN)
    inner = inner[0], -inner[0] @ path.mean(axis=0)
    outer = rng.normal(size=(DIMENSIONS, HIDDEN)), np.zeros(DIMENSIONS)
    linear = inner[0][:DIMENSIONS], inner[1][:DIMENSIONS]
    contexts = {"plain": SimulationContext(molecule, settings)}
    made: dict[str, float] = {"atoms": molecule.atoms, "features": features.count}
    for name, layers in (("linear", [linear]), ("tanh", [inner, outer])):
        began = clock()
        contexts[name] = SimulationContext(molecule, settings, Coordinate(features, layers))
        made[f"{name}_context_s"] = round(clock() - began, 3)
        z = path
        for number, (weights, offsets) in enumerate(layers):
            z = (np.tanh(z) if number else z) @ weights.T + offsets
        bias = made_of(z)
        contexts[name].begin(molecule.positions, None, 1, bias)
        made[f"{name}_version_s"] = round(timed(lambda name=name, z=z: contexts[name].begin(  # type: ignore[misc]
            molecule.positions, None, 1, made_of(z[:-1])), clock), 4)  # fmt: skip
    contexts["plain"].begin(molecule.positions, None, 1)
    seconds: dict[str, list[float]] = {name: [] for name in contexts}
    for number in range(pairs + 1):
        for name, context in contexts.items():
            seconds[name].append(timed(lambda context=context: advance(context), clock))  # type: ignore[misc]
        print(f"\r{sequence}: {number}/{pairs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    plain = np.array(seconds.pop("plain")[1:])
    made["plain_us"] = round(1e6 * median(plain) / STEPS, 1)
    return made | {f"{name}_ratio": round(median(np.array(each[1:]) / plain), 3) for name, each in seconds.items()}


def made_of(z: np.ndarray) -> Bias:
    n = len(z)
    values = {"z": z, "bias": np.zeros(n)}
    return Opes("z", barrier_kT=14).made(
        Scores(np.zeros(n, int), np.arange(n), np.arange(n) // 20, np.zeros(n), np.zeros(n), values, 1)
    )


def version(frames: int) -> dict[str, float]:
    """Bytes that a start names and a walker reads, and how long the driver makes a version of so many frames."""
    z = np.random.default_rng(1).normal(size=(frames, DIMENSIONS))
    seconds = [timed(lambda: made_of(z)) for _ in range(3)]
    return {"frames": frames, "made_ms": round(1e3 * median(seconds), 1), "bytes": len(made_of(z).to_bytes())}


def advance(context: SimulationContext) -> None:
    """As far as a frame, and wait for it: a GPU steps beside this process."""
    context.step(STEPS)
    context.read()


def timed(act: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Processor time of a call, or that of a clock, s."""
    began = clock()
    act()
    return clock() - began


if __name__ == "__main__":
    main()
