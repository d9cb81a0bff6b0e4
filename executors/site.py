"""A site: where a run's walkers, training and scoring execute, as a site file says it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

import steersman.site_configs
from steersman.executors.errors import BadSite
from steersman.executors.executor import ROLES, Executor, Learning, Scoring, Strict, Training
from steersman.system import plain

SCHEDULERS = ("slurm", "pbs", "lsf", "flux")
SHIPPED = Path(steersman.site_configs.__file__).parent


class Slurm(Strict):
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


class Pbs(Strict):
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


class Lsf(Strict):
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


class Flux(Strict):
    """What flux batch is told besides nodes and time; empty: the instance's default.

    Args:
        account: the bank, `--bank`.
        options: further options of flux batch, e.g. ["--setattr=user.note=fold"].
    """

    account: str = ""
    queue: str = ""
    options: tuple[str, ...] = ()


class Node(Strict):
    """What a node of the machine has; what is asked for is held against it."""

    cores: int = Field(ge=1)
    gpus: int = Field(default=0, ge=0)


class Site(Strict):
    """A machine.

    Args:
        name: what `--site` says.
        simulation: slots for walkers.
        training: workers that train, and score unless `scoring` says who does; two let scoring go on beside a training.
        scoring: what scores instead; None: the training workers do.
        together: executors that have nodes share each allocation by nodes; the first ones train, the next ones score.
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
        starts_s: a block that runs has workers within so long: starting Python on many nodes may take minutes.
        lease_s: a start is offered again when its walker gave no sign of life for so long.
        margin_s: before a block ends, this much is kept for writing what there is.
    """

    name: str
    simulation: Executor = Executor()
    training: Training = Training()
    scoring: Scoring | None = None
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
    starts_s: float = Field(default=300.0, ge=1)
    lease_s: float = Field(default=15.0, ge=1)
    margin_s: float = Field(default=30.0, ge=0)
    _stages: tuple[str, ...] = PrivateAttr(ROLES)  # of the workflow that it is to run; no key of a site file

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
        for role, wanted in self.executors.items():
            if wanted.nodes and wanted.walltime_s is None and not self.inside:
                raise ValueError(f"{role}: nodes of a scheduler need `walltime_s`, after which a block ends")
        return self

    @model_validator(mode="after")
    def _blocks_are_longer_than_what_is_kept_of_them(self) -> Self:
        for role, wanted in self.executors.items():
            if wanted.walltime_s is not None and wanted.walltime_s <= self.margin_s:
                raise ValueError(
                    f"{role}: a block of {wanted.walltime_s:g} s would do nothing, for margin_s = {self.margin_s:g} of "
                    "them are kept for writing what there is: a longer walltime, or a shorter margin"
                )
        return self

    @model_validator(mode="after")
    def _an_allocation_can_be_shared(self) -> Self:
        each = [one for one in self.executors.values() if one.nodes]
        alike = len({(one.blocks, one.walltime_s) for one in each}) == 1
        if self.together and not (self.scheduler and self.simulation.nodes and len(each) > 1 and alike):
            raise ValueError(
                "together: name a scheduler, and give simulation and training, or scoring, `nodes`, the same `blocks` "
                "and the same `walltime_s`; in a job (`inside: true`) they share its nodes anyway"
            )
        if self.shares and self.scheduler in ("slurm", "flux") and self.launcher and "{first}" not in self.launcher:
            raise ValueError("launcher: say where a share of nodes begins, e.g. srun --relative={first} ...")
        return self

    @model_validator(mode="after")
    def _a_node_has_what_is_asked(self) -> Self:
        for role, wanted in self.executors.items():
            if self.node and wanted.nodes and len(wanted.gpu_names) > self.node.gpus:
                raise ValueError(f"{role}: gpus = {len(wanted.gpu_names)}, but a node has {self.node.gpus}")
            if self.node and wanted.nodes and not wanted.mpi and wanted.per_node > self.node.cores:
                raise ValueError(f"{role}: workers = {wanted.per_node}, but a node has {self.node.cores} cores")
        return self

    @property
    def scheduler(self) -> str:
        """Which scheduler is asked for nodes; "" if none."""
        return next((name for name in SCHEDULERS if getattr(self, name) is not None), "")

    def serving(self, stages: Iterable[str]) -> Site:
        """This site for a workflow with these stages, of ROLES: executors that serve none of them are not used."""
        narrowed = self.model_copy()
        narrowed._stages = tuple(stages)
        return narrowed

    @property
    def stages(self) -> tuple[str, ...]:
        """What is to be done here, of ROLES."""
        return self._stages

    def executor_of(self, stage: str) -> str:
        """The role of the executor that runs a stage."""
        return "training" if stage == "scoring" and self.scoring is None else stage

    @property
    def executors(self) -> dict[str, Executor]:
        """Executors that are used, by role."""
        used = {self.executor_of(stage) for stage in self._stages}
        return {role: getattr(self, role) for role in ROLES if role in used}

    @property
    def endpoints(self) -> dict[str, str]:
        """Globus Compute endpoints that are used, by role."""
        near_or_far = {role: one for role, one in self.executors.items() if isinstance(one, Learning)}
        return {role: str(one.globus) for role, one in near_or_far.items() if one.globus}

    @property
    def driver_threads(self) -> int:
        """Threads of the driver that score."""
        return self.scoring.threads if self.scoring and "scoring" in self.executors else 0

    def scratch_here(self, role: str) -> Path | None:
        """The folder on this node's own disk, if one is used. Raises: BadSite: a variable in it is not set here."""
        given: str = getattr(self, role).scratch
        folder = os.path.expandvars(given)
        if "$" in folder:
            raise BadSite(self.name, f"{role}.scratch = {given}: not all of its variables are set on {platform.node()}")
        return Path(folder) if folder else None

    @property
    def asks_for_nodes(self) -> bool:
        return any(one.nodes for one in self.executors.values())

    @property
    def shares(self) -> bool:
        """Whether executors have different nodes of one allocation."""
        beside = [one for role, one in self.executors.items() if role != "simulation"]
        return (self.together or self.inside) and any(one.nodes for one in beside)

    def first_node(self, role: str) -> int:
        """Where the nodes of an executor begin among those of its allocation, from 0; walkers have the last ones."""
        before = {"training": (), "scoring": ("training",), "simulation": ("training", "scoring")}[role]
        return sum(one.nodes for other, one in self.executors.items() if other in before) if self.shares else 0

    @property
    def gpus(self) -> int:
        """GPUs held while it runs."""
        each = self.executors.values()
        return sum(len(one.gpu_names) * max(1, one.nodes) * one.blocks for one in each)


def sites() -> dict[str, Path]:
    """The site files that come with Steersman, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def read_site(path: Path) -> dict[str, Any]:
    """A site file as plain values; `Site.model_validate` checks them."""
    loaded = plain.read(path) or {}
    return {"name": path.stem, **loaded}
