"""What a worker finds where it runs: versions, cores, GPUs, clock, and how fast bus and store are from there."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import redis

from steersman.bus import TupleSpace
from steersman.bus.addresses import read
from steersman.executors.site import Site
from steersman.store import FRAME, Frames, GroupWriter, Span
from steersman.system import node
from steersman.worker.tasks import VISIBLE

PACKAGES = ("steersman", "parsl", "numpy", "zarr", "torch", "openmm", "mpi4py")
HERE = "here"  # name of the tuples of workers that have come
MEETING_S = 120.0  # the others come within so long, or the figures are taken without them
BUS_BYTES, BUS_TIMES = 8 * 2**20, 4
MOST_BUS_BYTES = 4 * 2**30  # of all workers of an executor; the driver's machine may have one link of 1 GB/s
STORE_ROWS, ROW_FLOATS = 256, 2**15  # 32 MiB
CLOCK_TIMES = 5
HELLO = "from mpi4py import MPI; w = MPI.COMM_WORLD; print('RANKS', *w.allgather(MPI.Get_processor_name()))"


@dataclass(frozen=True)
class Probe:
    """What one worker found.

    Args:
        gpus: what CUDA_VISIBLE_DEVICES or the like says, and how many GPUs torch sees with it; None: nothing asked.
        behind_s: by how much its clock is behind the driver's, seconds, known to half a round trip.
        bus, store_write, store_read: MB/s, while all the other workers do the same.
        scratch_gb: free in the site's `scratch`, which must be writable, or in /tmp where that is not used.
        mps: whether the MPS daemon of its node listens; None: nothing asked.
    """

    node: str
    role: str
    versions: dict[str, str]
    cores: int
    gpus: tuple[str, int] | None
    behind_s: float
    bus: float
    store_write: float
    store_read: float
    scratch_gb: float
    mps: bool | None = None


def probe(folder: str, role: str, number: int, workers: int, site: Site) -> dict[str, Any]:
    """Look at this worker, once all `workers` have come, so that each is asked once."""
    home = Path(folder)
    with TupleSpace.connect(home / "bus") as space:
        space.put(HERE, role, number)
        deadline = time.monotonic() + MEETING_S
        while space.count(HERE, role, int) < workers and time.monotonic() < deadline:
            time.sleep(0.05)
        write, read_ = _store(home / "store" / f"{role}-{number}")
        result = Probe(
            node=node.name(),
            role=role,
            versions=versions(),
            cores=node.cores(),
            gpus=_gpus() if site.workers[role].gpu_names else None,
            behind_s=_behind_s(home / "bus"),
            bus=_bus(space, f"{role}-{number}", bus_bytes(workers)),
            store_write=write,
            store_read=read_,
            scratch_gb=_free_gb(site.scratch_here(role)),
            mps=_mps() if role == "simulation" and site.simulation.mps else None,
        )
    return asdict(result)


def versions() -> dict[str, str]:
    """Of Python and what matters to a run; packages that are not there are left out."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def mpi(words: str, limit_s: float = 60.0) -> str:
    """Start one MPI process on each node of this block with a launcher's words; returns what they say, or why not."""
    command = f'{words} {sys.executable} -c "{HELLO}"'
    try:
        done = subprocess.run(
            ["/bin/bash", "-c", command], capture_output=True, text=True, errors="replace", timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {limit_s:.0f} s: {command}"
    return done.stdout if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr[-500:]}"


def bus_bytes(workers: int) -> int:
    """Of a message, so that all messages of so many workers, there and back, are bounded."""
    return min(BUS_BYTES, MOST_BUS_BYTES // (2 * BUS_TIMES * workers))


def _bus(space: TupleSpace, name: str, size: int) -> float:
    """There and back, MB/s."""
    payload = np.random.default_rng(0).bytes(size)
    began = time.perf_counter()
    for _ in range(BUS_TIMES):
        space.put(name, payload)
        space.take(name, bytes, timeout_s=MEETING_S)
    return 2 * BUS_TIMES * size / 1e6 / (time.perf_counter() - began)


def _store(group: Path) -> tuple[float, float]:
    """Frames written and read again, MB/s; what is read may come out of the node's memory."""
    block = np.random.default_rng(0).normal(size=(STORE_ROWS, ROW_FLOATS)).astype(np.float32)
    began = time.perf_counter()
    writer = GroupWriter(group)
    writer.extend(FRAME, {"x": block})
    writer.close()
    written = time.perf_counter()
    Frames(group.parent).read("x", Span(group.name, 0, STORE_ROWS))
    done = time.perf_counter()
    return block.nbytes / 1e6 / (written - began), block.nbytes / 1e6 / (done - written)


def _free_gb(scratch: Path | None) -> float:
    folder = scratch or Path("/tmp")
    folder.mkdir(parents=True, exist_ok=True)  # as a walker does
    return shutil.disk_usage(folder).free / 1e9


def _behind_s(bus: Path) -> float:
    """Of the shortest of a few questions to the server, which runs beside the driver."""
    with redis.Redis.from_url(read(bus).url) as server:
        asked: list[tuple[float, float]] = []
        for _ in range(CLOCK_TIMES):
            before = time.time()
            seconds, micros = server.time()
            after = time.time()
            asked.append((after - before, seconds + micros / 1e6 - (before + after) / 2))
    return min(asked)[1]


def _mps() -> bool:
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", ""), "control").exists()


def _gpus() -> tuple[str, int]:
    import torch

    seen = torch.cuda.device_count() or (torch.xpu.device_count() if hasattr(torch, "xpu") else 0)
    return next((os.environ[name] for name in VISIBLE if os.environ.get(name)), ""), seen
