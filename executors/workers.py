"""Worker processes, which Parsl starts in blocks: of walkers, of trainings, of scorings."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from steersman.executors.executor import Executor, Gpus, names
from steersman.executors.values import Line, Seconds, Strict, matching
from steersman.system.node import cores

Count = Annotated[int, Field(ge=1)] | Literal["cores"]
CORES = r"[0-9]{1,5}(-[0-9]{1,5})?"
Affinity = Annotated[
    str,
    matching(
        rf"none|block|block-reverse|alternating|list(:{CORES}(,{CORES})*)+",
        "write none, block, block-reverse, alternating, or cores as in list:0-7:8-15",
    ),
]


class Mpi(Strict):
    """A worker's call is an MPI program over several nodes: PARSL_MPI_PREFIX is what starts it there.

    Args:
        nodes: number of nodes of one such program.
        ranks: number of ranks on each node.
        launcher: command that starts the ranks.
        options: further options of the launcher, e.g. "--mpi=pmi2".
    """

    nodes: int = Field(default=2, ge=1)
    ranks: int = Field(default=1, ge=1)
    launcher: Literal["srun", "mpiexec", "aprun"] = "mpiexec"
    options: Line = ""


class Workers(Executor):
    """Worker processes for one role.

    Args:
        workers: number of processes on each node, one slot each; "cores": one on each core of the driver's machine,
            bound to it.
        gpus: number of GPUs of a node, or their names (MIG devices, tiles of Intel GPUs: "0.1"). Each worker has one;
            of more workers than GPUs neighbours share one.
        affinity: cores of the workers: none, block, block-reverse, alternating, or Parsl's list:0-7:8-15:..., one list
            a worker. Give fewer walkers of OpenMM than cores a free core each, list:1:2.
        nodes: number of nodes of a block, which the scheduler gives; 0: the block is the driver's machine, and with
            `together` the first node of the walkers.
        blocks: number of blocks, each in its own allocation. One that ends or dies is replaced.
        asks: keys of the scheduler whose values differ for the blocks of this executor, e.g. a partition.
        walltime_s: length of a block, in seconds; then another takes its place. Walkers end their segments `margin_s`
            before its end. None: blocks do not end.
        ahead_s: the block that takes the place of another is asked for so long before that one ends, to wait in the
            queue meanwhile. Both may run for that long. 0: when it has ended, as for a queue that takes only one job of
            a user.
    """

    workers: Count = "cores"
    gpus: Gpus = 0
    affinity: Affinity = "none"
    nodes: int = Field(default=0, ge=0)
    blocks: int = Field(default=1, ge=1)
    walltime_s: Annotated[Seconds, Field(gt=0)] | None = None
    ahead_s: Seconds = 0.0
    asks: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _nodes_are_described(self) -> Self:
        if self.mpi_walkers:
            return self
        if self.nodes and self.workers == "cores":
            raise ValueError("nodes of a scheduler need `workers`, the number of workers on each node")
        return self

    @property
    def mpi_walkers(self) -> Mpi | None:
        """What each worker starts over several whole nodes, if it does; then `workers` and `gpus` are not looked at."""
        return None

    @property
    def on_first_node(self) -> bool:
        """Whether workers are on the first node of a block only, and start ranks on the others."""
        return False

    @property
    def gpu_names(self) -> tuple[str, ...]:
        return names(self.gpus)

    @property
    def gpu_of_each(self) -> tuple[str, ...]:
        """The GPU of each worker of a node, in their order."""
        among = max(self.per_node, len(self.gpu_names))
        return tuple(self.gpu_names[i * len(self.gpu_names) // among] for i in range(self.per_node if self.gpus else 0))

    @property
    def gpus_held(self) -> int:
        return len(self.gpu_names) * max(1, self.nodes) * self.blocks

    @property
    def binding(self) -> str:
        """How Parsl binds workers to cores: a process whose threads share one core need not wake another."""
        return "block" if (self.workers, self.affinity) == ("cores", "none") else self.affinity

    @property
    def listed(self) -> list[set[int]]:
        """The cores of each worker, where `affinity` lists them."""
        _, *groups = self.affinity.split(":")
        bounds = [[part.split("-") for part in group.split(",")] for group in groups]
        return [{core for part in group for core in range(int(part[0]), int(part[-1]) + 1)} for group in bounds]

    @property
    def per_node(self) -> int:
        return cores() if self.workers == "cores" else self.workers

    @property
    def per_block(self) -> int:
        return self.per_node * max(1, self.nodes)

    @property
    def count(self) -> int:
        return self.per_block * self.blocks

    @property
    def hours(self) -> float:
        """Of a block; 0: it does not end."""
        return (self.walltime_s or 0.0) / 3600

    @property
    def at_once(self) -> float:
        """How many blocks take the place of one, where no queue is waited for: the next one begins ahead of its end."""
        return self.hours / (self.hours - self.ahead_s / 3600) if self.hours else 1.0


class OfPrograms(Workers):
    """Workers that may call programs over several nodes.

    Args:
        mpi: each worker calls an MPI program on several whole nodes, `{nodes: 2, ranks: 4, launcher: srun}` say;
            `nodes` of a block are a multiple of these. `workers` and `gpus` are then not used.
    """

    mpi: Mpi | None = None

    @model_validator(mode="after")
    def _nodes_are_shared_evenly(self) -> Self:
        if self.mpi and (not self.nodes or self.nodes % self.mpi.nodes):
            raise ValueError(f"mpi needs nodes of a scheduler: write `nodes: {self.mpi.nodes}`, or a multiple")
        return self

    @property
    def mpi_walkers(self) -> Mpi | None:
        return self.mpi

    @property
    def on_first_node(self) -> bool:
        return self.mpi is not None

    @property
    def per_block(self) -> int:
        return self.nodes // self.mpi.nodes if self.mpi else super().per_block


class Walkers(OfPrograms):
    """Workers that simulate.

    Args:
        scratch: a folder on each node's own disk, such as "$TMPDIR" or "/mnt/bb/$USER". Frames are written there and
            moved to the run directory every 10 s. Empty: frames are written to the run directory.
        mps: NVIDIA's MPS daemon runs on each node as long as its walkers, so that walkers that share a GPU compute at
            the same time, and not in turns.
    """

    scratch: Line = ""
    mps: bool = False

    @model_validator(mode="after")
    def _what_mps_shares_is_named(self) -> Self:
        if self.mps and not self.gpus:
            raise ValueError("mps: walkers share GPUs by it, so name `gpus`")
        return self


class Trainers(Workers):
    """Workers that train; they are on the first node of a block, and place a training's ranks on all.

    Args:
        scratch: a folder on each node's own disk. Ranks of a training read their window there: a byte is read once from
            the shared file system and passed on between nodes. Empty: they read the run directory.
    """

    workers: Count = 2
    scratch: Line = ""

    @property
    def on_first_node(self) -> bool:
        return self.nodes > 0

    @property
    def per_block(self) -> int:
        return self.per_node


class Labellers(OfPrograms):
    """Workers that label, a frame at a time each."""

    workers: Count = 1


class Scorers(Workers):
    """Workers that score. One scoring runs at a time, on one node: a second worker is there when the first hangs."""

    workers: Count = 1
    nodes: int = Field(default=0, ge=0, le=1)
