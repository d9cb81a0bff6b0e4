"""The environment of a job -> the nodes and the time that it has left, whatever its scheduler."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from steersman.executors.errors import BadSite
from steersman.executors.schedulers.registry import SCHEDULERS, scheduler_here
from steersman.executors.site import Site


@dataclass(frozen=True)
class Allocation:
    """The job that this process runs in.

    Args:
        nodes: how many it has.
        ends: seconds since 1970; None when it cannot be learnt.
    """

    nodes: int
    ends: float | None


def allocation(environment: Mapping[str, str] = os.environ) -> Allocation | None:
    """The job that this process runs in; None outside of any."""
    scheduler = scheduler_here(environment)
    if scheduler is None:
        return None
    nodes, left_s = scheduler.job(environment)
    return Allocation(nodes, None if left_s is None else time.time() + left_s)


def settled(site: Site) -> Site:
    """A site with what the job has where it says `inside`; others as they are.

    Nodes that are not said to train or to score simulate.

    Raises: BadSite: this process runs in no job, or the job has fewer nodes than asked for, or is about to end.
    """
    if not site.inside:
        return site
    job = allocation()
    if job is None:
        variables = ", ".join(each.IN_JOB for each in SCHEDULERS.values())
        words = f"this process does not run in a job: none of {variables} is set; start it in a job"
        raise BadSite(site.name, words)
    beside = {role: one.nodes for role, one in site.workers.items() if role != "simulation"}
    simulation = site.simulation.nodes or job.nodes - sum(beside.values())
    if simulation + sum(beside.values()) > job.nodes or simulation < 1:
        each = {"simulation": site.simulation.nodes or "at least 1"} | beside
        asked = ", ".join(f"{nodes} for {role}" for role, nodes in each.items() if nodes)
        raise BadSite(site.name, f"nodes: {asked}: the job has only {job.nodes} nodes")
    left_s = None if job.ends is None else job.ends - time.time()
    if left_s is not None and left_s <= site.margin_s:
        kept = f"margin_s = {site.margin_s:g} s are reserved for writing"
        raise BadSite(site.name, f"this job ends in {left_s:.0f} s, and {kept}; start in a longer job")
    changes = {
        role: site.workers[role].model_copy(update={"nodes": nodes, "blocks": 1, "walltime_s": left_s})
        for role, nodes in ({"simulation": simulation} | beside).items()
    }
    return site.model_copy(update=changes)
