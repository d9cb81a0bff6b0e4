"""A site: where a run's walkers, training and scoring execute, as a site file says it."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, PrivateAttr, Tag, ValidationError, model_validator

import steersman.site_configs
from steersman.executors.errors import BadSite
from steersman.executors.executor import ROLES, Blockless
from steersman.executors.globus import Endpoint
from steersman.executors.schedulers.registry import SCHEDULERS, Schedulers
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.threads import Threads
from steersman.executors.values import Line, Seconds, Strict, matching
from steersman.executors.workers import Labellers, Scorers, Trainers, Walkers, Workers
from steersman.system import plain
from steersman.system.files import home

SHIPPED = Path(steersman.site_configs.__file__).parent

WALKERS_OF_A_SERVER = 8000
LEASE_S, WALKERS_OF_A_LEASE = 15.0, 2500
BEGINS_LEASES = 2

# What may do the work of a role, worker processes first.
KINDS: dict[str, tuple[type[Workers], *tuple[type[Blockless], ...]]] = {
    "simulation": (Walkers,),
    "training": (Trainers, Endpoint),
    "scoring": (Scorers, Endpoint, Threads),
    "labelling": (Labellers, Endpoint),
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
Labelling = Annotated[Annotated[Labellers, Tag("Labellers")] | AnEndpoint, _chosen("labelling")]


class Node(Strict):
    """What a node of the machine has; what is asked for is held against it.

    Args:
        cores, gpus: how many.
    """

    cores: int = Field(ge=1)
    gpus: int = Field(default=0, ge=0)


class QueueLimits(Strict):
    """What a queue takes, by the site's guide.

    Args:
        nodes: fewest and most of a job.
        walltime_s: longest; where it depends on the nodes, for up to how many of them each: `{91: 2h, 183: 6h}`.
        jobs: of one user at a time, waiting or running.
    """

    nodes: tuple[int, int] | None = None
    walltime_s: Seconds | dict[int, Seconds] | None = None
    jobs: int | None = Field(default=None, ge=1)

    def longest_s(self, nodes: int) -> float:
        """Of a job of so many nodes."""
        if isinstance(self.walltime_s, dict):
            return next((longest for most, longest in sorted(self.walltime_s.items()) if nodes <= most), math.inf)
        return self.walltime_s or math.inf


def _in_order(ports: tuple[int, int]) -> tuple[int, int]:
    if not 1024 <= ports[0] <= ports[1] - 8 <= 65527:
        raise ValueError("write the first and the last port, between 1024 and 65535, at least nine in all")
    return ports


IPv4 = Annotated[str, matching(r"([0-9]{1,3}(\.[0-9]{1,3}){3})?", "write an IPv4 address, e.g. 10.0.0.1")]
Ports = Annotated[tuple[int, int], AfterValidator(_in_order)]


class Site(Schedulers):
    """A machine. A key such as `slurm` names the scheduler that gives nodes; without one the site is this machine.

    Args:
        name: name of the site, as `--site` takes it.
        simulation: the workers that simulate, one walker each.
        training: the workers that train. They also score, unless `scoring` is given; with two of them scoring goes on
            while a model is trained.
        scoring: a separate executor for scoring; None: the training workers score.
        labelling: a separate executor for labels; None: the training workers give them.
        together: executors share one allocation. Training takes the first nodes, then scoring, then labelling, then
            simulation. One without nodes of its own (`nodes: 0`) is on the first node of the walkers, beside them.
        parsl: path of a Python file that returns a Parsl configuration, see python_site.py. Only `lease_s` and
            `margin_s` are used beside it.
        inside: the driver runs in a job of any scheduler and uses the nodes and the time of that job.
        launcher: shell command that starts a program once on each of {nodes} nodes and skips the first {first} nodes;
            empty: the usual command of the scheduler (srun, mpiexec, blaunch, flux run or qrsh).
        needs: options that a user must give before a run: account, queue or both.
        node: the hardware of one node; requests for more are refused.
        interface: network interface of the driver's machine that the nodes can reach, e.g. "hsn0"; empty: the address
            of its host name.
        worker_init: shell commands that run before the workers start.
        environment: "packed": a block's nodes unpack the driver's Python environment to $TMPDIR, or /tmp, and their
            workers start from there; "shared": workers start from the file system that the nodes share.
        bus_servers: number of bus servers on the driver's machine, which share the requests of walkers; None: one, and
            one more for each 8,000 walkers.
        most_files: number of files of a run above which `check` and `status` warn. Large directories are slow on
            parallel file systems.
        starts_s: maximum time from the start of a block to its first worker, and for a worker to begin its first job,
            in seconds. Raise it where Python starts slowly.
        begins_s: maximum time until an idle worker that has done a job begins the next one, in seconds; then its block
            is replaced, and the time doubles. On a busy driver's machine both times are longer. None: twice the lease.
        nice: by how much the workers on the driver's machine make way for other processes, as of nice(1).
        heartbeat_s: interval of the heartbeats of workers on nodes, in seconds; on the driver's machine it is 1. A
            worker that misses eight is lost.
        poll_s: interval at which the scheduler is asked for the states of jobs, in seconds. ARCHER2 asks for 60.
        ports: first and last of the ports at which workers reach the driver's machine, e.g. [50000, 50100]; None: any.
        tunnel: IPv4 address at which nodes reach the driver's machine, where a tunnel leads there. It carries each of
            `ports` to the same port of `interface`, or of 127.0.0.1 there. Empty: nodes reach the machine itself.
        queues: limits of queues by name, which `check` compares: `{debug: {nodes: [1, 2], walltime_s: 1h, jobs: 1}}`.
        lease_s: time without a heartbeat after which a walker's start is given to another walker, in seconds; None:
            15, and longer in proportion from 2,500 walkers on, 60 for 10,000.
        margin_s: time at the end of a block that is reserved for writing, in seconds.
    """

    name: str
    simulation: Walkers = Walkers()
    training: Training = Trainers()
    scoring: Scoring | None = None
    labelling: Labelling | None = None
    together: bool = False
    parsl: str = ""
    inside: bool = False
    launcher: Line = ""
    needs: tuple[Literal["account", "queue"], ...] = ()
    node: Node | None = None
    interface: str = ""
    worker_init: str = ""
    environment: Literal["shared", "packed"] = "shared"
    bus_servers: int | None = Field(default=None, ge=1, le=64)
    most_files: int = Field(default=100_000, ge=1)
    starts_s: Seconds = Field(default=300.0, ge=1)
    begins_s: Annotated[Seconds, Field(ge=1)] | None = None
    nice: int = Field(default=0, ge=0, le=19)
    heartbeat_s: int = Field(default=15, ge=1)
    poll_s: int = Field(default=5, ge=1)
    ports: Ports | None = None
    tunnel: IPv4 = ""
    queues: dict[str, QueueLimits] = Field(default_factory=dict)
    lease_s: Annotated[Seconds, Field(ge=1)] | None = None
    margin_s: Seconds = Field(default=30.0, ge=0)
    _stages: tuple[str, ...] = PrivateAttr(ROLES)  # of the workflow that it is to run; no key of a site file
    _one_worker: bool = PrivateAttr(False)

    @model_validator(mode="after")
    def _nodes_have_a_scheduler(self) -> Self:
        if len(self.named) + self.inside > 1:
            raise ValueError(f"only one of {', '.join(SCHEDULERS)} and inside can be named")
        if self.asks_for_nodes and not self.named and not self.inside:
            raise ValueError(
                "nodes are requested, but no scheduler is named: add `slurm: {partition: ..., account: ...}`, "
                f"or another of {', '.join(SCHEDULERS)}"
            )
        for role, wanted in self.workers.items():
            if wanted.mpi_walkers and self.scheduler and not self.scheduler.MPI_WALKERS:
                can = ", ".join(each.TITLE for each in SCHEDULERS.values() if each.MPI_WALKERS)
                raise ValueError(f"{role}.mpi: this works with {can}, not with {self.scheduler.TITLE}")
            if wanted.nodes and wanted.walltime_s is None and not self.inside:
                raise ValueError(f"{role}: nodes of a scheduler need `walltime_s`, the length of a block")
        return self

    @model_validator(mode="after")
    def _blocks_are_longer_than_what_is_kept_of_them(self) -> Self:
        for role, wanted in self.workers.items():
            if wanted.walltime_s is not None and wanted.walltime_s <= self.margin_s:
                raise ValueError(
                    f"{role}: walltime_s = {wanted.walltime_s:g} is too short, because margin_s = {self.margin_s:g} of "
                    "it are reserved for writing; choose a longer walltime or a shorter margin"
                )
            if not 0 <= wanted.ahead_s < (wanted.walltime_s or wanted.ahead_s + 1):
                raise ValueError(f"{role}: ahead_s = {wanted.ahead_s:g} must be at least 0 and less than walltime_s")
        return self

    @model_validator(mode="after")
    def _a_tunnel_carries_known_ports(self) -> Self:
        if self.tunnel and self.ports is None:
            raise ValueError("tunnel: name the ports that it carries, e.g. ports: [50000, 50008]")
        return self

    @model_validator(mode="after")
    def _an_allocation_can_be_shared(self) -> Self:
        each = [one for one in self.workers.values() if one.nodes]
        alike = len({(one.blocks, one.walltime_s, one.ahead_s) for one in each}) == 1
        if self.together and not (self.scheduler and self.simulation.nodes and len(each) > 1 and alike):
            raise ValueError(
                "together: name a scheduler, and give simulation `nodes`, and those that have nodes beside it the same "
                "`blocks`, `walltime_s` and `ahead_s`; in a job (`inside: true`) they share its nodes anyway"
            )
        usual = self.scheduler.LAUNCHER if self.scheduler else ""
        if self.shares and self.launcher and "{first}" in usual and "{first}" not in self.launcher:
            raise ValueError("launcher: use {first} to select the nodes of a share, e.g. srun --relative={first} ...")
        return self

    @model_validator(mode="after")
    def _a_node_has_what_is_asked(self) -> Self:
        for role, wanted in self.workers.items():
            if self.node and wanted.nodes and len(wanted.gpu_names) > self.node.gpus:
                raise ValueError(f"{role}: gpus = {len(wanted.gpu_names)}, but a node has {self.node.gpus}")
            if self.node and wanted.nodes and not wanted.mpi_walkers and wanted.per_node > self.node.cores:
                raise ValueError(f"{role}: workers = {wanted.per_node}, but a node has {self.node.cores} cores")
        return self

    @model_validator(mode="after")
    def _what_executors_ask_for_can_be_asked(self) -> Self:
        for role, wanted in self.workers.items():
            if wanted.asks and (self.together or not self.scheduler or not wanted.nodes):
                raise ValueError(f"{role}.asks: this needs a scheduler and `nodes` of the executor, without `together`")
            self.scheduler_of(role)
        return self

    @property
    def servers(self) -> int:
        """How many bus servers a run has: one carries 30,000 requests a second, and 10,000 walkers make 23,000."""
        return self.bus_servers or 1 + self.simulation.count // WALKERS_OF_A_SERVER

    @property
    def lease(self) -> float:
        """How long a start is a walker's without a heartbeat, in seconds: renewals stay few among the requests."""
        return self.lease_s or LEASE_S * max(1.0, self.simulation.count / WALKERS_OF_A_LEASE)

    @property
    def begins(self) -> float:
        """Within how many seconds a worker that is idle begins a job, or it is replaced."""
        return self.begins_s or BEGINS_LEASES * self.lease

    @property
    def scheduler(self) -> Scheduler | None:
        """Who is asked for nodes, if somebody is."""
        return next(iter(self.named), None)

    def scheduler_of(self, role: str) -> Scheduler | None:
        """The same with what one executor asks for otherwise. Raises: ValueError: one of its `asks` means nothing."""
        wanted = self.workers.get(role)
        if self.scheduler is None or wanted is None or not wanted.asks:
            return self.scheduler
        kind = type(self.scheduler)
        if unknown := sorted(wanted.asks.keys() - kind.model_fields.keys()):
            valid = ", ".join(kind.model_fields)
            raise ValueError(f"{role}.asks: {kind.TITLE} has no key {unknown[0]!r}. Valid: {valid}")
        try:
            return kind.model_validate(self.scheduler.model_dump() | wanted.asks)
        except ValidationError as wrong:
            first = wrong.errors()[0]
            raise ValueError(f"{role}.asks: {first['loc'][0]} = {first['input']!r}: {first['msg']}") from None

    def serving(self, stages: Iterable[str], *, one_worker: bool = False) -> Site:
        """This site for a workflow with these stages, of ROLES: executors that serve none of them are not used.

        Args:
            one_worker: trains and scores on the driver's machine, where nothing is scored while a model is trained.
        """
        narrowed = self.model_copy()
        narrowed._stages, narrowed._one_worker = tuple(stages), one_worker
        return narrowed

    @property
    def stages(self) -> tuple[str, ...]:
        """What is to be done here, of ROLES."""
        return self._stages

    def executor_of(self, stage: str) -> str:
        """The role of the executor that runs a stage."""
        return "training" if stage in ("scoring", "labelling") and getattr(self, stage) is None else stage

    @property
    def takes_turns(self) -> bool:
        """Whether scoring and training have one worker between them."""
        shared = self.executors.get("training")
        return self.scoring is None and isinstance(shared, Trainers) and shared.count == 1

    @property
    def executors(self) -> dict[str, Workers | Blockless]:
        """Executors that are used, by role."""
        used = {self.executor_of(stage) for stage in self._stages}
        training = self.training
        if self._one_worker and self.scoring is None and isinstance(training, Trainers) and not training.nodes:
            training = training.model_copy(update={"workers": 1})
        each = {"simulation": self.simulation, "training": training, "scoring": self.scoring,
                "labelling": self.labelling}  # fmt: skip
        return {role: self._placed(role, one) for role, one in each.items() if role in used and one}

    def _placed(self, role: str, one: Workers | Blockless) -> Workers | Blockless:
        """With the node and the time of the walkers that it is beside, if it is."""
        walkers = self.simulation
        times = {name: getattr(walkers, name) for name in ("blocks", "walltime_s", "ahead_s")}
        return one.model_copy(update={"nodes": 1, **times}) if self.is_beside(role) else one

    def is_beside(self, role: str) -> bool:
        """Whether an executor is on the first node of the walkers."""
        one = getattr(self, role)
        return self.together and role != "simulation" and isinstance(one, Workers) and not one.nodes

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
    def with_nodes(self) -> dict[str, Workers]:
        """Those of them that have nodes of their own."""
        return {role: one for role, one in self.workers.items() if one.nodes and not self.is_beside(role)}

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
        order = ("training", "scoring", "labelling", "simulation")
        before = order[: order.index("simulation" if self.is_beside(role) else role)]
        return sum(one.nodes for other, one in self.with_nodes.items() if other in before) if self.shares else 0

    @property
    def nodes(self) -> float:
        """On how many nodes walkers run; inf: only Parsl's own configuration says so."""
        wanted = self.simulation
        return math.inf if self.parsl else wanted.blocks * (1 if wanted.on_first_node else max(1, wanted.nodes))

    @property
    def gpus(self) -> int:
        """GPUs held while it runs, each once: on a node that executors share they share its GPUs."""
        own, of_walkers = self.with_nodes, set(self.simulation.gpu_names)
        rest = {name for role, one in self.workers.items() if role not in own for name in one.gpu_names}
        if "simulation" in own and (self.together or self.inside):
            rest -= of_walkers
        elsewhere = [one for one in self.executors.values() if not isinstance(one, Workers)]
        blocks = self.simulation.blocks if self.together else 1
        return len(rest) * blocks + sum(one.gpus_held for one in (*own.values(), *elsewhere))


def own() -> Path:
    """The folder of a user's own site files; it need not exist. One who has no home has to name it."""
    return (home("XDG_CONFIG_HOME", ".config") or Path("$XDG_CONFIG_HOME")) / "steersman" / "sites"


def sites() -> dict[str, Path]:
    """The site files that come with Steersman and those of the user, by name; the user's win."""
    files = [*SHIPPED.glob("*.yaml"), *own().glob("*.yaml"), *own().glob("*.py")]
    by_name = {path.stem: path for path in files}
    return {name: by_name[name] for name in sorted(by_name)}


def read_site(path: Path) -> dict[str, Any]:
    """A site file as plain values; `Site.model_validate` checks them."""
    loaded = plain.read(path) or {}
    return {"name": path.stem, **loaded}
