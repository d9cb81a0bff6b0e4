"""Grid Engine (Son of Grid Engine, Open Grid Scheduler, Altair's), by the manual pages of 8.1.9.

Its nodes are slots of a parallel environment. Whole nodes come of one whose `allocation_rule` is `cpus`; its
`control_slaves` must be true, for `qrsh -inherit` starts what runs on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from steersman.executors.schedulers.commands import answer
from steersman.executors.schedulers.scheduler import Block, Scheduler, State, hosts
from steersman.executors.values import Word


class Sge(Scheduler):
    """What qsub is given besides nodes and time; empty: the cluster's default.

    Args:
        account: the project, `-P`.
        pe: the parallel environment, see `qconf -spl`.
        cpus: slots of a node; so many are asked for on each.
        options: further options of qsub, e.g. ["-l exclusive=true"].
    """

    TITLE = "Grid Engine"
    COMMANDS = ("qsub", "qstat", "qdel")
    PREFIX = "#$"
    SUBMIT = "qsub -terse {script}"
    ID = r"(?m)^(\d+)"
    CANCEL = "qdel"
    STATUS = 'qstat -u "$(id -un)"'
    NAMED = (  # the table cuts names
        'qstat -r -u "$(id -un)" | awk \'$1 ~ /^[0-9]+$/ {{id = $1}} /Full jobname:/ && $3 == "{name}" {{print id}}\''
    )
    WHY_QUEUED = ("qstat -j {job}", r"(?:scheduling info|error reason +\d+): +(.*)")
    BEFORE = "export PATH=$PATH:$SGE_O_PATH"  # qrsh need not be on the PATH with which a job begins
    LAUNCHER = (
        r"""bash -c 'for host in $(awk "!seen[\$1]++ {print \$1}" $PE_HOSTFILE | head -n {nodes}); """
        r"""do qrsh -inherit -V $host "$@" & done; """
        r"""for each in $(jobs -p); do wait $each || code=$?; done; exit ${code:-0}' each"""
    )
    PART = "PART=$(mktemp) && awk '!seen[$1]++' $PE_HOSTFILE | sed -n {range}p > $PART && export PE_HOSTFILE=$PART"
    IN_JOB = "SGE_JOB_SPOOL_DIR"
    OF_JOB = r"JOB_(ID|NAME|SCRIPT)|SGE_(JOB|O|STD|TASK|CWD|CKPT|BINDING).*|PE_HOSTFILE|NSLOTS|NHOSTS|NQUEUES"

    queue: Word = ""
    pe: Word = Field(min_length=1)
    cpus: int = Field(default=1, ge=1)

    @property
    def queue_asked(self) -> str:
        return self.queue

    def header(self, block: Block) -> list[str]:
        named = {"-P": self.account, "-q": self.queue}
        return [
            f"-N {block.name}", "-S /bin/bash", "-cwd", f"-o {block.script}.stdout", f"-e {block.script}.stderr",
            f"-pe {self.pe} {block.nodes * self.cpus}", f"-l h_rt={block.clock}",
            "-r n",  # a job that Grid Engine itself starts again would run beside the block in its place
            *(f"{option} {value}" for option, value in named.items() if value), *self.options,
        ]  # fmt: skip

    def ask(self, script: Path) -> str:
        """`-w v` looks for queues in which the job could run if they were empty; nothing is submitted."""
        return f"qsub -w v: {' '.join(answer('qsub', '-w', 'v', str(script)).split())}"

    @classmethod
    def states(cls, jobs: Sequence[str], code: int, out: str, err: str) -> dict[str, State]:
        """From the table of qstat, which a job leaves when it ends."""
        if code:
            return {}
        rows = [line.split() for line in out.splitlines()]
        known = {row[0]: row[4] for row in rows if len(row) > 4 and row[0].isdigit()}
        return {job: _state(known[job]) if job in known else "COMPLETED" for job in jobs}

    @classmethod
    def job(cls, environment: Mapping[str, str]) -> tuple[int, float | None]:
        """When it ends nothing says."""
        return hosts(environment, "PE_HOSTFILE"), None


def _state(letters: str) -> State:
    """Source: sge_status(5). A suspended job goes on one day; E waits for an administrator."""
    return "FAILED" if "E" in letters else "PENDING" if "w" in letters else "RUNNING"
