"""What a scheduler is to all others: settings, a header for scripts, questions, and what its answers mean."""

from __future__ import annotations

import math
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from steersman.executors.values import Line, Strict, Word

State = Literal["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "UNKNOWN"]  # Parsl's words


class Block(NamedTuple):
    """A job that is asked for."""

    name: str
    script: Path
    nodes: int
    walltime_s: float
    workers: int = 1  # on each node

    @property
    def minutes(self) -> int:
        """Its time limit, rounded up."""
        return math.ceil(self.walltime_s / 60)

    @property
    def clock(self) -> str:
        """The same as HH:MM:SS."""
        return f"{self.minutes // 60:02d}:{self.minutes % 60:02d}:00"


class Scheduler(Strict, ABC):
    """Settings of a site file for one scheduler, and all that is known of it.

    A subclass gives the class variables without a value here, or other methods that need none. {names} in the words
    are filled in. In the commands (SUBMIT, STATUS, NAMED, WHY_QUEUED) a brace that the shell is to see is doubled, in
    LAUNCHER and PART it is not.

    Args:
        account: what is charged; empty: the default.
        options: further options of the scheduler, a line of the script each.
    """

    TITLE: ClassVar[str]
    COMMANDS: ClassVar[tuple[str, ...]]  # that a run calls
    PREFIX: ClassVar[str]  # of an option in a script
    SUBMIT: ClassVar[str]  # a shell command for {script}
    ID: ClassVar[str] = r"(\S+)"  # the job's id in what SUBMIT prints
    CANCEL: ClassVar[str]  # shell words before ids
    STATUS: ClassVar[str]  # prints what `states` reads, for {jobs}, or {commas} between them
    NAMED: ClassVar[str]  # prints the ids of this user's jobs called {name} that wait or run
    STATES: ClassVar[Mapping[str, State]]
    FORGOTTEN: ClassVar[str | None] = None  # in stderr of STATUS: {job} is not known any more, so it has ended
    WHY_QUEUED: ClassVar[tuple[str, str]] = ("", "")  # what prints why {job} waits, and where in its answer
    WITHIN: ClassVar[bool] = False  # its jobs may be within a job of another
    BEFORE: ClassVar[str] = ""  # a shell line with which a job begins
    # Shell words that start a program once on each of {nodes} nodes, of which {first} are left out before, in the
    # environment and the folder of the job.
    LAUNCHER: ClassVar[str]
    GO_ON: ClassVar[str] = ""  # further words of it: the other nodes go on when one dies, or its program fails
    BROADCAST: ClassVar[str] = ""  # a shell command that copies $FILE to $COPY on the disk of each node of a job
    # A shell line that hides all but the lines {range} of the nodes, for launchers that see them in the environment.
    PART: ClassVar[str] = ""
    MPI_WALKERS: ClassVar[bool] = False  # Parsl's MPIExecutor finds the nodes of a job
    IN_JOB: ClassVar[str]  # a variable that only processes in a job of it have
    OF_JOB: ClassVar[str]  # what variables match that a job has, and what it submits must not inherit
    BEGINS_ON_NODE: ClassVar[bool] = True  # a job's own processes run on its first node

    account: Word = ""
    options: tuple[Line, ...] = ()

    @classmethod
    def lacks(cls) -> list[str]:
        """Names of what a subclass has to give and does not; of SUBMIT or STATES it may give the method instead."""
        instead = {"SUBMIT": "submit", "STATES": "states"}
        own = {name for kind in cls.__mro__[: cls.__mro__.index(Scheduler)] for name in vars(kind)}
        given = {name for name, method in instead.items() if method in own}
        words = [name for name in Scheduler.__annotations__ if name.isupper() and not hasattr(cls, name)]
        return sorted(cls.__abstractmethods__ | set(words) - given)

    @property
    @abstractmethod
    def queue_asked(self) -> str:
        """Queue, partition or QOS; "" for the default one."""

    @classmethod
    def queue_key(cls, given: Mapping[str, Any]) -> str:
        """The key of a site file's settings that `--queue` changes."""
        return "queue"

    @abstractmethod
    def header(self, block: Block) -> list[str]:
        """Options of the script of a block, a line each."""

    @abstractmethod
    def ask(self, script: Path) -> str:
        """What the scheduler says of a script, or of its queue, before a run; nothing is submitted.

        Raises: Refused: in its own words.
        """

    @classmethod
    @abstractmethod
    def job(cls, environment: Mapping[str, str]) -> tuple[int, float | None]:
        """Nodes of the job that this process runs in, and the seconds that it has left; None: nobody knows."""

    def submit(self, script: Path) -> str:
        """The shell command that submits a script."""
        return self.SUBMIT.format(script=shlex.quote(str(script)))

    @classmethod
    def states(cls, jobs: Sequence[str], code: int, out: str, err: str) -> dict[str, State]:
        """States of jobs, as far as the answer to STATUS says them: lines of id and state."""
        known = dict(line.split()[:2] for line in out.splitlines() if line.strip())
        found: dict[str, State] = {}
        for job in jobs:
            if job in known:
                found[job] = cls.STATES.get(known[job], "UNKNOWN")
            elif cls.FORGOTTEN and cls.FORGOTTEN.format(job=job) in err:
                found[job] = "COMPLETED"
        return found


def hosts(environment: Mapping[str, str], name: str) -> int:
    """Different hosts, the first word of each line, in a file that a variable names; 1 where there is none."""
    file = Path(environment.get(name, "/nonexistent"))
    return len({line.split()[0] for line in file.read_text().splitlines() if line.strip()}) if file.is_file() else 1
