"""A site -> what its nodes are like, from a small job on them: what is wrong, and the cure."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from steersman.bus import Servers, TupleSpace
from steersman.checks import probe as probing
from steersman.checks.probe import Probe, probe
from steersman.engine import orphans
from steersman.engine.jobs import Jobs
from steersman.executors.allocation import settled
from steersman.executors.launcher import words
from steersman.executors.network import driver_address
from steersman.executors.parsl_config import parsl_config
from steersman.executors.preflight import Finding, ready
from steersman.executors.site import Site
from steersman.executors.workers import Trainers, Workers
from steersman.journal.run_directory import check_path

JOB_S = 900.0  # time limit of the small job, where the site's own is longer
BEGINS_S = 60.0
SKEW_S = 1.0  # leases and time limits bear so much
SLOWEST_BUS = SLOWEST_STORE = 5.0  # MB/s: a walker that writes 1 MB frames would wait for them


@dataclass(frozen=True)
class Diagnosis:
    """What was found on the nodes, one Probe for each worker, and what follows from it."""

    probes: list[Probe]
    findings: list[Finding]

    @property
    def well(self) -> bool:
        return all(finding.ok for finding in self.findings)


def examine(site: Site, home: Path, within_s: float) -> Diagnosis:
    """Run a small job on a site: one block for each executor.

    Args:
        home: a folder that the nodes share; what is written there goes again.
        within_s: so long the job may wait in the queue and run.
    Raises: BadSite: the site cannot be used from here, or its scheduler refuses. BadDirectory: nor can `home`.
    """
    check_path(home)
    small = _small(settled(site))
    ready(small)
    folder = TemporaryDirectory(prefix="steersman-doctor-", dir=home, ignore_cleanup_errors=True)
    with folder as name, orphans.guarded(at := Path(name).absolute()):
        (at / "store").mkdir()
        servers = Servers.start(at / "bus", small.servers, bind=driver_address(small), ports=small.ports)
        with servers, TupleSpace.connect(at / "bus") as space:
            jobs = Jobs(parsl_config(small, at / "parsl"), space, at / "bus", begins_s=BEGINS_S)
            try:
                return _examine(small, at, jobs, within_s)
            finally:
                jobs.close()


class OnEachNode(Trainers):
    """Training workers on every node of a block: those without workers run ranks of a training."""

    @property
    def on_first_node(self) -> bool:
        return False

    @property
    def per_block(self) -> int:
        return self.per_node * max(1, self.nodes)


def _small(site: Site) -> Site:
    """One block of each executor, for a short time, with workers on every node."""

    def small(one: Workers) -> Workers:
        limit = None if one.walltime_s is None else min(JOB_S, one.walltime_s)
        short = one.model_copy(update={"blocks": 1, "walltime_s": limit})
        return OnEachNode.model_construct(**dict(short)) if isinstance(one, Trainers) else short

    return site.model_copy(update={role: small(getattr(site, role)) for role in site.workers})


def _examine(site: Site, at: Path, jobs: Jobs, within_s: float) -> Diagnosis:
    began = time.monotonic()
    asked = [
        jobs.submit(role, probe, str(at), role, number, wanted.count, site)
        for role, wanted in site.workers.items()  # an endpoint does not reach the bus, and threads are the driver
        for number in range(wanted.count)
    ]
    across = jobs.submit("simulation", probing.mpi, words(site, "simulation")) if site.simulation.nodes > 1 else None
    waiting = [*asked, across] if across else asked
    while not all(job.done() for job in waiting) and not jobs.hopeless and time.monotonic() - began < within_s:
        time.sleep(0.1)
    took_s = time.monotonic() - began
    probes = [Probe(**job.result()) for job in asked if _answered(job)]
    came = _came(asked, probes, took_s, jobs.hopeless)
    if not probes:
        return Diagnosis([], [came])
    return Diagnosis(probes, [came, *findings(probes, probing.versions()), *_mpi(site, across)])


def findings(probes: list[Probe], here: dict[str, str]) -> list[Finding]:
    """What follows from what the workers found; `here` are the driver's versions."""
    return [_versions(probes, here), *_gpus(probes), _clocks(probes), _bus(probes), _store(probes)]


def _came(asked: list[Future[Any]], probes: list[Probe], took_s: float, cause: str) -> Finding:
    nodes = len({worker.node for worker in probes})
    words = f"{len(probes)} of {len(asked)} on {nodes} node{'s' if nodes != 1 else ''} answered within {took_s:.0f} s"
    if len(probes) == len(asked):
        return Finding("workers", True, words)
    errors = (str(job.exception()) for job in asked if job.done() and job.exception())
    why = cause or next(errors, "the others wait in the queue or cannot reach the driver: try a longer --within")
    return Finding("workers", False, f"{words}: {why}")


def _versions(probes: list[Probe], here: dict[str, str]) -> Finding:
    for worker in probes:
        for name in here.keys() | worker.versions.keys():
            there, ours = worker.versions.get(name, "none"), here.get(name, "none")
            if there != ours:
                cure = "let worker_init activate the environment that the driver runs in"
                return Finding("versions", False, f"{name} is {there} on {worker.node} and {ours} here; {cure}")
    return Finding("versions", True, ", ".join(f"{name} {version}" for name, version in here.items()))


def _gpus(probes: list[Probe]) -> list[Finding]:
    with_gpus = [worker for worker in probes if worker.gpus is not None]
    if not with_gpus:
        return []
    for worker in with_gpus:
        assert worker.gpus is not None
        name, seen = worker.gpus
        if seen != 1:
            cure = "ask the scheduler for GPUs in its options, load the driver, or install a torch made for this GPU"
            return [
                Finding("GPUs", False, f"torch sees {seen} GPUs in a worker on {worker.node} that has {name!r}; {cure}")
            ]
    most = max(
        Counter((found.node, found.gpus) for found in with_gpus if found.role == "simulation").values(), default=1
    )
    whose = f"a GPU, which up to {most} walkers share" if most > 1 else "a GPU of its own"
    said = [Finding("GPUs", True, f"each of {len(with_gpus)} workers sees {whose}")]
    lacks = next((found.node for found in with_gpus if found.mps is False), "")
    if lacks:
        cure = "is nvidia-cuda-mps-control on PATH there? See the block's standard error"
        return [*said, Finding("MPS", False, f"its daemon does not run on {lacks}; {cure}")]
    return said


def _clocks(probes: list[Probe]) -> Finding:
    worst = max(probes, key=lambda worker: abs(worker.behind_s))
    words = f"at most {abs(worst.behind_s) * 1e3:.1f} ms from the driver's ({worst.node})"
    cure = "" if abs(worst.behind_s) < SKEW_S else "; leases and time limits go by clocks: have them set (NTP)"
    return Finding("clocks", not cure, words + cure)


def _bus(probes: list[Probe]) -> Finding:
    slowest = min(probes, key=lambda worker: worker.bus)
    words = f"{slowest.bus:.0f} MB/s and more for each worker, all at once"
    cure = "" if slowest.bus >= SLOWEST_BUS else f"; slow from {slowest.node}: does `interface:` name the fast network?"
    return Finding("bus", not cure, words + cure)


def _store(probes: list[Probe]) -> Finding:
    slowest = min(probes, key=lambda worker: worker.store_write)
    reading = min(worker.store_read for worker in probes)
    words = f"{slowest.store_write:.0f} MB/s written, {reading:.0f} MB/s read for each worker, all at once"
    cure = "" if slowest.store_write >= SLOWEST_STORE else f"; slow from {slowest.node}: use a faster file system"
    return Finding("store", not cure, words + cure)


def _mpi(site: Site, across: Future[Any] | None) -> Iterable[Finding]:
    if across is None:
        return
    said = across.result() if _answered(across) else "not tried: not all workers answered"
    ranks = [line.split()[1:] for line in said.splitlines() if "RANKS" in line]
    nodes = max((len(set(names)) for names in ranks), default=0)
    if nodes == site.simulation.nodes:
        yield Finding(
            "MPI", True, f"{nodes} ranks on {nodes} nodes reach each other, started by: {words(site, 'simulation')}"
        )
    elif ranks:
        cure = "`launcher:` must start what the MPI of mpi4py knows, e.g. srun --mpi=pmi2 ..., and mpi4py be the site's"
        yield Finding("MPI", False, f"{len(ranks)} processes, but not connected to each other; {cure}")
    else:
        yield Finding("MPI", False, f"only needed for walkers or training over several nodes: {said.strip()[-300:]}")


def _answered(job: Future[Any]) -> bool:
    return job.done() and job.exception() is None
