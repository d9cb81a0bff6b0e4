"""Executors of a site: worker processes, an endpoint, or threads, for one role each."""

from __future__ import annotations

import os
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator

ROLES = ("simulation", "training", "scoring")


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mpi(Strict):
    """A walker that is an MPI program over several nodes: PARSL_MPI_PREFIX is what starts it there.

    Args:
        nodes: of one walker; a block has room for nodes // this of them.
        ranks: on each node.
        launcher: what starts ranks.
        options: further words of the launcher, e.g. "--mpi=pmi2".
    """

    nodes: int = Field(default=2, ge=1)
    ranks: int = Field(default=1, ge=1)
    launcher: Literal["srun", "mpiexec", "aprun"] = "mpiexec"
    options: str = ""


class Executor(Strict):
    """Worker processes for one role.

    Args:
        workers: processes on a node, one slot each; "cores" for one on each core of the driver's machine, bound to it.
        gpus: GPUs of a node, or their names (MIG devices, tiles of Intel's: "0.1"); each worker has one of its own.
        affinity: cores of the workers: none, block, block-reverse, alternating, or Parsl's list:0-7:8-15:...
        mpi: each worker has so many whole nodes for ranks that it starts; `workers` and `gpus` are not looked at.
        nodes: of a block, asked of the scheduler; 0: the block is on the driver's machine, no scheduler is asked.
        blocks: so many times the above, each in its own allocation.
        scratch: a folder on each node's own disk, such as "$TMPDIR" or "/mnt/bb/$USER". Frames of walkers grow there
            and are moved to the run directory now and then; ranks of a training read their window there: a byte is
            read once from the shared file system and passed on between nodes. Empty: neither.
        walltime_s: a block is ended after this, and another takes its place; None: blocks do not end.
    """

    workers: Annotated[int, Field(ge=1)] | Literal["cores"] = "cores"
    gpus: Annotated[int, Field(ge=0)] | tuple[str, ...] = 0
    affinity: str = "none"
    scratch: str = ""
    mpi: Mpi | None = None
    nodes: int = Field(default=0, ge=0)
    blocks: int = Field(default=1, ge=1)
    walltime_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _nodes_are_described(self) -> Self:
        if self.mpi:
            if not self.nodes or self.nodes % self.mpi.nodes:
                raise ValueError(f"mpi needs `nodes` that are a multiple of {self.mpi.nodes}")
            return self
        if self.nodes and self.workers == "cores":
            raise ValueError("nodes of a scheduler need `workers`, a number for each node")
        if not self.nodes and self.affinity != "none" and self.per_node > len(os.sched_getaffinity(0)):
            raise ValueError(f"affinity: {self.per_node} workers for {len(os.sched_getaffinity(0))} cores here")
        # Parsl would start as many workers as there are GPUs, and the others' slots would wait for ever.
        if self.gpu_names and self.per_node > len(self.gpu_names):
            raise ValueError(
                f"{self.per_node} workers and {len(self.gpu_names)} GPUs on a node: each worker has a GPU of its own; "
                "lower `workers`, or name MIG devices as `gpus`"
            )
        return self

    @property
    def on_first_node(self) -> bool:
        """Whether workers are on the first node of a block only, and start ranks on the others."""
        return self.mpi is not None

    @property
    def gpu_names(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.gpus))) if isinstance(self.gpus, int) else self.gpus

    @property
    def binding(self) -> str:
        """How Parsl binds workers to cores: a process whose threads share one core need not wake another."""
        return "block" if (self.workers, self.affinity) == ("cores", "none") else self.affinity

    @property
    def per_node(self) -> int:
        return len(os.sched_getaffinity(0)) if self.workers == "cores" else self.workers

    @property
    def per_block(self) -> int:
        return self.nodes // self.mpi.nodes if self.mpi else self.per_node * max(1, self.nodes)

    @property
    def count(self) -> int:
        return self.per_block * self.blocks

    @property
    def has_blocks(self) -> bool:
        """Whether it is worker processes, which Parsl starts in blocks."""
        return True

    def _given(self, *names: str) -> str:
        """Which of these keys say something else than by default."""
        fields = type(self).model_fields
        return ", ".join(name for name in names if getattr(self, name) != fields[name].default)


class Learning(Executor):
    """What runs jobs that read frames and models from the run directory and end by themselves, near or far.

    Args:
        globus: a Globus Compute endpoint that runs them instead; it has nodes, workers and walltime of its own.
    """

    globus: UUID | None = None

    @model_validator(mode="after")
    def _ranks_need_no_mpi(self) -> Self:
        if self.mpi:
            raise ValueError("mpi is for walkers; ranks of @wf.train(ranks=...) are placed on all `nodes` without it")
        return self

    @model_validator(mode="after")
    def _an_endpoint_has_its_own(self) -> Self:
        given = self._given("nodes", "blocks", "workers", "affinity", "walltime_s")
        if self.globus and given:
            raise ValueError(f"globus: the endpoint's own configuration says {given}; leave them out")
        return self

    @property
    def has_blocks(self) -> bool:
        return self.globus is None


class Training(Learning):
    """Workers that train; they are on the first node of a block, and place a training's ranks on all."""

    workers: Annotated[int, Field(ge=1)] | Literal["cores"] = 2

    @property
    def on_first_node(self) -> bool:
        return self.nodes > 0

    @property
    def per_block(self) -> int:
        return self.per_node


class Scoring(Learning):
    """Workers that score. One scoring runs at a time: a second worker is there when the first hangs or dies.

    Args:
        threads: threads of the driver that score instead, for what is light: see docs/design/007-executors.md.
    """

    workers: Annotated[int, Field(ge=1)] | Literal["cores"] = 1
    threads: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _one_node_is_enough(self) -> Self:
        if self.nodes > 1:
            raise ValueError(f"nodes = {self.nodes}: one scoring runs at a time, on one node")
        if self.scratch:
            raise ValueError("scratch is for walkers and for ranks of a training; leave it out")
        return self

    @model_validator(mode="after")
    def _threads_are_the_drivers(self) -> Self:
        given = self._given("nodes", "blocks", "workers", "gpus", "affinity", "walltime_s", "globus")
        if self.threads and given:
            raise ValueError(f"threads: a thread of the driver has no {given}; leave them out")
        return self

    @property
    def has_blocks(self) -> bool:
        return super().has_blocks and not self.threads
