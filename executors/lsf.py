"""LSF -> nodes: a provider for Parsl, and what LSF says of a queue before a run."""

from __future__ import annotations

import math
from pathlib import Path

from parsl.jobs.states import JobState
from parsl.launchers.base import Launcher

from steersman.executors.batch import Scripted, answer, blocks
from steersman.executors.executor import Executor
from steersman.executors.site import Site

COMMANDS = ("bsub", "bjobs", "bkill", "bqueues")
# A suspended job goes on one day: Parsl would put another beside it if it were told so.
STATES = {
    "PEND": JobState.PENDING, "PROV": JobState.PENDING, "WAIT": JobState.PENDING, "RUN": JobState.RUNNING,
    "PSUSP": JobState.PENDING, "USUSP": JobState.RUNNING, "SSUSP": JobState.RUNNING,
    "DONE": JobState.COMPLETED, "EXIT": JobState.FAILED, "ZOMBI": JobState.FAILED,
}  # fmt: skip


def provider(site: Site, wanted: Executor, starts: Launcher, worker_init: str) -> Lsf:
    """A provider for the blocks of one executor."""
    assert site.lsf is not None
    slots = site.lsf.cpus
    named = {"-P": site.lsf.account, "-q": site.lsf.queue}
    options = [
        f"-n {wanted.nodes * slots}", f'-R "span[ptile={slots}]"', f"-W {math.ceil((wanted.walltime_s or 0) / 60)}",
        "-rn",  # a job that LSF itself starts again would run beside the block that Parsl started in its place
        *(f"{option} {value}" for option, value in named.items() if value), *site.lsf.options,
    ]  # fmt: skip
    return Lsf(options, starts, **blocks(site, wanted, worker_init))


def ask(site: Site, script: Path) -> str:
    """LSF has no test of a submit script: its queue is looked at.

    Raises: BadSite: there is no such queue.
    """
    assert site.lsf is not None
    if not site.lsf.queue:
        return "LSF cannot test a script; it would go to the default queue"
    told = answer(site, "bqueues", "-noheader", "-o", "queue_name status", site.lsf.queue)
    return f"LSF cannot test a script; queue {' is '.join(told.split())}"


class Lsf(Scripted):
    """LSF for Parsl, whose own provider hides why bsub refuses, and waits for ever for jobs that LSF has forgotten."""

    PREFIX = "#BSUB"
    NAMED = ("-J {name}", "-o {script}.stdout", "-e {script}.stderr")
    SUBMIT = "bsub < {script}"  # an argument would be run as a command, and its #BSUB lines not be read
    CANCEL = "bkill"
    ANSWER = r"Job <(\d+)> is submitted"
    STATUS = "bjobs -noheader -o 'jobid stat' {jobs}"
    STATES = STATES
    FORGOTTEN = "Job <{job}> is not found"  # an hour after its end
