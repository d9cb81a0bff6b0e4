"""A site -> what is right and wrong with it, looked at from the driver's machine; nothing is submitted."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from steersman.executors.errors import BadSite, Refused
from steersman.executors.executor import Blockless
from steersman.executors.launcher import BINARIES
from steersman.executors.network import driver_address, try_tunnel
from steersman.executors.parsl_config import submit_scripts
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.site import Site
from steersman.executors.workers import Walkers, Workers
from steersman.system.node import cores, quotas

TRIAL_S = 60.0  # modules and environments are loaded within so long
WORKERS_OF_A_CORE = 64  # more processes on one machine exhaust its memory
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
    for finding in (_needs(site), *_here(site), _network(site), *_looked(site), *_asked(site, submit_scripts(site))):
        if not finding.ok:
            raise BadSite(site.name, finding.found)


def findings(site: Site, hours: float | None = None) -> list[Finding]:
    """Everything about a site that can be known without an allocation; at the end the scripts of its blocks.

    Args:
        site: settled.
        hours: how long a run may take at most, None when nothing says so.
    """
    scripts = submit_scripts(site)
    found = [Finding(_done_there(site, role), True, _where(site, role, one)) for role, one in site.executors.items()]
    found += [Finding("driver, bus", True, "this machine"), Finding("frames", True, _frames(site))]
    if site.scheduler is None or not site.asks_for_nodes:
        return [*found, *_here(site), *_gpus(site), _network(site), *_looked(site), _environment(site)]
    found += [
        *_here(site),
        _network(site),
        *_looked(site),
        _needs(site),
        _commands(site, site.scheduler),
        _environment(site),
        *_limits(site),
        _cost(site, hours),
    ]
    shown = [Finding(f"script of {role}", True, script) for role, script in scripts.items()]
    asked = [] if _missing(site.scheduler) else _asked(site, scripts)
    return [*found, *asked, *shown]


def _done_there(site: Site, role: str) -> str:
    """What an executor does: the training workers may score as well, or score only."""
    return ", ".join(stage for stage in site.stages if site.executor_of(stage) == role)


def _where(site: Site, role: str, one: Workers | Blockless) -> str:
    """In words where an executor does its work."""
    if isinstance(one, Blockless):
        return one.where()
    if mpi := one.mpi_walkers:
        ranks = f"{mpi.ranks} ranks on each of {mpi.nodes} nodes, by {mpi.launcher}"
        return f"{one.count} slots in {one.blocks} blocks of {one.nodes} nodes, each with {ranks}"
    if site.parsl:
        return f"{one.count} slots, as {site.parsl} says"
    workers = _plural(one.per_node, "worker") + _shared_gpus(one)
    if not one.nodes:
        many = f", which has {_plural(cores(), 'core')}" if one.per_node > cores() else ""
        return f"{workers} on this machine{many}"
    blocks = "this job's" if site.inside else f"{one.blocks} x" if one.blocks > 1 else "a block of"
    each = "on the first, ranks of a training on all" if one.on_first_node and one.nodes > 1 else "on each"
    shared = "; in an allocation that executors share" if site.together and site.shares else ""
    has = f" (a node has {site.node.cores} cores, {site.node.gpus} GPUs)" if site.node else ""
    limit = f" for {one.hours:.3g} h" if one.walltime_s else " without a known end" if site.inside else ""
    if site.is_beside(role):
        return f"{one.count} slots beside the walkers: {workers} on the first of their nodes{shared}"
    return f"{one.count} slots: {blocks} {_plural(one.nodes, 'node')}{limit}, {workers} {each}{has}{shared}"


def _shared_gpus(one: Workers) -> str:
    """How many GPUs a node's workers have, and how many of them share one."""
    if not one.gpu_names:
        return ""
    most = max(Counter(one.gpu_of_each).values())
    how = ", by MPS" if isinstance(one, Walkers) and one.mps else ""
    share = f" ({most} workers on each{how})" if most > 1 else ""
    return f", {_plural(len(one.gpu_names), 'GPU')}{share}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count > 1)}"


def _frames(site: Site) -> str:
    if not site.simulation.scratch:
        return "written to the run directory"
    return f"written to {site.simulation.scratch} on each node, and moved from there to the run directory"


def _gpus(site: Site) -> Iterator[Finding]:
    """Of this machine; what the nodes of a job have, `doctor` shows."""
    asked = {name for one in site.workers.values() for name in one.gpu_names if not one.nodes}
    if asked and not site.inside:
        there = max(len(list(Path("/dev").glob(pattern))) for pattern in GPU_DEVICES)
        numbers = (re.match(r"[0-9]+(?![^.:])", name) for name in asked)  # 1, and 1.0 of tiles; no UUID
        lacking = [f"no GPU {index[0]}" for index in numbers if index and int(index[0]) >= there]
        cure = "write `gpus: 0` in a copy of the site file, or use --site laptop"
        none = f"{len(asked)} requested, but /dev shows none: {cure}" if not there else ""
        yield Finding("GPUs", there > 0 and not lacking, none or ", ".join([f"{there} in /dev", *sorted(lacking)]))


def _here(site: Site) -> Iterator[Finding]:
    """What workers on this machine need of it; what the nodes of a job have, `doctor` shows."""
    yield from _crowd(site)
    for role, one in site.workers.items():
        here = not (one.nodes or site.inside or site.parsl)
        if wrong := _binding(one, os.sched_getaffinity(0) if here else None):
            yield Finding("affinity", False, f"{role}.affinity = {one.affinity}: {wrong}")
        if wrong := _scratch(site, role) if here else "":
            yield Finding("scratch", False, wrong)


def _binding(one: Workers, there: set[int] | None) -> str:
    """Why workers cannot be bound as they say, or ""; `there` are the cores of their machine, None: not known."""
    if one.mpi_walkers:
        return ""
    if one.listed and len(one.listed) != one.per_node:
        return (
            f"cores for {_plural(len(one.listed), 'worker')}, and there are {one.per_node}; write `:` between workers"
        )
    if not all(one.listed):
        return "a range of cores ends before it begins"
    if there is None or one.binding == "none":
        return ""
    if lacking := set().union(*one.listed) - there:
        return f"this machine has no core {_ranges(lacking)}; it has {_ranges(there)}"
    too_many = one.per_node > len(there)
    return f"{one.per_node} workers, but this machine has {_plural(len(there), 'core')}" if too_many else ""


def _ranges(numbers: set[int]) -> str:
    """`0-3,8`: as `list:` takes them."""
    first = sorted(n for n in numbers if n - 1 not in numbers)
    last = sorted(n for n in numbers if n + 1 not in numbers)
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in zip(first, last, strict=True))


def _scratch(site: Site, role: str) -> str:
    """Why there can be no folder on this machine's disk, or ""."""
    try:
        folder = site.scratch_here(role)
    except BadSite as wrong:
        return "" if site.worker_init else wrong.problem  # which may set the variable
    there = folder and next(each for each in (folder, *folder.parents) if each.exists())
    if not there or (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        return ""
    return f"{role}.scratch = {folder}: {there} is no folder that you may write to"


def _crowd(site: Site) -> Iterator[Finding]:
    """Of worker processes that would start on this machine."""
    here = 0 if site.parsl else sum(one.count for one in site.workers.values() if not one.nodes)
    has = cores()
    if here and (share := min(quotas(), default=math.inf)) < (bound := len(os.sched_getaffinity(0))):
        limit = f"{share:.3g} of this machine's {_plural(bound, 'core')}"
        yield Finding("cores", True, f"{has}: the container, or the job, has a quota of processor time, {limit}")
    if here > (most := WORKERS_OF_A_CORE * has):
        cure = f"choose at most {most:,}, best one for each core, or a site whose scheduler gives nodes"
        yield Finding("workers", False, f"{here:,} workers, but this machine has {_plural(has, 'core')}: {cure}")


def _needs(site: Site) -> Finding:
    named = site.scheduler
    if named is None:
        return Finding("account, queue", True, "none: the site has no scheduler")
    given = {"account": named.account, "queue": named.queue_asked}
    if lacking := [f"--{name}" for name in site.needs if not given[name]]:
        cure = f"{site.name} needs {' and '.join(lacking)}, or a copy of its file that sets them"
        return Finding("account, queue", False, cure)
    default = {name: value or f"the default {name}" for name, value in given.items()}
    return Finding("account, queue", True, ", ".join(default.values()))


def _limits(site: Site) -> Iterator[Finding]:
    """What a job asks for, beside what its queue takes by the site file; the limits of today may be others."""
    with_nodes = site.with_nodes
    alike = [with_nodes] if site.shares else [{role: one} for role, one in with_nodes.items()]
    jobs = Counter[str]()
    for together in alike:
        role, one = next(iter(together.items()))
        named = site.scheduler_of(role)
        queue = named.queue_asked if named else ""
        if (limits := site.queues.get(queue)) is None:
            continue
        jobs[queue] += one.blocks * math.ceil(one.at_once)
        nodes = sum(each.nodes for each in together.values())
        longest = limits.longest_s(nodes)
        fewest, most = limits.nodes or (1, math.inf)
        wrong = [f"{nodes} nodes, but its limits are {fewest} to {most}"] * (not fewest <= nodes <= most)
        wrong += [f"{one.hours:.3g} h, but its limit is {longest / 3600:.3g} h"] * ((one.walltime_s or 0.0) > longest)
        too_many = limits.jobs is not None and jobs[queue] > limits.jobs
        wrong += [f"{jobs[queue]} jobs, but its limit is {limits.jobs} for a user"] * too_many
        found = f"{queue}: " + ("; ".join(wrong) or f"{nodes} nodes for {one.hours:.3g} h are within its limits")
        yield Finding(f"queue of {' and '.join(together)}", not wrong, found)


def _network(site: Site) -> Finding:
    try:
        found = f"{driver_address(site)} is where workers reach the driver"
        if not site.asks_for_nodes:
            return Finding("address", True, found)
        if site.tunnel:
            try_tunnel(site)
            found = f"{site.tunnel}, a tunnel that leads to {found}"
        return Finding("address", True, f"{found}; not tested from a node, `steersman doctor` does that")
    except BadSite as wrong:
        return Finding("address", False, wrong.problem)


def _looked(site: Site) -> Iterator[Finding]:
    for role, one in site.executors.items():
        try:
            if words := isinstance(one, Blockless) and one.look(site.name):
                yield Finding(f"{role} executor", True, words)
        except BadSite as wrong:
            yield Finding(f"{role} executor", False, wrong.problem)


def _missing(scheduler: Scheduler) -> str:
    """The scheduler's commands that are not on PATH."""
    return ", ".join(command for command in scheduler.COMMANDS if shutil.which(command) is None)


def _commands(site: Site, scheduler: Scheduler) -> Finding:
    if gone := _missing(scheduler):
        words = f"{scheduler.TITLE}: {gone} not found; this is not a login node of {site.name}"
        return Finding("scheduler", False, words)
    return Finding("scheduler", True, f"{scheduler.TITLE}: {', '.join(scheduler.COMMANDS)} found")


def _environment(site: Site) -> Finding:
    """Run the lines that come before the workers, here, and see whether the workers' program starts after them."""
    if site.scheduler and _missing(site.scheduler):
        return Finding("worker_init", True, "not tested: this is not a login node")
    lines = [site.worker_init, f"export PATH={BINARIES}:$PATH", f"{sys.executable} -c 'import steersman, parsl'"]
    try:
        done = subprocess.run(
            ["bash", "-lc", "\n".join(lines)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=TRIAL_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Finding("worker_init", False, f"it did not end within {TRIAL_S:.0f} s: {site.worker_init.strip()}")
    said = done.stderr.strip().splitlines()
    if done.returncode or any("not found" in line or "No such file" in line for line in said):
        return Finding("worker_init", False, f"{' '.join(said)[-500:] or f'exit code {done.returncode}'}")
    return Finding("worker_init", True, "its lines work here, and the workers' program starts after them")


def _cost(site: Site, hours: float | None) -> Finding:
    each = site.with_nodes.values()
    nodes = sum(one.nodes * one.blocks for one in each)
    once = sum(one.nodes * one.blocks * one.hours for one in each)
    most = sum(one.nodes * one.blocks * one.at_once for one in each) * (hours or 0.0)
    ends = "until the run stops" if hours is None else f"at most {most:.3g} within the budget of {hours:g} hours"
    return Finding("node hours", True, f"{nodes} nodes; {once:.3g} for each round of blocks, {ends}")


def _asked(site: Site, scripts: dict[str, str]) -> Iterator[Finding]:
    if site.scheduler:
        for role, script in scripts.items():
            yield _said_of(site.scheduler, role, script)


def _said_of(scheduler: Scheduler, role: str, script: str) -> Finding:
    """What the scheduler says of the script of one executor."""
    if gone := _missing(scheduler):
        return Finding(f"{role} nodes", False, f"{gone} not found on PATH; run this on a login node of the cluster")
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{role}.sh"
        file.write_text(script)
        try:
            return Finding(f"{role} nodes", True, scheduler.ask(file))
        except Refused as refused:
            return Finding(f"{role} nodes", False, f"{scheduler.TITLE} refuses the {role} nodes: {refused}")
