"""Verbs that are given a workflow file, or go on with its run: `steersman run | check | resume`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from steersman.cli import display
from steersman.cli.options import (
    Account,
    BusUrl,
    Json,
    Nodes,
    ParamsFile,
    Queue,
    Rounds,
    RunPath,
    Seed,
    Set,
    SiteName,
    Walltime,
    Workers,
    WorkflowName,
    site_changes,
)
from steersman.cli.printing import err, out, print_checks
from steersman.cli.summary import summary
from steersman.cli.trying import print_steps, steps
from steersman.journal import manifest, run_directory
from steersman.journal.crate import write_crate
from steersman.journal.run_directory import RunDirectory
from steersman.journal.segments import Segment
from steersman.journal.state import State

# What brings Parsl with it is imported by the verbs that run something: it would double the time that the others take.
if TYPE_CHECKING:
    from steersman.engine.run import Run

EXIT = {"goal": 0, "finished": 0, "budget": 3, "failed": 4, "interrupted": 130}


def run(
    workflow: WorkflowName,
    assignments: Set = [],  # noqa: B006 (Typer wants a list)
    params: ParamsFile = None,
    site: SiteName = "laptop",
    workers: Workers = None,
    nodes: Nodes = None,
    walltime: Walltime = None,
    account: Account = None,
    queue: Queue = None,
    seed: Seed = None,
    rounds: Rounds = False,
    run_dir: Annotated[Path | None, typer.Option("--run-dir", help="instead of runs/<workflow>-<number>")] = None,
    bus: BusUrl = None,
    as_json: Json = False,
) -> None:
    """Run a workflow file and show it live; at the end a report."""
    from steersman.engine import campaign

    changes = site_changes(workers=workers, nodes=nodes, walltime=walltime, account=account, queue=queue)
    plan = campaign.plan(
        workflow, params_file=params, assignments=assignments, site=site, site_changes=changes, seed=seed, rounds=rounds
    )
    directory, made = campaign.begin(plan, run_dir=run_dir, bus_url=bus)
    place, facts = escape(str(directory.path)), f"(seed {plan.seed}, {made.slots} slots)"
    err.print(f"[bold]{plan.workflow.name}[/] runs in {place}   [dim]{facts}[/]", soft_wrap=True)
    state = _execute(directory, made)
    _finish(directory, state, made, as_json=as_json)


def resume(
    run: RunPath,
    assignments: Set = [],  # noqa: B006
    bus: BusUrl = None,
    as_json: Json = False,
) -> None:
    """Go on with a run that was interrupted, whatever died; with --set also with one that is finished."""
    from steersman.engine import campaign

    directory = run_directory.open_run(run)
    made = campaign.resume(directory, bus_url=bus, assignments=assignments)
    if made.state.finished and not made.told:
        assert made.state.end is not None
        reason = made.state.end.reason
        err.print(
            escape(
                f"{run} is finished: {reason}; there is nothing to resume; "
                "`--set key=value` goes on with other parameters"
            ),
            highlight=False,
        )
        if not directory.report.exists():  # Ctrl-C came while it was drawn, say
            _describe(directory, made.state)
        if as_json:
            _print_json(directory, made.state)
        raise typer.Exit(0)
    where = escape(f"{run} at {made.state.frames:,} frames")
    err.print(f"[bold]{made.workflow.name}[/] goes on in {where}", highlight=False)
    if made.state.paused:
        err.print(escape(display.paused(made.state)), highlight=False, soft_wrap=True)
    state = _execute(directory, made)
    _finish(directory, state, made, as_json=as_json)


def check(
    workflow: WorkflowName,
    assignments: Set = [],  # noqa: B006
    params: ParamsFile = None,
    site: SiteName = "laptop",
    workers: Workers = None,
    nodes: Nodes = None,
    walltime: Walltime = None,
    account: Account = None,
    queue: Queue = None,
    with_try: Annotated[bool, typer.Option("--try", help="then call every stage once, see `steersman try`")] = False,
    as_json: Json = False,
) -> None:
    """Check everything that can be wrong before a job starts."""
    from steersman.engine import campaign
    from steersman.engine.check import check_plan

    changes = site_changes(workers=workers, nodes=nodes, walltime=walltime, account=account, queue=queue)
    plan = campaign.plan(workflow, params_file=params, assignments=assignments, site=site, site_changes=changes)
    checks = check_plan(plan)
    if as_json:
        tried = list(steps(plan.workflow, plan.params, plan.source)) if with_try else []
        typer.echo(json.dumps([*(each._asdict() for each in checks), *map(vars, tried)]))
        ok = all(step.ok for step in tried)
    else:
        print_checks(checks)
        ok = not with_try or print_steps(plan.workflow, plan.params, plan.source)
    if not ok or not all(each.ok for each in checks):
        raise typer.Exit(2)


def _execute(directory: RunDirectory, made: Run) -> State:
    shown = display.Display(str(directory.path))
    made.show = lambda state, rule: shown.show(state, rule, made.recorder.now())
    try:
        with shown.live():
            return made.execute()
    except KeyboardInterrupt:
        words = escape(f"stopped at once; `steersman resume {directory.path}` goes on")
        err.print(words, highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT["interrupted"]) from None


def _describe(directory: RunDirectory, state: State) -> None:
    """Write what a person and a program read of a run that has ended."""
    from steersman.dashboard.report import write_report

    if state.frames:
        with err.status("drawing figures and the report"):
            write_report(directory)
    write_crate(directory, state)
    manifest.seal(directory)


def _print_json(directory: RunDirectory, state: State) -> None:
    typer.echo(json.dumps({"run": str(directory.path), **summary(directory, state)}))


def _finish(directory: RunDirectory, state: State, made: Run, *, as_json: bool) -> None:
    assert state.end is not None
    _describe(directory, state)
    outcome = state.end.outcome
    if as_json:
        _print_json(directory, state)
    else:
        out.print(display.closing(state, state.now))
        out.print(f"[bold]{outcome}[/]: {escape(state.end.reason)}", highlight=False)
        if state.frames:
            newest = max((walker.segments[-1] for walker in state.walkers.values() if walker.frames), key=_number).name
            words = f"Report: {directory.report}   Ask: steersman why {directory.path} {newest}"
            out.print(escape(words), highlight=False, soft_wrap=True)
    budget_is_goal = outcome == "budget" and not made.stop_rule.goal
    raise typer.Exit(0 if budget_is_goal else EXIT[outcome])


def _number(segment: Segment) -> int:
    return segment.number
