"""Plan -> what was checked before a job starts, and what was found."""

from __future__ import annotations

import math
import shutil
import tempfile
from pathlib import Path

import psutil

from steersman.bus import ServerFailed
from steersman.bus.server import binary
from steersman.checks.sizes import in_bytes
from steersman.engine import files
from steersman.engine.campaign import Plan
from steersman.executors.allocation import settled
from steersman.executors.errors import BadSite
from steersman.executors.preflight import Finding as Check
from steersman.executors.preflight import findings
from steersman.journal.errors import BadDirectory
from steersman.journal.run_directory import check_path
from steersman.stages.kinds.train import limit
from steersman.stages.modules import ABSENT, looks_beside
from steersman.steering import SECONDS
from steersman.steering.protocols import StopRule
from steersman.steering.stop import Budget


def check_plan(plan: Plan, root: Path = Path("runs")) -> list[Check]:
    """Check everything that a run would need; workflow, parameters and site were validated before."""
    workflow = plan.workflow
    stages = ", ".join(stage.kind for stage in workflow.stages)
    return [
        Check("workflow", True, f"{plan.source} ({stages})"),
        *([Check("files beside it", True, ABSENT)] if looks_beside(plan.source) else []),
        Check("parameters", True, ", ".join(f"{k}={v}" for k, v in plan.params.model_dump().items()) or "none"),
        Check("stop", True, _stop(workflow.stop_rule(plan.params))),
        Check("simulated time", True, _time(workflow.time_unit)),
        *(Check(*each) for stage in workflow.stages for each in stage.checked(plan)),
        *_site(plan),
        _bus(plan.site.servers),
        _writable(root),
        _space(plan, root),
        *_memory(plan),
        _files(plan),
    ]


def _stop(rule: StopRule) -> str:
    if any(isinstance(each, Budget) for each in rule.either):
        return str(rule)
    return f"{rule}, and no budget: until that is met the run goes on"


def _time(unit: str) -> str:
    if unit in SECONDS:
        return f"in {unit}"
    unknown = "has no unit" if unit == "1" else f"has the unit {unit!r}, which is no known one"
    return f"{unknown}: budgets of simulated time are refused, and exports write its numbers as ps"


def _site(plan: Plan) -> list[Check]:
    try:
        site = settled(plan.site)
    except BadSite as wrong:
        return [Check(f"site {plan.site.name}", False, wrong.problem)]
    hours = _hours(plan.workflow.stop_rule(plan.params), site.gpus)
    return [Check("site", True, site.name), *findings(site, hours)]


def _hours(rule: StopRule, gpus: int) -> float | None:
    """Maximum length of a run according to its budget; None: the budget has no hours."""
    hours = [limit("hours", rule), limit("gpu_hours", rule) / gpus if gpus else math.inf]
    return min(hours) if math.isfinite(min(hours)) else None


def _bus(servers: int) -> Check:
    try:
        return Check("bus server", True, binary() if servers == 1 else f"{servers} of {binary()}")
    except ServerFailed as error:
        return Check("bus server", False, f"{error}; or use a server of your own, --bus redis://...")


def _writable(root: Path) -> Check:
    place = root if root.exists() else root.absolute().parent
    try:
        check_path(root)
        with tempfile.TemporaryFile(dir=place):  # permission bits do not show a read-only file system, nor of root
            return Check("run directory", True, str(root.absolute()))
    except BadDirectory as error:
        return Check("run directory", False, str(error))
    except OSError as error:
        return Check("run directory", False, f"{root.absolute()}: {error.strerror}")


def _files(plan: Plan) -> Check:
    assert plan.workflow.simulation is not None
    simulation = plan.site.simulation
    hours = _hours(plan.workflow.stop_rule(plan.params), plan.site.gpus)
    generations = math.ceil(hours / simulation.hours * simulation.at_once) if hours and simulation.hours else 1
    least = files.expected(simulation.count, len(plan.workflow.simulation.variables), generations)
    each = f", in {generations} generations of blocks" if generations > 1 else ""
    words = f"at least {files.in_words(least, plan.site)}, with {simulation.count * generations} walkers{each}"
    return Check("files", True, words)


def _space(plan: Plan, root: Path) -> Check:
    """What a frame may take at most; how much it takes, only a frame tells."""
    free = shutil.disk_usage(root if root.exists() else root.absolute().parent).free
    frames = limit("frames", plan.workflow.stop_rule(plan.params))
    each = f", so each of {frames:,.0f} frames may take {in_bytes(free / frames)}" if math.isfinite(frames) else ""
    enough = free > 2**30
    words = "; --try says how much a frame takes" if enough else ": less than 1 GiB; make room"
    return Check("disk", enough, f"{in_bytes(free)} free{each}{words}")


def _memory(plan: Plan) -> list[Check]:
    """The same of the window that a training reads; other nodes may have more."""
    if plan.workflow.training is None:
        return []
    frames = min(plan.workflow.training.window, limit("frames", plan.workflow.stop_rule(plan.params)))
    memory = psutil.virtual_memory().total
    words = f"{in_bytes(memory)} here, so each of the {frames:,.0f} frames that a training reads may take"
    return [Check("memory", True, f"{words} {in_bytes(memory / frames)}; --try says how much it reads of each")]
