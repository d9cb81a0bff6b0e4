"""How many walkers one driver keeps busy: `steersman bench scale --json` prints one JSON object.

Walkers are real (their bus, their leases, their groups of frames), but their simulation sleeps, and they are threads of
a few processes: what is measured is driver, bus and store. idle_share: time of walkers between two segments, over their
time from their first segment to their last frame; refill: the same gaps one by one; events_per_s: what the driver took
in and wrote down; driver_rss_mb: memory of the driver at the end, and what it grew by since half of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from steersman.benchmarks.loop import gaps_of
from steersman.bus import TupleSpace
from steersman.engine import campaign
from steersman.engine import run as engine_run
from steersman.journal import file as journal
from steersman.journal.records import OF_WALKERS
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.steering import StopRule
from steersman.store.names import walker_name
from steersman.system.errors import BadInput
from steersman.worker.walker import DISMISSED, WalkerProcess

WORKFLOW = Path(__file__).with_name("scale_workflow.py")
# A walker's start takes 8 ms of processor time. On nodes they begin side by side; here they share what cores there
# are, and thousands of threads that want to begin at once would mostly wait for each other. So they begin as far apart
# as their segments end in a run that has gone on for long: spread over a segment, and no faster than this.
BEGIN_EVERY_S = 0.015
# A thread that waits for Python's lock wakes so often to ask for it: by default every 5 ms, and a hundred of them take
# a core; with 0.1 s two thousand did. None of these threads keeps the lock for long.
SWITCH_S = 5.0
READ = 1000  # so many walkers' frames are read for the gaps between their segments, evenly spread over all


def main(arguments: Sequence[str] = ()) -> None:
    if list(arguments[:1]) == ["--host"]:
        host(arguments[1])
        return
    parser = argparse.ArgumentParser(prog="steersman bench scale", description=__doc__)
    parser.add_argument("--walkers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=180, help="wall time of the run that is measured")
    parser.add_argument("--segment-s", type=float, default=30, help="length of a segment")
    parser.add_argument("--processes", type=int, default=4, help="that the walkers are threads of")
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory(prefix="steersman-bench-", ignore_cleanup_errors=True) as folder:
        print(json.dumps(measure(Path(folder) / "run", chosen)))


def measure(path: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    settings = [f"hours={chosen.seconds / 3600}", f"segment_s={chosen.segment_s}"]
    # A walker out of a thousand in one process is heard of late, without being lost.
    site = {"simulation.workers": chosen.walkers, "lease_s": 600}
    campaign.ready = lambda site: None  # type: ignore[attr-defined]  # these workers are threads of a few processes
    plan = campaign.plan(str(WORKFLOW), assignments=settings, site_changes=site, seed=1)
    run = campaign.begin(plan, run_dir=path)
    directory = run.directory
    memory = Memory(chosen.seconds)
    run.show = memory.look
    engine_run.Jobs = lambda *_, **__: Crowd(path, chosen)  # type: ignore[assignment,attr-defined]
    since = time.monotonic()
    state = run.execute()
    took_s, at_end = time.monotonic() - since, memory.now()  # before the frames are read, which takes memory too
    assert state.end is not None
    if state.end.outcome != "budget":
        raise RuntimeError(f"the run ended early: {state.end.reason}")
    began = [walker.number for walker in state.walkers.values() if walker.frames]  # without a frame there is no gap
    gaps = [gaps_of(directory, walker_name(number)) for number in began[:: -(-len(began) // READ) or 1]]
    refill = np.concatenate([np.empty(0), *(each for each, _ in gaps)])
    if not len(refill):
        raise TooShort(len(began), chosen.walkers, chosen.seconds)
    events = sum(isinstance(record, OF_WALKERS) for record in journal.read(directory.journal))
    return {
        "walkers": chosen.walkers,
        "segment_s": chosen.segment_s,
        "idle_share": round(float(refill.sum()) / sum(active for _, active in gaps), 5),
        "refill_p50_s": round(float(np.median(refill)), 4),
        "refill_p95_s": round(float(np.percentile(refill, 95)), 4),
        "refills": len(refill),
        "began": len(began),
        "segments": state.ended.total(),
        "lost": len(state.walkers) - chosen.walkers,
        "took_s": round(took_s, 1),
        "events_per_s": round(events / took_s, 1),
        "driver_rss_mb": round(at_end, 1),
        "driver_grew_mb": round(at_end - memory.halfway, 1),
        "driver_cpu_share": round(sum(psutil.Process().cpu_times()[:2]) / took_s, 3),
    }


class TooShort(BadInput):
    began: int
    walkers: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.began} of {self.walkers} walkers made a frame in {self.seconds:g} s, and none began a second "
            "segment: give --seconds more time, --segment-s shorter segments, or --walkers fewer"
        )


class Memory:
    """Resident memory of this process, MB, looked at half way through."""

    def __init__(self, seconds: float) -> None:
        self._half, self.halfway = time.monotonic() + seconds / 2, 0.0

    def look(self, state: State, rule: StopRule) -> None:
        if not self.halfway and time.monotonic() > self._half:
            self.halfway = self.now()

    def now(self) -> float:
        return float(psutil.Process().memory_info().rss) / 1e6


class Crowd:
    """Stands for the engine's Jobs: walkers as threads of a few processes, instead of Parsl's workers.

    Walkers begin one after another; those whose turn has not come when the run's time is over never do.
    """

    broken = hopeless = ""

    def __init__(self, run: Path, chosen: argparse.Namespace) -> None:
        command = [sys.executable, "-m", "steersman.benchmarks.scale", "--host", str(run)]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(chosen.processes)
        ]
        self._until = time.monotonic() + chosen.seconds
        self._every_s = max(BEGIN_EVERY_S, chosen.segment_s / chosen.walkers)
        self._open: dict[int, Future[Any]] = {}
        self._waiting: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
        threading.Thread(target=self._begin, daemon=True).start()
        for process in self._processes:
            threading.Thread(target=self._collect, args=(process,), daemon=True).start()

    def submit(self, role: str, function: Callable[..., Any], *args: Any, **_: Any) -> Future[Any]:
        """Let a walker begin; nothing else is asked for by this workflow."""
        future: Future[Any] = Future()
        if role != "simulation":
            future.set_result(None)
            return future
        _, number, bag, _ = args
        self._open[number] = future
        self._waiting.put((number, bag))
        return future

    def _begin(self) -> None:
        while True:
            number, bag = self._waiting.get()
            if time.monotonic() > self._until:
                self._open.pop(number).set_result(DISMISSED)
                continue
            stdin = self._processes[number % len(self._processes)].stdin
            assert stdin is not None
            stdin.write(json.dumps([number, bag]) + "\n")
            stdin.flush()
            time.sleep(self._every_s)

    def began(self, number: int, manager: str) -> None: ...

    def newly_lacking(self) -> list[str]:
        return []

    def end_stuck_blocks(self) -> list[str]:
        return []

    def hold(self, role: str, pool: str) -> None: ...

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _collect(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            number, left = json.loads(line)
            self._open.pop(number).set_result(left)


def host(run: str) -> None:
    """Be one of the processes: a thread for each walker that a line of standard input names."""
    directory = RunDirectory(Path(run))
    workflow = loading.load(directory.workflow)
    params = loading.checked(workflow, directory.settings()["params"])
    lease_s = directory.site()["lease_s"]
    assert workflow.simulation is not None
    simulate, variables = workflow.simulation.function, dict(workflow.simulation.variables)

    os.nice(10)  # real walkers are on other machines than driver and server
    sys.setswitchinterval(SWITCH_S)
    printing = threading.Lock()

    def walk(number: int, bag: str) -> None:
        walker = WalkerProcess(
            number=number, bag=bag, simulate=simulate, params=params, prepared=None, frames=directory.frames,
            space=TupleSpace.connect(directory.bus), variables=variables, attributes={}, errors=directory.errors,
            lease_s=lease_s,
        )  # fmt: skip
        left = walker.run()
        with printing:  # lines of several threads would run into each other
            print(json.dumps([number, left]), flush=True)

    for line in sys.stdin:
        threading.Thread(target=walk, args=json.loads(line), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1:])
