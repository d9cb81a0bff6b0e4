"""What the command line asks for -> a run: everything is checked and written down before any job starts."""

from __future__ import annotations

import inspect
import operator
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from steersman.bus.server import expect_usable
from steersman.engine import ending, mending, people
from steersman.engine.run import Campaign
from steersman.executors import site_files
from steersman.executors.allocation import settled
from steersman.executors.place import Place, changes, site_of
from steersman.executors.preflight import ready
from steersman.executors.site import Site
from steersman.executors.workers import Workers
from steersman.journal import copies, run_directory
from steersman.journal import file as journal
from steersman.journal.errors import BadDirectory, RunIsLocked
from steersman.journal.file import Journal, fits, follow
from steersman.journal.lock import Lock, owner
from steersman.journal.recorder import Recorder
from steersman.journal.run_directory import RunDirectory, check_path, needing_room, sha256
from steersman.journal.state import State
from steersman.models.ranks.strategy import Strategy
from steersman.stages import loading, modules, score_names, trust
from steersman.stages.content import same
from steersman.stages.errors import BadWorkflow
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.steering import Steering, StopRule
from steersman.steering.protocols import AllOf, AnyOf
from steersman.steering.stop import Budget
from steersman.system.errors import BadInput, BadValue

NO_GPU = "this site holds no GPU, so its hours are never spent; name another limit, too"


@dataclass(frozen=True)
class Plan:
    """A checked wish to run: nothing in it can be refused any more for its words."""

    source: Path
    workflow: Workflow
    params: Params
    site: Site
    seed: int
    rounds: bool


def plan(
    workflow: str,
    *,
    params_file: Path | None = None,
    assignments: Iterable[str] | Mapping[str, Any] = (),
    **place: Unpack[Place],
) -> Plan:
    """Check everything that can be wrong before a job starts.

    Raises: BadInput: with the key, the value and the nearest valid name.
    """
    source = loading.find(workflow)
    loaded = loading.load(source)
    params = loading.parameters(loaded, params_file, assignments)
    loading.check_rules(loaded, params)
    steering = loaded.steering_rule(params)
    _check_scores(loaded, steering, source)
    seed = place.get("seed")
    try:
        chosen = secrets.randbelow(2**31) if seed is None else operator.index(seed)  # one of numpy's, say
    except TypeError:
        raise BadValue("seed", repr(seed), "a seed is a whole number") from None
    if chosen < 0:
        raise BadValue("seed", str(seed), "a seed is 0 or above")
    rounds = place.get("rounds", False) or steering.policy.rounds
    where = site_of(place).serving(loaded.roles, one_worker=rounds)
    _check_ranks(loaded, where)
    if not _ends(rule := loaded.stop_rule(params), where):
        raise BadValue("stop", str(rule), NO_GPU)
    again = loading.checked(loaded, params.model_dump(mode="json"))  # as the run is going to read them
    if other := [name for name in type(params).model_fields if not same(getattr(params, name), getattr(again, name))]:
        value, read = (f"{getattr(each, other[0])!r:.60}" for each in (params, again))
        raise BadValue(f"parameter {other[0]}", value, f"the run would read {read} of what is written of it; give a "
                       "type, and a validator, that leave what was written as it is")  # fmt: skip
    return Plan(source, loaded, params, where, chosen, rounds)


def _ends(rule: StopRule, site: Site) -> bool:
    """Whether it can end a run: hours of GPUs are never spent where there are none."""
    match rule:
        case AllOf():
            return all(_ends(each, site) for each in rule.rules)
        case AnyOf():
            return any(_ends(each, site) for each in rule.rules)
    return not (isinstance(rule, Budget) and set(rule.limits) == {"gpu_hours"} and not site.gpus)


def _check_scores(workflow: Workflow, steering: Steering, source: Path) -> None:
    """Raises: BadWorkflow: steering needs a score that the score stage is seen not to return."""
    function = workflow.scoring and workflow.scoring.function
    names = score_names.written(function) if function else None
    if function and names is not None and (problem := score_names.lacking(workflow, steering, names)):
        raise BadWorkflow(str(source), inspect.getsourcelines(function)[1], problem)


def begin(
    plan: Plan,
    *,
    root: Path = Path("runs"),
    run_dir: Path | None = None,
    bus_url: str | None = None,
) -> Campaign:
    """Make a run and its directory; `execute()` starts it.

    Raises: BadSite: the site cannot be used from here now, or its scheduler refuses. BadDirectory. ServerRefused.
    """
    ready(settled(plan.site))
    if bus_url is not None:
        expect_usable(bus_url)
    settings = {
        "workflow": plan.workflow.name,
        "source": str(plan.source),
        "seed": plan.seed,
        "rounds": plan.rounds,
        "site": plan.site.model_dump(mode="json"),
        "params": plan.params.model_dump(mode="json"),
    }
    with run_directory.creating(root, plan.workflow.name, run_dir) as directory:
        run_directory.write_settings(directory, settings, plan.source)
        modules.keep(plan.source, directory.path)
        loading.adopt(directory.workflow, plan.workflow)
        return resume(directory, bus_url=bus_url)


def resume(
    directory: RunDirectory,
    *,
    bus_url: str | None = None,
    assignments: Sequence[str] = (),
    source: Path | None = None,
    **place: Unpack[Place],
) -> Campaign:
    """The run of a directory, as its journal leaves it; of a new directory, from its beginning.

    Args:
        assignments: `key=value`, parameters to go on with; so a run that is finished goes on with a new budget.
        source: a workflow file to go on with, whose loop is that of the run; see `engine.mending`.
        place: another site, or what is to be different at its own; its seed and its order stay.
    Raises: BadInput: a parameter cannot be set so, or the run would end at once, or cannot use the site. RunIsLocked:
            another process drives it. JournalTooNew. EngineError: the journal cannot be written. BadDirectory.
    """
    copies.refuse(directory.path)
    _expect_nobody(directory.path)
    check_path(directory.path)
    directory = RunDirectory(directory.path.absolute())  # workers may be in another folder
    settings = directory.settings()
    if directory.ready.exists():
        with Lock(directory.path).held():
            mending.settle(directory, _recorded(directory))
    if not directory.workflow.is_file():
        problem = f"its {directory.workflow.name} is missing; put the file that it ran back there, under this name"
        raise BadDirectory(str(directory.path), problem)
    mended = mending.asked(directory, source) if source else None
    if not trust.trusted(directory.workflow):
        _expect_unchanged(directory, _recorded(directory))  # code that is refused is not executed
    trust.trust(directory.workflow)
    workflow = mended.workflow if mended else loading.load(directory.workflow)
    params = loading.checked(workflow, settings["params"])
    state = State()
    with needing_room(directory.path):
        _expect_nobody(directory.path)  # to load takes seconds; of a driver that began meanwhile no line is to be cut
        recorder = Recorder(Journal(directory.journal, replay=state.apply), state)
        directory.unborn.unlink(missing_ok=True)
        directory.errors.mkdir(exist_ok=True)
    _expect_unchanged(directory, state)
    told = people.set_to_go_on(assignments, state, lambda changed: _goes_on(workflow, params, changed, state))
    chosen, moves = _site(directory, workflow, place)
    moved = chosen.model_dump(mode="json") if moves else None
    if moved and settings["rounds"] and settled(chosen).simulation.count != state.run.slots:
        problem = f"a run with --rounds must keep its {state.run.slots} slots, otherwise its decisions would not repeat"
        raise BadValue("simulation.workers", str(settled(chosen).simulation.count), problem)
    if moved and not _ends(rule := workflow.stop_rule(params), settled(chosen)):
        raise BadValue("stop", str(rule), NO_GPU)
    return Campaign(
        directory=directory, workflow=workflow, params=params, site=settled(chosen), recorder=recorder,
        seed=settings["seed"], rounds=settings["rounds"], bus_url=bus_url, told=told, moved=moved, mended=mended,
    )  # fmt: skip


def _recorded(directory: RunDirectory) -> State:
    state, place = State(), journal.Cursor()
    if directory.journal.exists():
        for record in follow(directory.journal, place):
            fits(place, state.apply, record)
    return state


def _expect_unchanged(directory: RunDirectory, state: State) -> None:
    """Raises: BadDirectory: its loop is not what it was when the run began."""
    for name, recorded in state.run.files.items():
        file = directory.path / name
        if file == directory.environment_file:
            continue
        if not file.is_file():
            raise BadDirectory(str(directory.path), f"its {name} is missing; put it back from a copy of the run")
        if recorded and sha256(file) != recorded:
            problem = f"its {name} was changed since the run began; put back the one that it had, or take this one"
            raise BadDirectory(str(directory.path), f"{problem} by `steersman verify {directory.path} --repair`")


def _expect_nobody(path: Path) -> None:
    """Raises: RunIsLocked: a process drives this run."""
    holder = owner(path)
    if holder and not holder.why_gone:
        raise RunIsLocked(str(path), str(holder))


def _site(directory: RunDirectory, workflow: Workflow, place: Place) -> tuple[Site, bool]:
    """The site to go on with, and whether the run moves there, or is changed.

    Raises: BadSite: it is none, or one that was asked for cannot be used from here.
    """
    file = directory.site_file if directory.site_file.exists() else directory.settings_file
    other = changes(place)
    chosen = site_of(place) if place.get("site") else site_files.changed(str(file), directory.site(), other)
    chosen, moves = (
        chosen.serving(workflow.roles, one_worker=directory.settings()["rounds"]),
        bool(place.get("site") or other),
    )
    if moves:
        _check_ranks(workflow, chosen)
        ready(settled(chosen))
    return chosen, moves


def _goes_on(workflow: Workflow, params: Params, settings: Mapping[str, Any], state: State) -> Params:
    """The parameters with these settings. Raises: BadInput: the run cannot go on with them."""
    changed = loading.changed(workflow, params, settings)
    before = workflow.steering_rule(loading.changed(workflow, params, state.wishes.settings))
    loading.check_rules(workflow, changed, before)
    if state.finished and (end := ending.met(state, workflow.stop_rule(changed), state.now)):
        raise BadInput(
            f"with these parameters the run would end at once: {end.reason}. Give others, or another value where the "
            "rule takes it from a parameter; else start a new run"
        )
    return changed


def _check_ranks(workflow: Workflow, site: Site) -> None:
    """Ranks must be placeable on the nodes that the site gives them."""
    stage, nodes = workflow.training, site.training.nodes if isinstance(site.training, Workers) else 0
    if stage is None or nodes < 2:
        return
    if stage.ranks < nodes:
        words = f"each node needs a rank, but the workflow has @wf.train(ranks={stage.ranks}); change either"
        raise BadValue("training.nodes", str(nodes), words)
    if Strategy.parse(stage.strategy).name == "hogwild":
        raise BadValue("training.nodes", str(nodes), "ranks of hogwild share memory: use 1 node, or another strategy")
