"""PBS Pro and OpenPBS."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from steersman.executors.schedulers.commands import answer, printed, seconds
from steersman.executors.schedulers.scheduler import Block, Scheduler, State, hosts
from steersman.executors.values import Word

WALLTIME_EXIT = -29


class Pbs(Scheduler):
    """What qsub is given besides nodes and time; empty: the server's default.

    Args:
        cpus: hardware threads of a node, `ncpus` of the select statement.
        select: further resources of a node, e.g. "ngpus=4:system=polaris".
        options: further options of qsub, e.g. ["-l filesystems=home:eagle"].
    """

    TITLE = "PBS"
    COMMANDS = ("qsub", "qstat", "qdel")
    PREFIX = "#PBS"
    CANCEL = "qdel"
    STATUS = "qstat -x -f -F json {jobs}"
    NAMED = 'qselect -u "$(id -un)" -N {name}'
    WHY_QUEUED = ("qstat -f {job}", r"comment = (.*)")
    BEFORE = "cd $PBS_O_WORKDIR"  # a job begins in the home directory
    LAUNCHER = "mpiexec -n {nodes} --ppn 1 --hostfile $PBS_NODEFILE"
    PART = "PART=$(mktemp) && awk '!seen[$0]++' $PBS_NODEFILE | sed -n {range}p > $PART && export PBS_NODEFILE=$PART"
    MPI_WALKERS = True
    IN_JOB = "PBS_JOBID"
    OF_JOB = r"PBS_(JOB.*|O_.*|NODE.*|TASKNUM|MOMPORT|QUEUE|ENVIRONMENT)|NCPUS"

    queue: Word = ""
    cpus: int = Field(default=1, ge=1)
    select: Word = ""

    @property
    def queue_asked(self) -> str:
        return self.queue

    def header(self, block: Block) -> list[str]:
        select = f":{self.select.removeprefix(':')}" if self.select else ""
        return [
            "-S /bin/bash", f"-N {block.name}", "-m n", f"-l walltime={block.clock}",
            f"-l select={block.nodes}:ncpus={self.cpus}{select}", f"-o {block.script}.stdout",
            f"-e {block.script}.stderr",
            # A job that PBS itself starts again would run beside the block in its place; and without scatter several
            # nodes may be parts of one.
            "-r n", "-l place=scatter", *self.options,
        ]  # fmt: skip

    def submit(self, script: Path) -> str:
        given = (("-q", self.queue), ("-A", self.account))
        return shlex.join(["qsub", *(word for pair in given if pair[1] for word in pair), str(script)])

    def ask(self, script: Path) -> str:
        """PBS has no test of a submit script: its queue is looked at.

        Source: display_statque() in OpenPBS's src/cmds/qstat.c, read on 2026-11-21, for the form of the JSON.
        """
        if not self.queue:
            return "PBS cannot test a script; it would go to the default queue"
        known = json.loads(answer("qstat", "-Q", "-f", "-F", "json", self.queue))["Queue"][self.queue]
        limits = ", ".join(f"{name} {value}" for name, value in known.get("resources_max", {}).items())
        opened = known.get("enabled") == "True" and known.get("started") == "True"
        state = "open" if opened else "not open: jobs wait until it is open"
        return f"PBS cannot test a script; queue {self.queue} is {state}" + (f", at most {limits}" if limits else "")

    @classmethod
    def states(cls, jobs: Sequence[str], code: int, out: str, err: str) -> dict[str, State]:
        """PBS keeps finished jobs for a while only: one that it does not know any more has ended.

        It says so of each. One that is left out otherwise has not ended: OpenPBS after 23.06 prints only the first job
        of several (OpenPBS issue 2672).
        """
        known = {_number(name): job for name, job in json.loads(out).get("Jobs", {}).items()}  # 153: one is not known
        gone: dict[str, State] = {job: "COMPLETED" for job in jobs if f"Unknown Job Id {_number(job)}." in err}
        return gone | {job: _state(known[_number(job)]) for job in jobs if _number(job) in known}

    @classmethod
    def job(cls, environment: Mapping[str, str]) -> tuple[int, float | None]:
        nodes, ends = hosts(environment, "PBS_NODEFILE"), _end(environment["PBS_JOBID"])
        return nodes, None if ends is None else ends - time.time()


def _number(job: str) -> str:
    return job.split(".")[0]


def _state(job: dict[str, Any]) -> State:
    if job["job_state"] in "EFX" and "Exit_status" in job:
        status = int(job["Exit_status"])
        return "COMPLETED" if status == 0 else "TIMEOUT" if status == WALLTIME_EXIT else "FAILED"
    if job["job_state"] in "FX":
        return "COMPLETED"
    # A suspended or held job goes on one day: Parsl would put another beside it if it heard that it had ended.
    return "RUNNING" if job["job_state"] in "REBSU" else "PENDING"


def _end(job: str) -> float | None:
    answered = printed("qstat", "-f", "-F", "json", job)
    try:
        known = next(iter(json.loads(answered)["Jobs"].values())) if answered else {}
    except ValueError:  # variables of a job may spoil the JSON of qstat
        return None
    limit_s = seconds(str(known.get("Resource_List", {}).get("walltime", "")))
    if limit_s is None or "stime" not in known:
        return None
    return time.mktime(time.strptime(known["stime"], "%a %b %d %H:%M:%S %Y")) + limit_s
