"""The environment of a job -> the nodes and the time that it has left, whatever its scheduler."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steersman.executors.batch import ANSWER_S
from steersman.executors.errors import BadSite
from steersman.executors.site import Site

VARIABLES = {"FLUX_URI": "flux", "SLURM_JOB_ID": "slurm", "PBS_JOBID": "pbs", "LSB_JOBID": "lsf"}


@dataclass(frozen=True)
class Allocation:
    """The job that this process runs in.

    Args:
        scheduler: slurm, pbs, lsf or flux.
        nodes: how many it has.
        ends: seconds since 1970; None when it cannot be learnt.
    """

    scheduler: str
    nodes: int
    ends: float | None


def allocation(environment: Mapping[str, str] = os.environ) -> Allocation | None:
    """The job that this process runs in; None outside of any."""
    scheduler = scheduler_here(environment)
    if scheduler == "flux":
        left = _said("flux", "job", "timeleft")
        return Allocation("flux", int(_said("flux", "getattr", "size") or 1), _in(float(left) if left else None))
    if scheduler == "slurm":
        left = _said("squeue", "-h", "-j", environment["SLURM_JOB_ID"], "-o", "%L")
        return Allocation("slurm", int(environment.get("SLURM_JOB_NUM_NODES", "1")), _in(_seconds(left)))
    if scheduler == "pbs":
        return Allocation("pbs", _lines(environment, "PBS_NODEFILE"), _pbs_end(environment["PBS_JOBID"]))
    if scheduler == "lsf":
        left = _said("bjobs", "-noheader", "-o", "time_left", environment["LSB_JOBID"]).split(" ")[0]
        return Allocation("lsf", _lines(environment, "LSB_DJOB_HOSTFILE"), _in(_seconds(f"{left}:00")))
    return None


def scheduler_here(environment: Mapping[str, str] = os.environ) -> str:
    """Whose job this process runs in; "" outside of any. Flux first: it may run within a job of another scheduler."""
    return next((name for variable, name in VARIABLES.items() if variable in environment), "")


def settled(site: Site) -> Site:
    """A site with what the job has where it says `inside`; others as they are.

    Nodes that are not said to train or to score simulate.

    Raises: BadSite: this process runs in no job, or the job has fewer nodes than asked for, or is about to end.
    """
    if not site.inside:
        return site
    found = allocation()
    if found is None:
        raise BadSite(site.name, f"this is no job: {', '.join(VARIABLES)} are not set; start in one")
    beside = {role: one.nodes for role, one in site.executors.items() if role != "simulation"}
    simulation = site.simulation.nodes or found.nodes - sum(beside.values())
    if simulation + sum(beside.values()) > found.nodes or simulation < 1:
        each = {"simulation": site.simulation.nodes or "at least 1"} | beside
        asked = ", ".join(f"{nodes} for {role}" for role, nodes in each.items() if nodes)
        raise BadSite(site.name, f"nodes: {asked} are asked for, and the job has {found.nodes}")
    left_s = None if found.ends is None else found.ends - time.time()
    if left_s is not None and left_s <= site.margin_s:
        kept = f"margin_s = {site.margin_s:g} of them are kept for writing what there is"
        raise BadSite(site.name, f"this job ends in {left_s:.0f} s, and {kept}: start in a longer one")
    changes = {
        role: getattr(site, role).model_copy(update={"nodes": nodes, "blocks": 1, "walltime_s": left_s})
        for role, nodes in ({"simulation": simulation} | beside).items()
    }
    return site.model_copy(update=changes)


def _said(*command: str) -> str:
    """What a command of the scheduler prints; nothing where it cannot answer: then the end is not known."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _in(left_s: float | None) -> float | None:
    """The end, given the seconds until then; Flux says `inf` where there is none."""
    return None if left_s is None or math.isinf(left_s) else time.time() + left_s


def _seconds(clock: str) -> float | None:
    """[days-][[hours:]minutes:]seconds; None for words such as UNLIMITED."""
    days, _, rest = clock.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in [*parts, days or "0"]):
        return None
    seconds = 0.0
    for part in parts:
        seconds = 60 * seconds + int(part)
    return 86400 * int(days or 0) + seconds


def _pbs_end(job: str) -> float | None:
    told = _said("qstat", "-f", "-F", "json", job)
    try:
        known = next(iter(json.loads(told)["Jobs"].values())) if told else {}
    except ValueError:  # variables of a job may spoil the JSON of qstat
        return None
    limit_s = _seconds(str(known.get("Resource_List", {}).get("walltime", "")))
    if limit_s is None or "stime" not in known:
        return None
    return time.mktime(time.strptime(known["stime"], "%a %b %d %H:%M:%S %Y")) + limit_s


def _lines(environment: Mapping[str, str], name: str) -> int:
    """Different hosts in a file that the environment names."""
    file = Path(environment.get(name, "/nonexistent"))
    return len(set(file.read_text().split())) if file.is_file() else 1
