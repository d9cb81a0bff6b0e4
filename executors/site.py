"""A site: where a run's walkers, training and scoring execute, as a site file says it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, PrivateAttr, Tag, model_validator

import steersman.site_configs
from steersman.executors.errors import BadSite
from steersman.executors.executor import ROLES, Executor
from steersman.executors.globus import Endpoint
from steersman.executors.schedulers.registry import SCHEDULERS, Schedulers
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.threads import Threads
from steersman.executors.values import Line, Strict
from steersman.executors.workers import Scorers, Trainers, Walkers, Workers
from steersman.system import plain

SHIPPED = Path(steersman.site_configs.__file__).parent


# What may do the work of a role, worker processes first.
KINDS: dict[str, tuple[type[Executor], ...]] = {
    "simulation": (Walkers,),
    "training": (Trainers, Endpoint),
    "scoring": (Scorers, Endpoint, Threads),
}


def _chosen(role: str) -> Discriminator:
    """By the key that makes it another type than worker processes."""
    workers, *others = KINDS[role]

    def name(given: Any) -> str:
        if not isinstance(given, Mapping):
            return type(given).__name__
        return next((other for other in others if given.get(other.KEY)), workers).__name__

    return Discriminator(name)


AnEndpoint = Annotated[Endpoint, Tag("Endpoint")]
Training = Annotated[Annotated[Trainers, Tag("Trainers")] | AnEndpoint, _chosen("training")]
Scoring = Annotated[
    Annotated[Scorers, Tag("Scorers")] | AnEndpoint | Annotated[Threads, Tag("Threads")], _chosen("scoring")
]


class Node(Strict):
    """What a node of the machine has; what is asked for is held against it."""

    cores: int = Field(ge=1)
    gpus: int = Field(default=0, ge=0)


class Site(Schedulers):
    """A machine; of the schedulers' keys one says who is asked for nodes.

    Args:
        name: what `--site` says.
        simulation: slots for walkers.
        training: workers that train, and score unless `scoring` says who does; two let scoring go on beside a training.
        scoring: what scores instead; None: the training workers do.
        together: executors that have nodes share each allocation by nodes; the first ones train, the next ones score.
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
        heartbeat_s: workers on nodes give a sign of life so often, and are lost after eight of them did not come.
        lease_s: a start is offered again when its walker gave no sign of life for so long.
        margin_s: before a block ends, this much is kept for writing what there is.
    """

    name: str
    simulation: Walkers = Walkers()
    training: Training = Trainers()
    scoring: Scoring | None = None
    together: bool = False
    parsl: str = ""
    inside: bool = False
    launcher: Line = ""
    needs: tuple[Literal["account", "queue"], ...] = ()
    node: Node | None = None
    interface: str = ""
    worker_init: str = ""
    bus_servers: int = Field(default=1, ge=1, le=64)
    most_files: int = Field(default=100_000, ge=1)
    starts_s: float = Field(default=300.0, ge=1)
    heartbeat_s: int = Field(default=15, ge=1)
    lease_s: float = Field(default=15.0, ge=1)
    margin_s: float = Field(default=30.0, ge=0)
    _stages: tuple[str, ...] = PrivateAttr(ROLES)  # of the workflow that it is to run; no key of a site file

    @model_validator(mode="after")
    def _nodes_have_a_scheduler(self) -> Self:
        if len(self.named) + self.inside > 1:
            raise ValueError(f"one of {', '.join(SCHEDULERS)} and inside can be named, not several")
        if self.asks_for_nodes and not self.named and not self.inside:
            raise ValueError(
                "nodes are asked for, but no scheduler is named: add `slurm: {partition: ..., account: ...}`, "
                f"or another of {', '.join(SCHEDULERS)}"
            )
        if self.simulation.mpi and self.scheduler and not self.scheduler.MPI_WALKERS:
            can = ", ".join(each.TITLE for each in SCHEDULERS.values() if each.MPI_WALKERS)
            raise ValueError(f"simulation.mpi: nodes of a job are found with {can}, not with {self.scheduler.TITLE}")
        for role, wanted in self.workers.items():
            if wanted.nodes and wanted.walltime_s is None and not self.inside:
                raise ValueError(f"{role}: nodes of a scheduler need `walltime_s`, after which a block ends")
        return self

    @model_validator(mode="after")
    def _blocks_are_longer_than_what_is_kept_of_them(self) -> Self:
        for role, wanted in self.workers.items():
            if wanted.walltime_s is not None and wanted.walltime_s <= self.margin_s:
                raise ValueError(
                    f"{role}: a block of {wanted.walltime_s:g} s would do nothing, for margin_s = {self.margin_s:g} of "
                    "them are kept for writing what there is: a longer walltime, or a shorter margin"
                )
        return self

    @model_validator(mode="after")
    def _an_allocation_can_be_shared(self) -> Self:
        each = [one for one in self.workers.values() if one.nodes]
        alike = len({(one.blocks, one.walltime_s) for one in each}) == 1
        if self.together and not (self.scheduler and self.simulation.nodes and len(each) > 1 and alike):
            raise ValueError(
                "together: name a scheduler, and give simulation and training, or scoring, `nodes`, the same `blocks` "
                "and the same `walltime_s`; in a job (`inside: true`) they share its nodes anyway"
            )
        usual = self.scheduler.LAUNCHER if self.scheduler else ""
        if self.shares and self.launcher and "{first}" in usual and "{first}" not in self.launcher:
            raise ValueError("launcher: say where a share of nodes begins, e.g. srun --relative={first} ...")
        return self

    @model_validator(mode="after")
    def _a_node_has_what_is_asked(self) -> Self:
        for role, wanted in self.workers.items():
            if self.node and wanted.nodes and len(wanted.gpu_names) > self.node.gpus:
                raise ValueError(f"{role}: gpus = {len(wanted.gpu_names)}, but a node has {self.node.gpus}")
            if self.node and wanted.nodes and not wanted.mpi_walkers and wanted.per_node > self.node.cores:
                raise ValueError(f"{role}: workers = {wanted.per_node}, but a node has {self.node.cores} cores")
        return self

    @property
    def scheduler(self) -> Scheduler | None:
        """Who is asked for nodes, if somebody is."""
        return next(iter(self.named), None)

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
        each = {"simulation": self.simulation, "training": self.training, "scoring": self.scoring}
        return {role: one for role, one in each.items() if role in used and one}

    @property
    def workers(self) -> dict[str, Workers]:
        """Those of them that are worker processes."""
        return {role: one for role, one in self.executors.items() if isinstance(one, Workers)}

    def scratch_here(self, role: str) -> Path | None:
        """The folder on this node's own disk, if one is used. Raises: BadSite: a variable in it is not set here."""
        executor = self.executors[role]
        given = executor.scratch if isinstance(executor, (Walkers, Trainers, Endpoint)) else ""
        folder = os.path.expandvars(given)
        if "$" in folder:
            raise BadSite(self.name, f"{role}.scratch = {given}: not all of its variables are set on {platform.node()}")
        return Path(folder) if folder else None

    @property
    def asks_for_nodes(self) -> bool:
        return any(one.nodes for one in self.workers.values())

    @property
    def shares(self) -> bool:
        """Whether executors have different nodes of one allocation."""
        beside = [one for role, one in self.workers.items() if role != "simulation"]
        return (self.together or self.inside) and any(one.nodes for one in beside)

    def first_node(self, role: str) -> int:
        """Where the nodes of an executor begin among those of its allocation, from 0; walkers have the last ones."""
        before = {"training": (), "scoring": ("training",), "simulation": ("training", "scoring")}[role]
        return sum(one.nodes for other, one in self.workers.items() if other in before) if self.shares else 0

    @property
    def gpus(self) -> int:
        """GPUs held while it runs."""
        return sum(one.gpus_held for one in self.executors.values())


def sites() -> dict[str, Path]:
    """The site files that come with Steersman, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def read_site(path: Path) -> dict[str, Any]:
    """A site file as plain values; `Site.model_validate` checks them."""
    loaded = plain.read(path) or {}
    return {"name": path.stem, **loaded}
