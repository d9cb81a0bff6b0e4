"""The same tasks by Steersman, bare Parsl and libEnsemble: `steersman bench peers --json` prints one JSON object.

Each task sleeps for 10 ms, on two workers. refill: from the end of a worker's task to the begin of its next one;
ms_per_task: from the first begin to the last end, a task (ideal: 10 ms over the workers); whole_s: from the command to
its end. Parsl is given the next task when one is done, with one ahead for each worker, as Steersman has it;
libEnsemble knows all of them beforehand. Steersman stores a frame of each task and writes a journal; the others store
nothing. The three alternate; figures are medians over the rounds. A library that is not installed is left out.
With --busy N each is measured with and without N processes beside it that compute all the time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from steersman.journal.run_directory import RunDirectory
from steersman.store import Span, Window

WORKFLOW = Path(__file__).with_name("peers_workflow.py")
Row = tuple[object, float, float]  # whose task, when it began and ended, seconds since 1970


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench peers", description=__doc__)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--task-s", type=float, default=0.01, help="how long each sleeps")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=0, help="processes that compute beside a second measurement")
    parser.add_argument("--json", action="store_true", help="the only format there is")
    parser.add_argument("--alone", choices=ALONE, help=argparse.SUPPRESS)
    chosen = parser.parse_args(list(arguments))
    if chosen.alone:
        print(json.dumps(ALONE[chosen.alone](chosen.tasks, chosen.task_s, chosen.workers)))
        return
    there = ["steersman", "parsl", *(["libensemble"] if find_spec("libensemble") else [])]
    loads = {"quiet": 0, **({"busy": chosen.busy} if chosen.busy else {})}
    each: dict[str, dict[str, list[dict[str, float]]]] = {load: {name: [] for name in there} for load in loads}
    for number in range(chosen.rounds):
        for name in there:
            for load, processes in loads.items():
                print(f"round {number + 1} of {chosen.rounds}: {name}, {load}", file=sys.stderr, flush=True)
                with spinning(processes):
                    each[load][name].append(measured(name, chosen))
    of = {"tasks": chosen.tasks, "task_s": chosen.task_s, "workers": chosen.workers, "rounds": chosen.rounds}
    print(json.dumps(of | {"processes": loads} | {load: medians(rows) for load, rows in each.items()}))


def medians(each: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Figures of all rounds by library -> their medians, and as multiples of Parsl's."""
    found = {name: {key: float(np.median([one[key] for one in of])) for key in of[0]} for name, of in each.items()}
    parsl = found["parsl"]
    ratios = {f"{name}_to_parsl": {key: round(of[key] / parsl[key], 2) for key in of} for name, of in found.items()}
    return found | {name: of for name, of in ratios.items() if name != "parsl_to_parsl"}


@contextlib.contextmanager
def spinning(processes: int) -> Iterator[None]:
    """So many processes compute all the time; they end with this one."""
    program = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(1_000_000))"
    others = [subprocess.Popen([sys.executable, "-S", "-c", program]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measured(name: str, chosen: argparse.Namespace) -> dict[str, float]:
    """One run of one of them, in a folder and a process of its own."""
    with tempfile.TemporaryDirectory(prefix="steersman-bench-", ignore_cleanup_errors=True) as folder:
        asked = [f"{option}={getattr(chosen, option.replace('-', '_'))}" for option in ("tasks", "task-s", "workers")]
        program = f"from {__name__} import main, sys; main(sys.argv[1:])"  # of a module that workers import
        command = [sys.executable, "-c", program, "--alone", name, *(f"--{each}" for each in asked)]
        if name == "steersman":
            sets = [f"--set=tasks={chosen.tasks}", f"--set=task_s={chosen.task_s}", f"--workers={chosen.workers}"]
            command = [sys.executable, "-m", "steersman.cli", "run", str(WORKFLOW), *sets, "--run-dir=run", "--seed=1"]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # Parsl's programs are there
        began = time.perf_counter()
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": path})
        whole_s = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")
        rows = _stored(Path(folder, "run")) if name == "steersman" else json.loads(done.stdout.splitlines()[-1])
    return {**figures(rows), "whole_s": round(whole_s, 2)}


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Tasks of all workers -> refill in the median and of the slow twentieth, and the time of a task, ms."""
    of: dict[object, list[tuple[float, float]]] = {}
    for who, began, ended in rows:
        of.setdefault(who, []).append((began, ended))
    each = [np.array(sorted(spans)) for spans in of.values()]
    gaps = 1e3 * np.concatenate([spans[1:, 0] - spans[:-1, 1] for spans in each])
    span = max(spans[-1, 1] for spans in each) - min(spans[0, 0] for spans in each)
    return {
        "refill_p50_ms": round(float(np.median(gaps)), 3),
        "refill_p95_ms": round(float(np.percentile(gaps, 95)), 3),
        "ms_per_task": round(1e3 * span / len(rows), 3),
    }


def _stored(run: Path) -> list[Row]:
    frames = RunDirectory(run).frames
    rows: list[Row] = []
    for walker in frames.walkers():
        window = Window(frames, [Span(walker, 0, frames.count(walker))])
        rows += [(walker, float(b), float(e)) for b, e in zip(window["began"], window["ended"], strict=True)]
    return rows


def task(seconds: float) -> Row:
    began = time.time()
    time.sleep(seconds)
    return os.getpid(), began, time.time()


def by_parsl(tasks: int, task_s: float, workers: int) -> list[Row]:
    import parsl
    from parsl.config import Config
    from parsl.executors import HighThroughputExecutor
    from parsl.providers import LocalProvider

    executor = HighThroughputExecutor(
        address="127.0.0.1", max_workers_per_node=workers, provider=LocalProvider(init_blocks=1, max_blocks=1)
    )
    with parsl.load(Config(executors=[executor], strategy="none")):
        app = parsl.python_app(task)
        waiting, rows = {app(task_s) for _ in range(2 * workers)}, list[Row]()
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            rows += [future.result() for future in done]
            more = min(len(done), tasks - len(rows) - len(waiting))
            waiting |= {app(task_s) for _ in range(more)}
    return rows


def by_libensemble(tasks: int, task_s: float, workers: int) -> list[Row]:
    from libensemble import Ensemble
    from libensemble.alloc_funcs.give_pregenerated_work import give_pregenerated_sim_work
    from libensemble.specs import AllocSpecs, ExitCriteria, LibeSpecs, SimSpecs

    given = np.zeros(tasks, [("seconds", float), ("sim_id", int)])
    given["seconds"], given["sim_id"] = task_s, np.arange(tasks)
    ensemble = Ensemble(
        parse_args=False,
        H0=given,
        libE_specs=LibeSpecs(comms="local", nworkers=workers, disable_log_files=True, safe_mode=False),
        sim_specs=SimSpecs(
            sim_f=_simulated, inputs=["seconds"], out=[("who", int), ("began", float), ("ended", float)]
        ),
        alloc_specs=AllocSpecs(alloc_f=give_pregenerated_sim_work),
        exit_criteria=ExitCriteria(sim_max=tasks),
    )
    found, _, _ = ensemble.run()
    return [(int(row["who"]), float(row["began"]), float(row["ended"])) for row in found if row["sim_ended"]]


def _simulated(given: Any, *_: Any) -> Any:
    made = np.zeros(1, [("who", int), ("began", float), ("ended", float)])
    made[0] = task(float(given["seconds"][0]))
    return made


ALONE: dict[str, Callable[[int, float, int], list[Row]]] = {"parsl": by_parsl, "libensemble": by_libensemble}


if __name__ == "__main__":
    main(sys.argv[1:])
