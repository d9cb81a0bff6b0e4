"""A site -> what is right and wrong with it, looked at from the driver's machine; nothing is submitted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from steersman.executors import globus, schedulers
from steersman.executors.errors import BadSite
from steersman.executors.executor import Executor, Learning, Scoring
from steersman.executors.launcher import BINARIES
from steersman.executors.network import driver_address
from steersman.executors.parsl_config import submit_scripts
from steersman.executors.site import Site

TRIAL_S = 60.0  # modules and environments are loaded within so long
GPU_DEVICES = ("nvidia[0-9]*", "dri/render*")  # in /dev: NVIDIA's, and AMD's and Intel's


class Finding(NamedTuple):
    """What was looked at, whether a run can work with it, and what was found."""

    what: str
    ok: bool
    found: str


def ready(site: Site) -> None:
    """Look at what would keep a run from starting: network, account, and what the scheduler says.

    Raises: BadSite: the first thing that is wrong, with the scheduler's words.
    """
    for finding in (_needs(site), _network(site), *_endpoint(site), *_asked(site, submit_scripts(site))):
        if not finding.ok:
            raise BadSite(site.name, finding.found)


def findings(site: Site, hours: float | None = None) -> list[Finding]:
    """Everything about a site that can be told without an allocation; at the end the scripts of its blocks.

    Args:
        site: settled.
        hours: how long a run may take at most, None when nothing says so.
    """
    scripts = submit_scripts(site)
    found = [Finding(_done_there(site, role), True, _where(site, wanted)) for role, wanted in site.executors.items()]
    found += [Finding("driver, bus", True, "this machine"), Finding("frames", True, _frames(site))]
    if not site.asks_for_nodes or site.inside:
        return [*found, *_gpus(site), _network(site), *_endpoint(site), _environment(site)]
    found += [_network(site), *_endpoint(site), _needs(site), _commands(site), _environment(site), _cost(site, hours)]
    shown = [Finding(f"{site.scheduler} script of {role}", True, script) for role, script in scripts.items()]
    asked = [] if schedulers.missing(site) else _asked(site, scripts)
    return [*found, *asked, *shown]


def _done_there(site: Site, role: str) -> str:
    """What an executor does: the training workers may score as well, or score only."""
    return ", ".join(stage for stage in site.stages if site.executor_of(stage) == role)


def _where(site: Site, wanted: Executor) -> str:
    if wanted.mpi:
        ranks = f"{wanted.mpi.ranks} ranks on each of {wanted.mpi.nodes} nodes, by {wanted.mpi.launcher}"
        return f"{wanted.count} slots in {wanted.blocks} blocks of {wanted.nodes} nodes, each with {ranks}"
    if isinstance(wanted, Learning) and wanted.globus:
        return f"Globus Compute endpoint {wanted.globus}, which finds the run directory under the same path"
    if isinstance(wanted, Scoring) and wanted.threads:
        return "in a thread of the driver: light scores only, for a hang cannot be ended and a crash is the driver's"
    workers = f"{wanted.per_node} worker{'s' * (wanted.per_node > 1)}" + (
        f", {len(wanted.gpu_names)} GPUs" if wanted.gpu_names else ""
    )
    if site.parsl:
        return f"{wanted.count} slots, as {site.parsl} says"
    if not wanted.nodes:
        return f"{workers} on this machine"
    blocks = "this job's" if site.inside else f"{wanted.blocks} x" if wanted.blocks > 1 else "a block of"
    each = "on the first, ranks of a training on all" if wanted.on_first_node and wanted.nodes > 1 else "on each"
    shared = "; of an allocation that executors share" if site.together and site.shares else ""
    has = f" (a node has {site.node.cores} cores, {site.node.gpus} GPUs)" if site.node else ""
    limit = f" for {_hours(wanted):.3g} h" if wanted.walltime_s else ""
    nodes = f"{wanted.nodes} node{'s' * (wanted.nodes > 1)}"
    return f"{wanted.count} slots: {blocks} {nodes}{limit}, {workers} {each}{has}{shared}"


def _frames(site: Site) -> str:
    if not site.simulation.scratch:
        return "written to the run directory"
    return f"written to {site.simulation.scratch} on each node, moved to the run directory as they come"


def _gpus(site: Site) -> Iterator[Finding]:
    """Of this machine; what the nodes of a job have, `doctor` tells."""
    here = [one for one in site.executors.values() if one.has_blocks]
    if (wanted := max(len(one.gpu_names) for one in here)) and not site.inside:
        there = max(len(list(Path("/dev").glob(pattern))) for pattern in GPU_DEVICES)
        cure = "say so in a copy of the site file, `gpus: 0`, or take --site laptop"
        yield Finding(
            "GPUs", there > 0, f"{there} in /dev" if there else f"{wanted} asked for, /dev shows none: {cure}"
        )


def _needs(site: Site) -> Finding:
    if lacking := schedulers.lacking(site):
        return Finding(
            "account, queue",
            False,
            f"{site.name} needs --{lacking.replace(', ', ' and --')}, or a copy of its file that says so",
        )
    named = getattr(site, site.scheduler, None)
    if named is None:
        return Finding("account, queue", True, "none: no scheduler is asked")
    return Finding(
        "account, queue",
        True,
        f"{named.account or 'the default account'}, {schedulers.queue(site) or 'the default queue'}",
    )


def _network(site: Site) -> Finding:
    try:
        return Finding("address", True, f"{driver_address(site)} is where workers reach the driver")
    except BadSite as wrong:
        return Finding("address", False, wrong.problem)


def _endpoint(site: Site) -> Iterator[Finding]:
    for role in site.endpoints:
        try:
            yield Finding("Globus Compute", True, globus.status(site, role))
        except BadSite as wrong:
            yield Finding("Globus Compute", False, wrong.problem)


def _commands(site: Site) -> Finding:
    gone = schedulers.missing(site)
    title = schedulers.TITLES[site.scheduler]
    if gone:
        return Finding(
            "scheduler", False, f"{title}: {', '.join(gone)} not found; this is no login node of {site.name}"
        )
    return Finding("scheduler", True, f"{title}: {', '.join(schedulers.of(site).COMMANDS)} found")


def _environment(site: Site) -> Finding:
    """Run the lines that come before the workers, here, and see whether the workers' program starts after them."""
    if site.scheduler and schedulers.missing(site):
        return Finding("worker_init", True, "not tried: this is no login node")
    lines = [site.worker_init, f"export PATH={BINARIES}:$PATH", f"{sys.executable} -c 'import steersman, parsl'"]
    try:
        done = subprocess.run(
            ["bash", "-lc", "\n".join(lines)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=TRIAL_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Finding("worker_init", False, f"it does not end within {TRIAL_S:.0f} s: {site.worker_init.strip()}")
    said = done.stderr.strip().splitlines()
    if done.returncode or any("not found" in line or "No such file" in line for line in said):
        return Finding("worker_init", False, f"{' '.join(said)[-500:] or f'exit code {done.returncode}'}")
    return Finding("worker_init", True, "its lines work here, and the workers' program starts after them")


def _cost(site: Site, hours: float | None) -> Finding:
    each = site.executors.values()
    nodes = sum(one.nodes * one.blocks for one in each)
    once = sum(one.nodes * one.blocks * _hours(one) for one in each)
    ends = (
        "until the run stops" if hours is None else f"at most {nodes * hours:.3g} within the budget of {hours:g} hours"
    )
    return Finding("node hours", True, f"{nodes} nodes; {once:.3g} for each round of blocks, {ends}")


def _hours(wanted: Executor) -> float:
    return (wanted.walltime_s or 0.0) / 3600


def _asked(site: Site, scripts: dict[str, str]) -> Iterator[Finding]:
    with TemporaryDirectory() as folder:
        for role, script in scripts.items():
            try:
                yield Finding(f"{role} nodes", True, schedulers.ask(site, role, script, Path(folder)))
            except BadSite as refused:
                yield Finding(f"{role} nodes", False, refused.problem)
