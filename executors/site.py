"""A site: where a run's walkers, training and scoring execute, as a site file says it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

import steersman.site_configs

ROLES = ("simulation", "training")
SHIPPED = Path(steersman.site_configs.__file__).parent


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Executor(_Strict):
    """Worker processes of one kind.

    Args:
        workers: processes on a node, one slot each; "cores" for one on each core of the driver's machine.
        gpus: GPUs of a node that its workers share, one each in turn.
        nodes: of a block, asked of the scheduler; 0: the block is on the driver's machine, no scheduler is asked.
        blocks: so many times the above, each in its own allocation.
        walltime_s: a block is ended after this, and another takes its place; None: blocks do not end.
    """

    workers: Annotated[int, Field(ge=1)] | Literal["cores"] = "cores"
    gpus: int = Field(default=0, ge=0)
    nodes: int = Field(default=0, ge=0)
    blocks: int = Field(default=1, ge=1)
    walltime_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _nodes_are_described(self) -> Self:
        if self.nodes and (self.workers == "cores" or self.walltime_s is None):
            raise ValueError("nodes of a scheduler need `workers` (a number for each node) and `walltime_s`")
        return self

    @property
    def per_node(self) -> int:
        return len(os.sched_getaffinity(0)) if self.workers == "cores" else self.workers

    @property
    def count(self) -> int:
        return self.per_node * max(1, self.nodes) * self.blocks


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


class Site(_Strict):
    """A machine.

    Args:
        name: what `--site` says.
        simulation: slots for walkers.
        training: workers that train and score; two let scoring go on beside a training.
        slurm: the scheduler that is asked for nodes.
        interface: network interface of the driver's machine that the nodes reach, e.g. "hsn0"; empty: the address of
            its host name.
        worker_init: shell lines run before the workers start.
        lease_s: a start is offered again when its walker gave no sign of life for so long.
        margin_s: before a block ends, this much is kept for writing what there is.
    """

    name: str
    simulation: Executor = Executor()
    training: Executor = Executor(workers=2)
    slurm: Slurm | None = None
    interface: str = ""
    worker_init: str = ""
    lease_s: float = Field(default=15.0, ge=1)
    margin_s: float = Field(default=30.0, ge=0)

    @model_validator(mode="after")
    def _nodes_have_a_scheduler(self) -> Self:
        if self.asks_for_nodes and self.slurm is None:
            raise ValueError(
                "nodes are asked for, but no scheduler is named: add `slurm: {partition: ..., account: ...}`"
            )
        return self

    @property
    def asks_for_nodes(self) -> bool:
        return bool(self.simulation.nodes or self.training.nodes)


def sites() -> dict[str, Path]:
    """The site files that come with Steersman, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def read_site(path: Path) -> dict[str, Any]:
    """A site file as plain values; `Site.model_validate` checks them."""
    loaded = yaml.safe_load(path.read_text()) or {}
    return {"name": path.stem, **loaded}
