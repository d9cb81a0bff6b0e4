"""How long slots wait in the loop: `steersman bench loop --json` prints one JSON object.

refill: from a walker's last frame to the first step of its next segment, with all of a real run beside it
(chignolin segments of 2 ps, training, scoring, steering). idle_share: those gaps over the walkers' time from their
first step to their last frame. overhead_per_task_s: a no-op through the engine's Jobs less the same through bare Parsl.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steersman.bus import Server, TupleSpace
from steersman.engine import campaign
from steersman.engine.jobs import Jobs
from steersman.executors.parsl_config import parsl_config
from steersman.executors.site_files import load_site
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.store import Span, Window

WORKFLOW = Path(__file__).with_name("loop_workflow.py")
TASKS = 100


def nothing() -> None:
    """The task whose cost is all overhead."""


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench loop", description=__doc__)
    parser.add_argument("--hours", type=float, default=0.025, help="wall time of the run that is measured")
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        say(f"a run of {chosen.hours * 60:.1f} minutes ...")
        result = measure_loop(Path(folder), chosen.hours)
        say("no-op tasks ...")
        result |= measure_tasks(Path(folder))
    print(json.dumps(result))


def measure_loop(folder: Path, hours: float) -> dict[str, Any]:
    plan = campaign.plan(str(WORKFLOW), assignments=[f"hours={hours}"], seed=1)
    run = campaign.begin(plan, run_dir=folder / "loop")
    directory = run.directory
    state = run.execute()
    assert state.end is not None
    if state.end.outcome != "budget":
        raise RuntimeError(f"the run ended early: {state.end.reason}")
    gaps, active = [], 0.0
    for walker in directory.frames.walkers():
        own, seconds = gaps_of(directory, walker)
        gaps.append(own)
        active += seconds
    refill = np.concatenate(gaps)
    return {
        "refill_p50_s": round(float(np.median(refill)), 5),
        "refill_p95_s": round(float(np.percentile(refill, 95)), 5),
        "refill_max_s": round(float(refill.max()), 5),
        "refills": len(refill),
        "idle_share": round(float(refill.sum()) / active, 5),
        "idle_by_cause": idle_by_cause(state, float(refill.sum()), active),
        "startup_s": round(startup(directory, state), 2),
        "slots": run.slots,
        "segments": state.ended.total(),
        "models": len(state.models),
    }


def gaps_of(directory: RunDirectory, walker: str) -> tuple[np.ndarray, float]:
    """Gaps between a walker's segments, and its time from the first step to the last frame, in seconds."""
    window = Window(directory.frames, [Span(walker, 0, directory.frames.count(walker))])
    segment, made, stepping = window["segment"], window["made"], window["stepping"]
    change = np.flatnonzero(np.diff(segment)) + 1
    return stepping[change] - made[change - 1], float(made[-1] - stepping[0])


def idle_by_cause(state: State, gaps: float, active: float) -> dict[str, float]:
    """Shares of the walkers' time: waiting for a start, reading it, the rest (bookkeeping, the context begun anew)."""
    waited, read = state.spent["waited"], state.spent["read"]
    causes = {"waiting_for_a_start": waited, "reading_it": read, "beginning_and_bookkeeping": gaps - waited - read}
    return {cause: round(max(0.0, seconds) / active, 5) for cause, seconds in causes.items()}


def startup(directory: RunDirectory, state: State) -> float:
    """Seconds from the command to the first step."""
    first = min(float(Window(directory.frames, [Span(w, 0, 1)])["stepping"][0]) for w in directory.frames.walkers())
    return first - float(state.sessions[0].t)


def measure_tasks(folder: Path) -> dict[str, float]:
    """Seconds per no-op, one after another, bare and through Jobs, in alternating batches."""
    with Server.start(folder / "bus"):
        jobs = Jobs(
            parsl_config(load_site("laptop", {"simulation.workers": 1}).serving(["simulation"]), folder / "parsl"),
            TupleSpace.connect(folder / "bus"),
            folder / "bus",
            begins_s=30.0,
        )
        kernel = jobs._kernel

        def bare() -> None:
            kernel.submit(nothing, (), ["simulation"], False, None, {}).result()

        def ours() -> None:
            jobs.submit("simulation", nothing).result()

        ours()
        times: dict[str, list[float]] = {"bare": [], "ours": []}
        for _ in range(5):
            times["bare"].append(timed(bare))
            times["ours"].append(timed(ours))
        jobs.close()
    bare_s, ours_s = float(np.median(times["bare"])), float(np.median(times["ours"]))
    return {
        "overhead_per_task_s": round(ours_s - bare_s, 6),
        "bare_task_s": round(bare_s, 6),
        "task_s": round(ours_s, 6),
    }


def timed(act: Callable[[], None]) -> float:
    began = time.perf_counter()
    for _ in range(TASKS):
        act()
    return (time.perf_counter() - began) / TASKS


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
