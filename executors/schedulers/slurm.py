"""Slurm."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from steersman.executors.schedulers.commands import answer, printed, seconds
from steersman.executors.schedulers.scheduler import Block, Scheduler, State
from steersman.executors.values import Word


class Slurm(Scheduler):
    """What sbatch is given besides nodes and time; empty: the cluster's default.

    Args:
        options: further options of sbatch, e.g. ["--gpus-per-node=4"].
        exclusive: nodes are not shared with other jobs.
        cpus: of a node, `--cpus-per-task`; None: all of a node that is exclusive, or one for each worker.
    """

    TITLE = "Slurm"
    COMMANDS = ("sbatch", "squeue", "scancel")
    PREFIX = "#SBATCH"
    SUBMIT = "sbatch {script}"
    ID = r"Submitted batch job (\d+)"
    CANCEL = "scancel"
    # Not sacct, which shows a new job up to seconds late, and a job on a node that died as failed before it has ended.
    STATUS = "squeue --noheader --states=all --format='%i %T' --job={commas}"
    NAMED = 'squeue --noheader --user="$(id -un)" --name={name} --format=%i'
    # A suspended job goes on one day: Parsl would put another beside it if it heard that it had ended.
    STATES: ClassVar = {
        "PENDING": "PENDING", "CONFIGURING": "PENDING", "REQUEUED": "PENDING", "REQUEUE_HOLD": "PENDING",
        "REQUEUE_FED": "PENDING", "SPECIAL_EXIT": "FAILED",
        "RUNNING": "RUNNING", "COMPLETING": "RUNNING", "SUSPENDED": "RUNNING", "STOPPED": "RUNNING",
        "SIGNALING": "RUNNING", "STAGE_OUT": "RUNNING", "RESIZING": "RUNNING",
        "COMPLETED": "COMPLETED", "CANCELLED": "CANCELLED", "TIMEOUT": "TIMEOUT", "DEADLINE": "TIMEOUT",
        "PREEMPTED": "TIMEOUT", "FAILED": "FAILED", "NODE_FAIL": "FAILED", "BOOT_FAIL": "FAILED",
        "OUT_OF_MEMORY": "FAILED", "REVOKED": "FAILED",
    }  # fmt: skip
    FORGOTTEN = "Invalid job id specified"
    WHY_QUEUED = ("squeue --noheader --job {job} --format=%r", r"(\S.*)")
    # After `--export=NONE` srun would start the workers without what `worker_init` sets.
    BEFORE = "export SLURM_EXPORT_ENV=ALL"
    # Without --cpu-bind=none the one task of a node may be bound to one core.
    LAUNCHER = (
        "srun --overlap --relative={first} --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpu-bind=none --label"
    )
    GO_ON = " --no-kill --kill-on-bad-exit=0"
    BROADCAST = 'sbcast --force "$FILE" "$COPY"'
    # Parsl's MPIExecutor looks there.
    PART = "export SLURM_NODELIST=$(scontrol show hostnames $SLURM_JOB_NODELIST | sed -n {range}p | paste -sd,)"
    MPI_WALKERS = True
    IN_JOB = "SLURM_JOB_ID"
    OF_JOB = r"SLURM_(?!CONF$).*"
    BEGINS_ON_NODE = False  # a job of `salloc` may begin on a login node

    partition: Word = ""
    qos: Word = ""
    constraint: Word = ""
    exclusive: bool = True
    cpus: int | None = Field(default=None, ge=1)

    @property
    def queue_asked(self) -> str:
        return self.qos or self.partition

    @classmethod
    def queue_key(cls, given: Mapping[str, Any]) -> str:
        return "qos" if given.get("qos") else "partition"

    def header(self, block: Block) -> list[str]:
        cpus = self.cpus or (None if self.exclusive else block.workers)
        named = self.model_dump(include={"account", "partition", "qos", "constraint"})
        return [
            f"--job-name={block.name}", f"--output={block.script}.stdout", f"--error={block.script}.stderr",
            f"--nodes={block.nodes}", f"--time={block.minutes}", "--ntasks-per-node=1",
            *(f"--{name}={value}" for name, value in named.items() if value), *["--exclusive"] * self.exclusive,
            *[f"--cpus-per-task={cpus}"] * (cpus is not None),
            *["--no-kill"] * (block.nodes > 1),  # the other nodes go on when one dies
            "--no-requeue",  # a job that Slurm itself starts again would run beside the block in its place
            *self.options,
        ]  # fmt: skip

    def ask(self, script: Path) -> str:
        answer("sbatch", "--test-only", str(script))
        return "sbatch --test-only accepts it"

    @classmethod
    def job(cls, environment: Mapping[str, str]) -> tuple[int, float | None]:
        left = seconds(printed("squeue", "-h", "-j", environment["SLURM_JOB_ID"], "-o", "%L"))
        if left is None and (ends := environment.get("SLURM_JOB_END_TIME", "")).isdigit():
            left = int(ends) - time.time()
        return int(environment.get("SLURM_JOB_NUM_NODES", "1")), left

    @classmethod
    def states(cls, jobs: Sequence[str], code: int, out: str, err: str) -> dict[str, State]:
        """One that squeue answers without has ended some minutes ago; of the last one it says that it is not known."""
        gone: dict[str, State] = dict.fromkeys(jobs if code == 0 else (), "COMPLETED")
        return gone | super().states(jobs, code, out, err)
