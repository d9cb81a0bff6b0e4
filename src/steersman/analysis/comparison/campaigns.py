"""Arms and seeds -> a finished run directory for each: campaigns beside each other, and resumable."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from steersman.data.history import History
from steersman.executors.place import Place
from steersman.journal import manifest
from steersman.journal.lock import driven
from steersman.journal.run_directory import RunDirectory
from steersman.steering import StopRule
from steersman.system.errors import EngineError
from steersman.system.files import text_of
from steersman.system.processes import end_with_parent

LOOK_S = 0.2
ENDS_S = 30.0  # a campaign whose comparison was killed ends soon after it, see `end_with_parent`


@dataclass(frozen=True)
class Job:
    """One campaign, as its process gets it: paths and words."""

    run: str
    workflow: str
    seed: int
    assignments: tuple[str, ...]
    params: str | None
    place: Place

    @property
    def finished(self) -> bool:
        """Whether it came to its end, and is sealed: its process may die between the two."""
        directory = RunDirectory(Path(self.run))
        return directory.manifest.exists() and History(directory).state.finished


@dataclass(frozen=True)
class Tally:
    """How far campaigns are.

    Args:
        done: number of those that have ended.
        running: run directories of those that are at work.
        campaigns: run directory of each -> its name for people, and the rule that ends it.
    """

    done: int
    running: Sequence[str]
    campaigns: Mapping[str, tuple[str, StopRule]]

    def __str__(self) -> str:
        return f"{self.done} of {len(self.campaigns)} campaigns are done"


def run_all(
    jobs: Sequence[Job], beside: int, show: Callable[[int, Sequence[Job]], None] = lambda done, running: None
) -> None:
    """Run every campaign that is not finished, so many at a time.

    Args:
        show: called a few times a second with the number of those that are done, and those that run.
    Raises: EngineError: one ended without its budget spent; the others that run are ended.
    """
    waiting = [job for job in jobs if not job.finished]
    running: dict[subprocess.Popen[bytes], Job] = {}
    try:
        while waiting or running:
            while waiting and len(running) < beside:
                job = waiting.pop(0)
                running[started(job)] = job
            time.sleep(LOOK_S)
            for process in [each for each in running if each.poll() is not None]:
                job = running.pop(process)
                if process.returncode or not job.finished:
                    raise failed(job)
            show(len(jobs) - len(waiting) - len(running), [*running.values()])
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


def failed(job: Job) -> EngineError:
    """It did not come to its end: with how its journal ends, and the last that it printed."""
    directory = RunDirectory(Path(job.run))
    end = History(directory).state.end if directory.journal.exists() else None
    said = [f"{end.outcome}: {end.reason}" if end else "", text_of(log_of(job))[-2000:].strip()]
    return EngineError(
        "{run} did not come to its end; the same command goes on with the others' runs kept:\n{log}",
        run=job.run, log="\n".join(text for text in said if text) or "it was killed, or ended without a word",
    )  # fmt: skip


def log_of(job: Job) -> Path:
    return Path(f"{job.run}.log")


def started(job: Job) -> subprocess.Popen[bytes]:
    """Begin a campaign, or go on with it, in a process of its own."""
    log_of(job).parent.mkdir(parents=True, exist_ok=True)
    with log_of(job).open("wb") as log:
        command = [sys.executable, "-P", "-m", "steersman.analysis.comparison.campaigns", json.dumps(asdict(job))]
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _campaign(job: Job) -> None:
    """Begin the campaign or go on with it; a directory that never came to a journal is made anew."""
    from steersman.engine import campaign

    path, deadline = Path(job.run), time.monotonic() + ENDS_S
    while driven(path) and time.monotonic() < deadline:
        time.sleep(LOOK_S)
    if path.exists() and not RunDirectory(path).journal.exists():
        shutil.rmtree(path)
    if path.exists():
        run = campaign.resume(RunDirectory(path))
    else:
        params, place = Path(job.params) if job.params else None, job.place.copy()
        place["seed"] = job.seed
        plan = campaign.plan(job.workflow, params_file=params, assignments=job.assignments, **place)
        run = campaign.begin(plan, run_dir=path)
    if not run.state.finished:
        run.execute()
    manifest.seal(RunDirectory(path))


if __name__ == "__main__":
    end_with_parent()
    _campaign(Job(**json.loads(sys.argv[1])))
