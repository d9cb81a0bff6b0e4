"""What a task costs the driver: `steersman bench tasks --json` prints one JSON object.

A campaign calls so many tasks, and one that needs all of them, on real Parsl workers; then it runs one segment.
driver_ms_per_task: processor time of the driver's process between the first call and the last result, a task;
again_ms_per_task: the same where all of them are done already, as after a kill; wall_ms_per_task: on so many workers.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steersman.engine import campaign, driver, planner
from steersman.journal import file as journal
from steersman.journal.records import Called, Task

WORKFLOW = Path(__file__).with_name("tasks_workflow.py")


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench tasks", description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory(prefix="steersman-bench-", ignore_cleanup_errors=True) as folder:
        print(json.dumps(measure(Path(folder) / "run", chosen.tasks, chosen.workers)))


def measure(path: Path, tasks: int, workers: int) -> dict[str, Any]:
    spent: list[float] = []
    driver.Planner = _timed(spent)  # type: ignore[attr-defined]
    plan = campaign.plan(
        str(WORKFLOW), assignments=[f"tasks={tasks}"], site_changes={"simulation.workers": workers}, seed=1
    )
    run = campaign.begin(plan, run_dir=path)
    directory = run.directory
    run.execute()
    called = [record.t for record in journal.read(directory.journal, Called)]
    done = [record.t for record in journal.read(directory.journal, Task)]
    directory.prepared.unlink()  # the plan is run again, and finds all results
    campaign.resume(directory, assignments=["frames=3"]).execute()
    if len(list(journal.read(directory.journal, Task))) != tasks + 2:
        raise RuntimeError("a task failed, or was done twice")
    first, again = (round(1e3 * each / tasks, 3) for each in spent)
    wall = round(1e3 * (done[-1] - called[0]) / tasks, 3)
    figures = {"driver_ms_per_task": first, "again_ms_per_task": again, "wall_ms_per_task": wall}
    return {"tasks": tasks, "workers": workers, **figures}


def _timed(spent: list[float]) -> type[planner.Planner]:
    class Timed(planner.Planner):
        """Keeps the processor time of this process while a plan is followed."""

        def followed(self, *given: Any) -> Any:
            began = time.process_time()
            made = super().followed(*given)
            spent.append(time.process_time() - began)
            return made

    return Timed
