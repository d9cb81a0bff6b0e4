"""How fast our molecular dynamics is, beside a bare OpenMM loop that reports as often.

    python benchmarks/molecular_dynamics.py --json

Both simulate the same System on the same platform in short slices that take turns, so that a noisy machine slows both.
The bare loop never starts anew; ours begins a new segment with every slice, as a walker does.
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
import openmm

from steersman.apps import molecular_dynamics as md
from steersman.apps.simulation_context import Settings, open_context
from steersman.apps.start import Start

TEMPERATURE_K = 300.0
SECONDS_PER_DAY = 86400.0


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one JSON object."""
    given = arguments().parse_args(argv)
    molecule = md.build_peptide(given.sequence)
    settings = Settings(TEMPERATURE_K, platform=given.platform)
    bare, context = bare_loop(molecule, settings, given)
    pairs = measured(our_segment(molecule, given), bare, given.pairs)
    print(json.dumps(summary(pairs, given, molecule, str(context.getPlatform().getName()))))


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--sequence", default="YYDPETGTWY", help="one letter per residue (chignolin CLN025)")
    parser.add_argument("--segment-ps", type=float, default=2.0, help="length of a slice")
    parser.add_argument("--report-ps", type=float, default=0.2, help="between two frames")
    parser.add_argument("--pairs", type=int, default=30, help="slices of each")
    parser.add_argument("--platform", default=None, help="an OpenMM platform; the fastest that works")
    return parser


def our_segment(molecule: md.Molecule, given: argparse.Namespace) -> Callable[[int], None]:
    """One segment of ours: begun anew, every frame with its contact map, velocities and checks."""

    def segment(seed: int) -> None:
        for _ in md.run(
            Start(molecule),
            temperature_K=TEMPERATURE_K,
            duration_ps=given.segment_ps,
            report_ps=given.report_ps,
            seed=seed,
            platform=given.platform,
        ):
            pass

    return segment


def bare_loop(
    molecule: md.Molecule, settings: Settings, given: argparse.Namespace
) -> tuple[Callable[[int], None], openmm.Context]:
    """What one writes without us: step, fetch positions and energy, look for NaN."""
    context = open_context(openmm.XmlSerializer.deserialize(molecule.system_xml), settings)
    context.setPositions(np.asarray(molecule.positions, np.float64))
    context.setVelocitiesToTemperature(TEMPERATURE_K, 1)
    integrator, steps = context.getIntegrator(), round(given.report_ps * 1000 / settings.timestep_fs)

    def loop(_: int) -> None:
        for _ in range(round(given.segment_ps / given.report_ps)):
            integrator.step(steps)
            state = context.getState(positions=True, energy=True)
            if not np.isfinite(state.getPositions(asNumpy=True)).all():
                raise ArithmeticError("NaN in the bare loop")

    return loop, context


def measured(ours: Callable[[int], None], bare: Callable[[int], None], pairs: int) -> np.ndarray:
    """Run slices in turns. Returns: (pairs, 2) float64, wall seconds of ours and of the bare loop."""
    ours(0), bare(0)  # warm both up
    seconds = []
    for number in range(1, pairs + 1):
        order = (ours, bare) if number % 2 else (bare, ours)  # neither is always first
        taken = {run: timed(run, number) for run in order}
        seconds.append((taken[ours], taken[bare]))
        print(f"\rpair {number}/{pairs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return np.array(seconds)


def timed(run: Callable[[int], None], seed: int) -> float:
    """Wall seconds of one slice."""
    began_s = time.perf_counter()
    run(seed)
    return time.perf_counter() - began_s


def summary(seconds: np.ndarray, given: argparse.Namespace, molecule: md.Molecule, platform: str) -> dict[str, Any]:
    """Condense the slices; the ratio is the median over pairs, in which a noisy second counts once."""
    ours_s, bare_s = median(seconds[:, 0]), median(seconds[:, 1])
    ns_per_day = given.segment_ps / 1000 * SECONDS_PER_DAY
    quartiles = np.percentile(seconds[:, 1] / seconds[:, 0], [25, 50, 75]).round(4)
    return {
        "ratio_to_bare": float(quartiles[1]),
        "ratio_quartiles": [float(quartiles[0]), float(quartiles[2])],
        "ns_per_day": round(ns_per_day / ours_s, 2),
        "bare_ns_per_day": round(ns_per_day / bare_s, 2),
        "atoms": molecule.atoms,
        "platform": platform,
        "segment_ps": given.segment_ps,
        "report_ps": given.report_ps,
        "pairs": len(seconds),
    }


if __name__ == "__main__":
    main()
