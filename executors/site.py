"""A site: where a run's walkers, training and scoring execute, as a site file says it."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from uuid import UUID

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

import steersman.site_configs
from steersman.executors.errors import BadSite

ROLES = ("simulation", "training")
SCHEDULERS = ("slurm", "pbs", "lsf", "flux")
SHIPPED = Path(steersman.site_configs.__file__).parent


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mpi(_Strict):
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


class Executor(_Strict):
    """Worker processes of one kind.

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


class Training(Executor):
    """Workers that train and score; they are on the first node of a block, and place a training's ranks on all.

    Args:
        globus: a Globus Compute endpoint that trains and scores instead; it has nodes, workers and walltime of its own.
    """

    workers: Annotated[int, Field(ge=1)] | Literal["cores"] = 2
    globus: UUID | None = None

    @model_validator(mode="after")
    def _ranks_need_no_mpi(self) -> Self:
        if self.mpi:
            raise ValueError("mpi is for walkers; ranks of @wf.train(ranks=...) are placed on all `nodes` without it")
        return self

    @model_validator(mode="after")
    def _an_endpoint_has_its_own(self) -> Self:
        own, default = ("nodes", "blocks", "workers", "affinity", "walltime_s"), type(self).model_fields
        given = [name for name in own if getattr(self, name) != default[name].default]
        if self.globus and given:
            raise ValueError(f"globus: the endpoint's own configuration says {', '.join(given)}; leave them out")
        return self

    @property
    def on_first_node(self) -> bool:
        return self.nodes > 0

    @property
    def per_block(self) -> int:
        return self.per_node


class Slurm(_Strict):
    """What sbatch is told besides nodes and time; empty: the cluster's default.

    Args:
        options: further options of sbatch, e.g. ["--gpus-per-node=4"].
        exclusive: nodes are not shared with other jobs.
    """

    account: str = ""
    partition: str = ""
    qos: str = ""
    constraint: str = ""
    options: tuple[str, ...] = ()
    exclusive: bool = True


class Pbs(_Strict):
    """What qsub is told besides nodes and time; empty: the server's default.

    Args:
        cpus: hardware threads of a node, `ncpus` of the select statement.
        select: further resources of a node, e.g. "ngpus=4:system=polaris".
        options: further options of qsub, e.g. ["-l filesystems=home:eagle"].
    """

    account: str = ""
    queue: str = ""
    cpus: int = Field(default=1, ge=1)
    select: str = ""
    options: tuple[str, ...] = ()


class Lsf(_Strict):
    """What bsub is told besides nodes and time; empty: the cluster's default.

    Args:
        account: the project, `-P`.
        cpus: job slots of a node; so many are asked for on each.
        options: further options of bsub, e.g. ['-gpu "num=4"'].
    """

    account: str = ""
    queue: str = ""
    cpus: int = Field(default=1, ge=1)
    options: tuple[str, ...] = ()


class Flux(_Strict):
    """What flux batch is told besides nodes and time; empty: the instance's default.

    Args:
        account: the bank, `--bank`.
        options: further options of flux batch, e.g. ["--setattr=user.note=fold"].
    """

    account: str = ""
    queue: str = ""
    options: tuple[str, ...] = ()


class Node(_Strict):
    """What a node of the machine has; what is asked for is held against it."""

    cores: int = Field(ge=1)
    gpus: int = Field(default=0, ge=0)


class Site(_Strict):
    """A machine.

    Args:
        name: what `--site` says.
        simulation: slots for walkers.
        training: workers that train and score; two let scoring go on beside a training.
        together: simulation and training share each allocation by nodes; the first ones train.
        slurm, pbs, lsf, flux: the scheduler that is asked for nodes; one of them.
        parsl: a Python file that says all this in Parsl's own words, see python_site.py; the rest is not looked at but
            lease_s and margin_s.
        inside: the driver runs in a job; nodes and time are those of the job, whatever the scheduler.
        launcher: shell words that start a program once on each of {nodes} nodes, of which {first} are left out before;
            empty: the scheduler's usual.
        needs: what must be given before a run, of account and queue.
        node: what a node has.
        interface: network interface of the driver's machine that the nodes reach, e.g. "hsn0"; empty: the address of
            its host name.
        worker_init: shell lines run before the workers start.
        bus_servers: processes on the driver's machine that share what thousands of walkers ask.
        most_files: of a run; more are warned of, for the directories of parallel file systems grow slow.
        lease_s: a start is offered again when its walker gave no sign of life for so long.
        margin_s: before a block ends, this much is kept for writing what there is.
    """

    name: str
    simulation: Executor = Executor()
    training: Training = Training()
    together: bool = False
    slurm: Slurm | None = None
    pbs: Pbs | None = None
    lsf: Lsf | None = None
    flux: Flux | None = None
    parsl: str = ""
    inside: bool = False
    launcher: str = ""
    needs: tuple[Literal["account", "queue"], ...] = ()
    node: Node | None = None
    interface: str = ""
    worker_init: str = ""
    bus_servers: int = Field(default=1, ge=1, le=64)
    most_files: int = Field(default=100_000, ge=1)
    lease_s: float = Field(default=15.0, ge=1)
    margin_s: float = Field(default=30.0, ge=0)

    @model_validator(mode="after")
    def _nodes_have_a_scheduler(self) -> Self:
        named = [name for name in SCHEDULERS if getattr(self, name) is not None]
        if len(named) + self.inside > 1:
            raise ValueError(f"one of {', '.join(SCHEDULERS)} and inside can be named, not several")
        if self.asks_for_nodes and not named and not self.inside:
            raise ValueError(
                "nodes are asked for, but no scheduler is named: add `slurm: {partition: ..., account: ...}`, "
                "or pbs, lsf, flux"
            )
        for role in ROLES:
            wanted: Executor = getattr(self, role)
            if wanted.nodes and wanted.walltime_s is None and not self.inside:
                raise ValueError(f"{role}: nodes of a scheduler need `walltime_s`, after which a block ends")
        return self

    @model_validator(mode="after")
    def _an_allocation_can_be_shared(self) -> Self:
        each = (self.simulation, self.training)
        if self.together and (
            not self.scheduler
            or not all(one.nodes for one in each)
            or len({(one.blocks, one.walltime_s) for one in each}) > 1
        ):
            raise ValueError(
                "together: name a scheduler, and give simulation and training `nodes`, the same `blocks` and the same "
                "`walltime_s`; in a job (`inside: true`) both share its nodes anyway"
            )
        if self.shares and self.scheduler in ("slurm", "flux") and self.launcher and "{first}" not in self.launcher:
            raise ValueError("launcher: say where a share of nodes begins, e.g. srun --relative={first} ...")
        return self

    @model_validator(mode="after")
    def _a_node_has_what_is_asked(self) -> Self:
        for role in ROLES:
            wanted: Executor = getattr(self, role)
            if self.node and wanted.nodes and len(wanted.gpu_names) > self.node.gpus:
                raise ValueError(f"{role}: gpus = {len(wanted.gpu_names)}, but a node has {self.node.gpus}")
            if self.node and wanted.nodes and not wanted.mpi and wanted.per_node > self.node.cores:
                raise ValueError(f"{role}: workers = {wanted.per_node}, but a node has {self.node.cores} cores")
        return self

    @property
    def scheduler(self) -> str:
        """Which scheduler is asked for nodes; "" if none."""
        return next((name for name in SCHEDULERS if getattr(self, name) is not None), "")

    def scratch_here(self, role: str) -> Path | None:
        """The folder on this node's own disk, if one is used. Raises: BadSite: a variable in it is not set here."""
        given: str = getattr(self, role).scratch
        folder = os.path.expandvars(given)
        if "$" in folder:
            raise BadSite(self.name, f"{role}.scratch = {given}: not all of its variables are set on {platform.node()}")
        return Path(folder) if folder else None

    @property
    def asks_for_nodes(self) -> bool:
        return bool(self.simulation.nodes or self.training.nodes)

    @property
    def shares(self) -> bool:
        """Whether simulation and training have different nodes of one allocation."""
        return self.together or bool(self.inside and self.training.nodes)

    def first_node(self, role: str) -> int:
        """Where the nodes of an executor begin among those of its allocation, from 0; the first ones train."""
        return self.training.nodes if self.shares and role == "simulation" else 0

    @property
    def gpus(self) -> int:
        """GPUs held while it runs."""
        each = (self.simulation, self.training)
        return sum(len(one.gpu_names) * max(1, one.nodes) * one.blocks for one in each)


def sites() -> dict[str, Path]:
    """The site files that come with Steersman, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def read_site(path: Path) -> dict[str, Any]:
    """A site file as plain values; `Site.model_validate` checks them."""
    loaded = yaml.safe_load(path.read_text()) or {}
    return {"name": path.stem, **loaded}
