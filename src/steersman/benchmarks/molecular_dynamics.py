"""How fast our molecular dynamics is, beside a bare OpenMM loop that reports as often.

    python -m steersman.benchmarks.molecular_dynamics --json

Both simulate the same System on the same platform and take turns frame by frame (some 50 ms), so that a noisy machine
slows both alike. The bare loop never starts anew; ours begins a new segment every 2 ps, as a walker does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
import openmm
from openmm import unit

from steersman.apps import molecular_dynamics as md
from steersman.apps.molecular_dynamics.context import Settings, open_context
from steersman.stages.start import Start

TEMPERATURE_K = 300.0
SECONDS_PER_DAY = 86400.0


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one JSON object."""
    given = arguments().parse_args(argv)
    molecule = md.build_peptide(given.sequence)
    settings = Settings(TEMPERATURE_K, platform=given.platform)
    context = open_context(openmm.XmlSerializer.deserialize(molecule.system_xml), settings)
    seconds = measured(molecule, bare_loop(context, molecule, given.report_ps), given)
    print(json.dumps(summary(seconds, given, molecule, str(context.getPlatform().getName()))))


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="steersman bench molecular-dynamics", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--sequence", default="YYDPETGTWY", help="one letter per residue (chignolin CLN025)")
    parser.add_argument("--segment-ps", type=float, default=2.0, help="length of our segments")
    parser.add_argument("--report-ps", type=float, default=0.2, help="between two frames")
    parser.add_argument("--pairs", type=int, default=40, help="segments")
    parser.add_argument("--platform", default=None, help="an OpenMM platform; the fastest that works")
    return parser


def our_segment(molecule: md.Molecule, given: argparse.Namespace, seed: int) -> Iterator[object]:
    """One segment of ours: begun anew, every frame with its contact map, velocities and checks."""
    return md.run(
        Start(molecule),
        temperature_K=TEMPERATURE_K,
        duration_ps=given.segment_ps,
        report_ps=given.report_ps,
        seed=seed,
        platform=given.platform,
    )


def bare_loop(context: openmm.Context, molecule: md.Molecule, report_ps: float) -> Iterator[object]:
    """What one writes without us: step, fetch positions and energy, look for NaN, forever."""
    context.setPositions(np.asarray(molecule.positions, np.float64))
    context.setVelocitiesToTemperature(TEMPERATURE_K, 1)
    integrator = context.getIntegrator()
    steps = round(report_ps / integrator.getStepSize().value_in_unit(unit.picosecond))
    while True:
        integrator.step(steps)
        state = context.getState(positions=True, energy=True)
        positions = state.getPositions(asNumpy=True).value_in_unit(unit.nanometer)
        if not np.isfinite(positions).all():
            raise ArithmeticError("NaN in the bare loop")
        yield positions


def measured(molecule: md.Molecule, bare: Iterator[object], given: argparse.Namespace) -> np.ndarray:
    """Run segments beside the bare loop. Returns: (pairs, 4) float64, s: wall and CPU of ours, then of bare."""
    seconds = []
    for number in range(given.pairs + 1):
        ours, frames = our_segment(molecule, given, number), round(given.segment_ps / given.report_ps)
        seconds.append(sum(np.concatenate([timed(ours), timed(bare)]) for _ in range(frames)))
        print(f"\rpair {number}/{given.pairs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return np.array(seconds[1:])  # the first one warms both up


def timed(frames: Iterator[object]) -> np.ndarray:
    """Get the next frame. Returns: (2,) float64, wall and CPU seconds."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    next(frames)
    return np.array([time.perf_counter() - wall_s, time.process_time() - cpu_s])


def summary(seconds: np.ndarray, given: argparse.Namespace, molecule: md.Molecule, platform: str) -> dict[str, Any]:
    """Condense the segments; a ratio is the median over pairs, in which a noisy second counts once."""
    ours_s, ours_cpu_s, bare_s, bare_cpu_s = seconds.T
    ratios = bare_s / ours_s
    ns = given.segment_ps / 1000
    return {
        "ratio_to_bare": round(median(ratios), 4),
        "ratio_quartiles": [round(float(quartile), 4) for quartile in np.percentile(ratios, [25, 75])],
        "ratio_to_bare_cpu": round(median(bare_cpu_s / ours_cpu_s), 4),  # what the machine's other users cannot disturb
        "ns_per_day": round(ns * SECONDS_PER_DAY / median(ours_s), 2),
        "bare_ns_per_day": round(ns * SECONDS_PER_DAY / median(bare_s), 2),
        "atoms": molecule.atoms,
        "platform": platform,
        "segment_ps": given.segment_ps,
        "report_ps": given.report_ps,
        "pairs": len(seconds),
    }


if __name__ == "__main__":
    main()
