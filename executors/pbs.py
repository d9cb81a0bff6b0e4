"""PBS Pro -> nodes: Parsl's provider with its defects mended, and what PBS says of a queue before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parsl.jobs.states import JobState, JobStatus
from parsl.launchers.base import Launcher
from parsl.providers import PBSProProvider

from steersman.executors.batch import Mended, answer, blocks
from steersman.executors.executor import Executor
from steersman.executors.site import Site

COMMANDS = ("qsub", "qstat", "qdel")


def provider(site: Site, wanted: Executor, starts: Launcher, worker_init: str) -> PBSProProvider:
    """Parsl's provider for the blocks of one executor."""
    assert site.pbs is not None
    # A job that PBS itself starts again would run beside the block that Parsl started in its place; and without scatter
    # several nodes may be parts of one.
    options = ["-r n", "-l place=scatter", *site.pbs.options]
    return _Pbs(
        account=site.pbs.account or None,
        queue=site.pbs.queue or None,
        cpus_per_node=site.pbs.cpus,
        select_options=site.pbs.select,
        scheduler_options="\n".join(f"#PBS {option}" for option in options),
        launcher=starts,
        # A job begins in the home directory.
        **blocks(site, wanted, f"cd $PBS_O_WORKDIR\n{worker_init}"),
    )


def ask(site: Site, script: Path) -> str:
    """PBS has no test of a submit script: its queue is looked at.

    Source: display_statque() in OpenPBS's src/cmds/qstat.c, read on 2026-11-21, for the form of the JSON.
    Raises: BadSite: there is no such queue, or it takes no jobs.
    """
    assert site.pbs is not None
    if not site.pbs.queue:
        return "PBS cannot test a script; it would go to the default queue"
    told = json.loads(answer(site, "qstat", "-Q", "-f", "-F", "json", site.pbs.queue))["Queue"][site.pbs.queue]
    limits = ", ".join(f"{name} {value}" for name, value in told.get("resources_max", {}).items())
    opened = told.get("enabled") == "True" and told.get("started") == "True"
    state = "open" if opened else "not open: jobs wait until it is"
    return f"PBS cannot test a script; queue {site.pbs.queue} is {state}" + (f", at most {limits}" if limits else "")


class _Pbs(Mended, PBSProProvider):  # type: ignore[misc]  # Parsl has no types
    """Parsl's, but a job that ended badly has failed, and one that qstat does not know spoils no answer."""

    WHY_QUEUED = ("qstat -f {job}", r"comment = (.*)")

    def _status(self) -> None:
        asked = [job for job, known in self.resources.items() if not known["status"].terminal]
        if not asked:
            return
        _, told, _ = self.execute_wait(f"qstat -x -f -F json {' '.join(asked)}")  # 153: one of them is not known
        jobs = {_number(name): job for name, job in json.loads(told).get("Jobs", {}).items()}
        for name in asked:
            known = self.resources[name]
            paths = {"stdout_path": known["job_stdout_path"], "stderr_path": known["job_stderr_path"]}
            known["status"] = JobStatus(_state(jobs.get(_number(name))), **paths)


def _number(job: str) -> str:
    return job.split(".")[0]


def _state(job: dict[str, Any] | None) -> JobState:
    """PBS keeps finished jobs for a while only: one that it does not know any more has ended."""
    if job is None:
        return JobState.COMPLETED
    if job["job_state"] in "EFX" and "Exit_status" in job:
        status = int(job["Exit_status"])
        return JobState.COMPLETED if status == 0 else JobState.TIMEOUT if status == -29 else JobState.FAILED
    if job["job_state"] in "FX":
        return JobState.COMPLETED
    # A suspended or held job goes on one day: Parsl would put another beside it if it were told so.
    return JobState.RUNNING if job["job_state"] in "REBSU" else JobState.PENDING
