"""LSF."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from steersman.executors.schedulers.commands import answer, printed, seconds
from steersman.executors.schedulers.scheduler import Block, Scheduler, hosts
from steersman.executors.values import Word


class Lsf(Scheduler):
    """What bsub is given besides nodes and time; empty: the cluster's default.

    Args:
        account: the project, `-P`.
        cpus: job slots of a node; so many are asked for on each.
        options: further options of bsub, e.g. ['-gpu "num=4"'].
    """

    TITLE = "LSF"
    COMMANDS = ("bsub", "bjobs", "bkill", "bqueues")
    PREFIX = "#BSUB"
    SUBMIT = "bsub < {script}"  # an argument would be run as a command, and its #BSUB lines not be read
    ID = r"Job <(\d+)> is submitted"
    CANCEL = "bkill"
    STATUS = "bjobs -noheader -o 'jobid stat' {jobs}"
    NAMED = "bjobs -noheader -o jobid -J {name}"
    # A suspended job goes on one day: Parsl would put another beside it if it heard that it had ended.
    STATES: ClassVar = {
        "PEND": "PENDING", "PROV": "PENDING", "WAIT": "PENDING", "PSUSP": "PENDING",
        "RUN": "RUNNING", "USUSP": "RUNNING", "SSUSP": "RUNNING",
        "DONE": "COMPLETED", "EXIT": "FAILED", "ZOMBI": "FAILED",
    }  # fmt: skip
    FORGOTTEN = "Job <{job}> is not found"  # an hour after its end
    LAUNCHER = 'blaunch -z "$(sort -u $LSB_DJOB_HOSTFILE | xargs)"'
    PART = (
        "PART=$(mktemp) && awk '!seen[$0]++' $LSB_DJOB_HOSTFILE | sed -n {range}p > $PART"
        " && export LSB_DJOB_HOSTFILE=$PART"
    )
    IN_JOB = "LSB_JOBID"
    OF_JOB = r"LS[BF]_(JOB|BATCH|DJOB|MCPU|HOSTS|SUB|EXEC|OUTPUT|ERROR|CHKPNT|TRAPSIGS|EEXEC|PJL|EFFECTIVE|BIND).*"

    queue: Word = ""
    cpus: int = Field(default=1, ge=1)

    @property
    def queue_asked(self) -> str:
        return self.queue

    def header(self, block: Block) -> list[str]:
        named = {"-P": self.account, "-q": self.queue}
        return [
            f"-J {block.name}", f"-o {block.script}.stdout", f"-e {block.script}.stderr",
            f"-n {block.nodes * self.cpus}", f'-R "span[ptile={self.cpus}]"', f"-W {block.minutes}",
            "-rn",  # a job that LSF itself starts again would run beside the block in its place
            *(f"{option} {value}" for option, value in named.items() if value), *self.options,
        ]  # fmt: skip

    def ask(self, script: Path) -> str:
        """LSF has no test of a submit script: its queue is looked at."""
        if not self.queue:
            return "LSF cannot test a script; it would go to the default queue"
        known = answer("bqueues", "-noheader", "-o", "queue_name status", self.queue)
        return f"LSF cannot test a script; queue {' is '.join(known.split())}"

    @classmethod
    def job(cls, environment: Mapping[str, str]) -> tuple[int, float | None]:
        left = printed("bjobs", "-noheader", "-o", "time_left", environment["LSB_JOBID"]).split(" ")[0]
        return hosts(environment, "LSB_DJOB_HOSTFILE"), seconds(f"{left}:00")
