"""Launcher's environment -> a group of ranks; one machine -> ranks of our own, and the model they train."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch does not list it

from steersman.models import device
from steersman.models.errors import RankLost, RanksFailed, TooManyRanks, ranks_differ
from steersman.models.model import Model
from steersman.models.ranks import node
from steersman.models.ranks.exchange import exchanging
from steersman.system.errors import told
from steersman.system.node import address_towards

TIMEOUT_S = 300.0  # until all ranks have arrived, and for any exchange, waiting for the slowest rank included
PORT = 29500
LAUNCHERS = (  # rank, number of ranks, rank on the node; the innermost launcher first
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),  # torchrun, and launch() below
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),  # mpich's and Intel's mpiexec
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),  # srun
)


@dataclass(frozen=True)
class Membership:
    """Which rank a process is, of how many, and where they meet; `hosts`: whether this one opens the meeting point."""

    rank: int
    size: int
    local_rank: int
    address: str
    port: int
    hosts: bool


def place(environment: Mapping[str, str]) -> Membership:
    """Read what torchrun, mpiexec or srun has set; one rank alone where nothing is.

    MASTER_ADDR and MASTER_PORT say where ranks meet. Without them it is the first node of a Slurm step, else this
    machine; so mpiexec on several nodes needs MASTER_ADDR.
    """
    rank, size, local = 0, 1, 0
    for names in LAUNCHERS:
        if names[0] in environment and names[1] in environment:
            rank, size = int(environment[names[0]]), int(environment[names[1]])
            local = int(environment.get(names[2], rank))
            break
    address = environment.get("MASTER_ADDR") or _first_node(environment.get("SLURM_STEP_NODELIST", ""))
    port = int(environment.get("MASTER_PORT") or PORT + int(environment.get("SLURM_JOB_ID", 0)) % 10_000)
    agent = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"  # then the launcher opened it
    return Membership(rank, size, local, address, port, rank == 0 and not agent)


# Where ranks have met, for strategies that exchange over something else than torch's group: they begin within fit().
_met: ContextVar[tuple[str, TCPStore] | None] = ContextVar("met", default=None)


def address_here() -> str:
    """This machine's address on the network on which the ranks have met; loopback for one process."""
    met = _met.get()
    return address_towards(met[0]) if met else "127.0.0.1"


def first_error() -> str:
    """What the first rank that failed has said, "" while none did."""
    met = _met.get()
    with suppress(RuntimeError):  # who opened the meeting point is gone
        if met and met[1].check([node.FAILED]):
            return met[1].get(node.FAILED).decode() or "a rank has failed"
    return ""


@contextmanager
def joined(where: Membership, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
    """Be one of the ranks: inside, `fit` shares its work with the others, over what `device.backends` chooses.

    Raises:
        RankLost: not all ranks arrived within timeout_s; each waits that long itself. Also with the error of another
            rank as its reason, where that gave one.
        EngineError: they run different versions of torch or steersman.
    """
    limit = timedelta(seconds=timeout_s)
    device.take(where.local_rank)
    try:
        store = TCPStore(
            where.address, where.port, where.size, where.hosts, timeout=limit, wait_for_workers=False
        )  # fmt: skip
        dist.init_process_group(
            _backends(store, where), store=store, rank=where.rank, world_size=where.size, timeout=limit
        )
    except RuntimeError as error:
        reason = f"not all arrived at {where.address}:{where.port} within {timeout_s:g} s"
        raise RankLost(where.rank, where.size, reason) from error
    token = _met.set((where.address, store))
    try:
        with _sharing_errors(store, where):
            with exchanging(where.rank, where.size):
                store.set(f"version/{where.rank}", _versions())
                if store.add("joined", 1) == where.size:
                    store.set("all joined", "")
                if store.get("version/0").decode() != _versions():
                    raise ranks_differ(where.rank, f"version ({_versions()})")
                store.wait(["all joined"])  # else one that has little to do may leave while another still connects
            yield
    finally:
        _met.reset(token)
        dist.destroy_process_group()


@contextmanager
def _sharing_errors(store: TCPStore, where: Membership) -> Iterator[None]:
    """Leave the first rank's error at the meeting point: those who only see that it is gone give it as their reason."""
    try:
        yield
    except RankLost as lost:
        raise RankLost(where.rank, where.size, first_error() or lost.reason) from lost
    except Exception as error:
        with suppress(RuntimeError):  # who opened the meeting point is gone
            store.compare_set(node.FAILED, "", f"rank {where.rank}: {told(error)}")
        raise


@dataclass(frozen=True)
class Nodes:
    """Machines that ranks are placed on, the first of them in turn until all have their share.

    Args:
        count: how many.
        start: shell words that start a program once on each of them; not looked at for one, which is this machine.
        address: of this machine, as they reach it.
        gpus: names of a node's GPUs; the ranks of a node take one each, in turn.
        scratch: a folder on each node's own disk, in which ranks get one until they end, named by STEERSMAN_SCRATCH;
            may hold $TMPDIR and the like.
    """

    count: int = 1
    start: str = ""
    address: str = "127.0.0.1"
    gpus: tuple[str, ...] = ()
    scratch: str = ""


def launch(
    target: str,
    arguments: Mapping[str, Any],
    *,
    ranks: int,
    strategy: str,
    folder: Path,
    timeout_s: float = TIMEOUT_S,
    nodes: Nodes = Nodes(),
) -> Model:
    """Train on several processes, one thread each.

    Args:
        target: "module:name" of a function that returns a Model; every rank calls it.
        arguments: plain JSON values, by name.
        ranks: how many processes.
        strategy: of every fit() in the target that names none.
        folder: for the job, the model and what the ranks have to say; made when missing; all nodes see it.
        timeout_s: until all ranks have arrived, and for any exchange.
        nodes: where they run; this machine by default.
    Returns: rank 0's model, in eval mode, on the CPU.
    Raises: RanksFailed: with each failed rank's error. TooManyRanks: a fit has fewer full batches than ranks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("rank*"):
        old.unlink()
    job = {"target": target, "arguments": dict(arguments), "strategy": strategy, "timeout_s": timeout_s}
    placed = {"ranks": ranks, "nodes": nodes.count, "gpus": nodes.gpus, "scratch": nodes.scratch}
    (folder / "job.json").write_text(json.dumps(job | placed))
    meeting = TCPStore(nodes.address, 0, None, True, wait_for_workers=False)
    if nodes.count == 1:
        node.run(folder, 0, nodes.address, meeting.port)
        ended = ""
    else:
        ended = node.on_each(nodes.start, nodes.count, folder, meeting, nodes.address, timeout_s)
    reasons = [file.read_text(encoding="utf-8") for file in sorted(folder.glob("rank*.error"), key=_number)]
    if reasons or ended:
        raise RanksFailed(ranks, (*reasons, *([ended] if ended else [])))
    for file in folder.glob("rank*.too_many"):
        raise TooManyRanks(*json.loads(file.read_text()))
    return Model.load(folder / "model", trusted=True)


def _number(file: Path) -> int:
    return int(file.stem.removeprefix("rank"))


def _first_node(nodes: str) -> str:
    """`a[03-05,9],b` -> a03: the first of a Slurm node list; this machine where there is none."""
    match = re.match(r"([^,\[]+)(?:\[(\w+))?", nodes)
    return match[1] + (match[2] or "") if match else "127.0.0.1"


def _backends(store: TCPStore, where: Membership) -> str:
    """Rank 0 looks at the devices of all ranks and chooses."""
    store.set(f"device/{where.rank}", device.identity())
    if where.rank == 0:
        identities = [store.get(f"device/{rank}").decode() for rank in range(where.size)]
        store.set("backends", device.backends(identities, os.environ))
    return store.get("backends").decode()


def _versions() -> str:
    return f"steersman {importlib.metadata.version('steersman')}, torch {torch.__version__}"
