"""Plan -> what was looked at before a job starts, and what was found."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from steersman.bus import ServerFailed
from steersman.bus.server import binary
from steersman.engine.campaign import Plan
from steersman.executors.site import Site


@dataclass(frozen=True)
class Check:
    what: str
    ok: bool
    found: str


def check_plan(plan: Plan, root: Path = Path("runs")) -> list[Check]:
    """Look at everything that a run would need; workflow, parameters and site were checked when the plan was made."""
    workflow = plan.workflow
    stages = [name for name in ("prepare_function", "simulation", "training", "scoring") if getattr(workflow, name)]
    rule = plan.workflow.train_rule(plan.params)
    return [
        Check("workflow", True, f"{plan.source} ({', '.join(name.split('_')[0] for name in stages)})"),
        Check("parameters", True, ", ".join(f"{k}={v}" for k, v in plan.params.model_dump().items()) or "none"),
        Check("stop", True, str(workflow.stop_rule(plan.params))),
        Check("training", True, f"first at {rule.first} frames, then every {rule.frames}" if rule else "none"),
        Check("steering", True, _steering(plan)),
        Check("site", True, _site(plan.site)),
        _bus(),
        _writable(root),
        _space(root),
    ]


def _site(site: Site) -> str:
    parts = [
        f"{executor.count} {who} " + (f"on {executor.blocks} x {executor.nodes} nodes" if executor.nodes else "here")
        for who, executor in (("walkers", site.simulation), ("workers that train and score", site.training))
    ]
    return f"{site.name}: {', '.join(parts)}" + (" (Slurm would take them)" if site.asks_for_nodes else "")


def _steering(plan: Plan) -> str:
    steering = plan.workflow.steering
    guided = " (guided by a known reference)" if steering.guided else ""
    return f"{steering.policy.name}, {100 * steering.explore:.0f} % random, until then {steering.fallback.name}{guided}"


def _bus() -> Check:
    try:
        return Check("bus server", True, binary())
    except ServerFailed as error:
        return Check("bus server", False, f"{error}; or give --bus redis://...")


def _writable(root: Path) -> Check:
    place = root if root.exists() else root.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=place):  # permission bits do not tell of a read-only file system, nor of root
            return Check("run directory", True, str(root.absolute()))
    except OSError as error:
        return Check("run directory", False, f"{root.absolute()}: {error.strerror}")


def _space(root: Path) -> Check:
    free = shutil.disk_usage(root if root.exists() else root.absolute().parent).free
    return Check("disk", free > 2**30, f"{free / 2**30:.1f} GiB free" + ("" if free > 2**30 else ": less than 1 GiB"))
