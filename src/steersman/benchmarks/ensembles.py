"""One weighted ensemble by Steersman and WESTPA: `steersman bench ensembles --json` prints one JSON object.

A particle in two wells, 6 kT between them; 7 bins of 8 members, 100 rounds of segments of 20 steps, on two workers.
ms_per_segment: all rounds, over their segments; whole_s: from the command to its end. The two alternate; figures are
medians over the repeats. WESTPA keeps its workers as processes, and stores what its analysis needs; Steersman stores
every frame and a journal. Where WESTPA is not installed it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from steersman.benchmarks.ensembles_workflow import ROUNDS
from steersman.data.history import History
from steersman.journal.run_directory import RunDirectory

WORKFLOW = Path(__file__).with_name("ensembles_workflow.py")
WORKERS = 2
SETTINGS = f"""
west:
  system: {{driver: steersman.benchmarks.ensembles_westpa.System}}
  propagation:
    max_total_iterations: {ROUNDS}
    propagator: steersman.benchmarks.ensembles_westpa.Propagator
    gen_istates: false
  data: {{west_data_file: west.h5}}
"""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench ensembles", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    there = {"steersman": by_steersman} | ({"westpa": by_westpa} if find_spec("westpa") else {})
    found: dict[str, list[dict[str, float]]] = {name: [] for name in there}
    for number in range(chosen.repeats):
        for name, measured in there.items():
            print(f"repeat {number + 1} of {chosen.repeats}: {name}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="steersman-bench-", ignore_cleanup_errors=True) as folder:
                found[name].append(measured(Path(folder), number))
    medians = {name: {key: float(np.median([each[key] for each in of])) for key in of[0]} for name, of in found.items()}
    print(json.dumps({"rounds": ROUNDS, "repeats": chosen.repeats, **medians}))


def by_steersman(folder: Path, seed: int) -> dict[str, float]:
    run = ("run", str(WORKFLOW), f"--workers={WORKERS}", "--run-dir=run", f"--seed={seed}")
    whole_s = _ran(folder, [sys.executable, "-m", "steersman.cli", *run])
    segments = History(RunDirectory(folder / "run")).segments
    return _figures(float(segments.ended.max() - segments.began.min()), len(segments), whole_s)


def by_westpa(folder: Path, seed: int) -> dict[str, float]:
    import h5py

    (folder / "west.cfg").write_text(SETTINGS)
    programs = Path(sys.executable).parent
    whole_s = _ran(folder, [str(programs / "w_init"), "--bstate", "left,1.0", "--segs-per-state", "8"])
    whole_s += _ran(folder, [str(programs / "w_run"), "--work-manager=processes", f"--n-workers={WORKERS}"])
    with h5py.File(folder / "west.h5") as file:
        rounds = file["summary"][:ROUNDS]
    return _figures(float(rounds["walltime"].sum()), int(rounds["n_particles"].sum()), whole_s)


def _ran(folder: Path, command: Sequence[str]) -> float:
    """Seconds that a command took. Raises: RuntimeError: it failed."""
    began = time.perf_counter()
    environment = os.environ | {"WEST_SIM_ROOT": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-2000:]}")
    return time.perf_counter() - began


def _figures(seconds: float, segments: int, whole_s: float) -> dict[str, float]:
    return {"ms_per_segment": round(1e3 * seconds / segments, 3), "segments": segments, "whole_s": round(whole_s, 2)}


if __name__ == "__main__":
    main(sys.argv[1:])
