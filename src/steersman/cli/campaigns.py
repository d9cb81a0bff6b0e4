"""Verbs that are given a workflow file, or go on with its run: `steersman run | check | resume`."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.markup import escape

from steersman.cli import display
from steersman.cli.dashboard import IDLE_S, alone, beside
from steersman.cli.options import (
    BusUrl,
    Json,
    OtherSite,
    ParamsFile,
    Place,
    Report,
    RequireGoal,
    RunPath,
    Set,
    WorkflowName,
    placed,
)
from steersman.cli.printing import err, out, print_checks, say
from steersman.cli.summary import summary
from steersman.cli.trying import print_steps, steps
from steersman.data.overview import overview
from steersman.executors.place import OF_RUN
from steersman.journal import run_directory
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.steering import StopRule
from steersman.system.errors import BadInput, BadValue

# What brings Parsl with it is imported by the verbs that run something: it would double the time that the others take.
if TYPE_CHECKING:
    from steersman.engine.run import Campaign

EXIT = {"goal": 0, "finished": 0, "budget": 0, "failed": 5, "interrupted": 130}
NO_GOAL = 3  # instead of 0 with --require-goal, when the budget was spent first


@placed("site", "workers", "nodes", "walltime", "account", "queue", "inside", *OF_RUN)
def run(
    workflow: WorkflowName,
    assignments: Set = [],  # noqa: B006 (Typer wants a list)
    params: ParamsFile = None,
    *,
    place: Place,
    run_dir: Annotated[Path | None, typer.Option("--run-dir", help="instead of runs/<workflow>-<number>")] = None,
    go_on: Annotated[
        bool, typer.Option("--continue", help="continue the run of --run-dir, if it is there and is the same")
    ] = False,
    bus: BusUrl = None,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="serve the run's page while it runs")] = False,
    report: Report = True,
    require_goal: RequireGoal = False,
    as_json: Json = False,
) -> None:
    """Run a workflow file with a live display, and write a report at the end."""
    from steersman.calls.start import begin
    from steersman.engine import campaign

    if go_on and run_dir is None:
        raise BadInput("--continue needs --run-dir: the directory that the run has, or is to have")
    plan = campaign.plan(workflow, params_file=params, assignments=assignments, **place)
    _check_goal(plan.workflow.stop_rule(plan.params), required=require_goal)
    made = begin(plan, run_dir=run_dir, bus_url=bus, go_on=go_on, **place)
    directory = made.directory
    if made.state.finished and not made.mended:
        _say_finished(directory, made, report=report, require_goal=require_goal, as_json=as_json)
    where, facts = escape(str(directory.path)), f"(seed {made.seed}, {made.slots} slots)"
    err.print(f"[bold]{plan.workflow.name}[/] runs in {where}   [dim]{facts}[/]", soft_wrap=True)
    page = beside(directory.path) if dashboard else str
    if dashboard:
        err.plain(page())
    _execute(directory, made)
    _finish(directory, made, report=report, require_goal=require_goal, as_json=as_json, page=page)


@placed("workers", "nodes", "walltime", "account", "queue", "inside", site=(OtherSite, None))
def resume(
    run: RunPath,
    assignments: Set = [],  # noqa: B006
    *,
    place: Place,
    bus: BusUrl = None,
    workflow: Annotated[
        Path | None,
        typer.Option(
            "--workflow",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="a file in which what comes after the loop, or shows it, differs",
        ),
    ] = None,
    report: Report = True,
    require_goal: RequireGoal = False,
    as_json: Json = False,
) -> None:
    """Continue a run that was interrupted; with --set or --workflow, also one that is finished."""
    from steersman.engine import campaign

    directory = run_directory.open_run(run)
    made = campaign.resume(directory, bus_url=bus, assignments=assignments, source=workflow, **place)
    _check_goal(made.rules.stop, required=require_goal)
    if made.state.finished and not (made.told or made.mended):
        _say_finished(directory, made, report=report, require_goal=require_goal, as_json=as_json)
    where = escape(f"{run} at {made.state.frames:,} frames")
    err.print(f"[bold]{made.workflow.name}[/] continues in {where}", highlight=False)
    if made.state.wishes.paused:
        err.plain(display.paused(made.state))
    source = Path(directory.settings().get("source", ""))
    if not made.mended and source.is_file() and source.read_bytes() != directory.workflow.read_bytes():
        err.plain(f"it goes on with its own workflow.py, from which {source} differs; see `resume --help`, --workflow")
    _execute(directory, made)
    _finish(directory, made, report=report, require_goal=require_goal, as_json=as_json)


@placed("site", "workers", "nodes", "walltime", "account", "queue", "inside")
def check(
    workflow: WorkflowName,
    assignments: Set = [],  # noqa: B006
    params: ParamsFile = None,
    *,
    place: Place,
    with_try: Annotated[
        bool, typer.Option("--try", help="afterwards call every stage once, see `steersman try`")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check workflow, parameters, site and disk before any job starts."""
    from steersman.checks.plan import check_plan
    from steersman.engine import campaign

    plan = campaign.plan(workflow, params_file=params, assignments=assignments, **place)
    checks = check_plan(plan)
    if as_json:
        tried = list(steps(plan.workflow, plan.params, plan.source)) if with_try else []
        say(json.dumps({"checks": [each._asdict() for each in checks], "stages": list(map(vars, tried))}))
        ok = all(step.ok for step in tried)
    else:
        print_checks(checks)
        ok = not with_try or print_steps(plan.workflow, plan.params, plan.source)
    if not ok or not all(each.ok for each in checks):
        raise typer.Exit(2)


def _execute(directory: RunDirectory, made: Campaign) -> None:
    shown = display.Display(str(directory.path), err)

    def show(state: State, rule: StopRule) -> None:
        now = made.recorder.now()
        shown.show(state, lambda: overview(state, directory.path, rule=rule, now=now, driven_here=True), now)

    made.show = show
    try:
        with shown.live():
            made.execute()
    except KeyboardInterrupt:
        err.plain(f"stopped at once; `steersman resume {directory.path}` continues it")
        _leave(EXIT["interrupted"])


def _say_finished(
    directory: RunDirectory, made: Campaign, *, report: bool, require_goal: bool, as_json: bool
) -> NoReturn:
    """There is nothing to go on with."""
    assert made.state.end is not None
    err.plain(
        f"{directory.path} is finished: {made.state.end.reason}; there is nothing to resume. "
        f"`steersman resume {directory.path} --set key=value` continues it with other parameters, "
        "and `--workflow FILE` does what comes after the loop anew"
    )
    if not directory.manifest.exists() or (report and not directory.report.exists()):  # it was ended before, say
        err.plain("its report and manifest are written now" if report else "its manifest is written now")
        _describe(directory, made.state, draw=report)
    if as_json:
        _print_json(directory, made.state)
    raise typer.Exit(_exit_code(made.state.end.outcome, require_goal))


def _describe(directory: RunDirectory, state: State, *, draw: bool, wait: bool = True) -> None:
    """Write what is left of a run that has ended; where nobody waits for the report, a process of its own draws it."""
    from steersman.calls.start import describe

    if draw and wait:
        with err.status("drawing figures and the report"):
            describe(directory, state)
    else:
        describe(directory, state, draw=False)
        if draw and any(state.segments):
            alone(["report", str(directory.path)], stdout=subprocess.DEVNULL)


def _print_json(directory: RunDirectory, state: State) -> None:
    say(json.dumps({"run": str(directory.path), **summary(overview(state, directory.path))}))


def _finish(
    directory: RunDirectory,
    made: Campaign,
    *,
    report: bool,
    require_goal: bool,
    as_json: bool,
    page: Callable[[], str] = str,
) -> None:
    state = made.state
    assert state.end is not None
    at_once = sys.stdout.isatty() and not as_json  # whoever types gets the prompt back, a script finds the report
    outcome = state.end.outcome
    try:
        _describe(directory, state, draw=report, wait=not at_once)
    except KeyboardInterrupt:
        err.plain(f"the run has ended; `steersman report {directory.path}` draws its report")
        _leave(EXIT["interrupted"])
    if as_json:
        _print_json(directory, state)
    else:
        seen = overview(state, directory.path, rule=made.rules.stop)
        out.print(display.closing(seen))
        display.print_outcome(seen)
        if outcome == "budget" and (why := made.unused):
            out.plain(why)
        if any(state.segments):
            newest = max(
                (each.segments[-1] for each in state.walkers.values() if each.segments), key=attrgetter("start")
            ).name
            where = f"{directory.report} (being drawn)" if at_once else directory.report
            if not report or (outcome == "interrupted" and not at_once):
                where = f"`steersman report {directory.path}` draws it"
            out.plain(f"Report: {where}   Ask: steersman why {directory.path} {newest}")
        if link := page():  # it may have ended
            out.plain(f"{link}   (until {IDLE_S / 60:g} minutes after the last viewer has left)")
    _leave(_exit_code(outcome, require_goal))


def _leave(code: int) -> NoReturn:
    """End this process at once: Python takes most of a second to take apart what Parsl has made."""
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # nobody reads it any more
        sys.stdout.flush()
    os._exit(code)


def _check_goal(rule: StopRule, *, required: bool) -> None:
    """Raises: BadValue: the workflow has no goal that --require-goal could ask for."""
    if required and not rule.goal:
        problem = (
            "the workflow has only a budget as its stop rule; give it a goal, e.g. stop=budget(...) | reached(...)"
        )
        raise BadValue("--require-goal", "set", problem)


def _exit_code(outcome: str, require_goal: bool) -> int:
    return NO_GOAL if require_goal and outcome == "budget" else EXIT[outcome]
