"""The command line: words of a person -> the functions of the rooms. It sits on top of everything.

Exit codes: 0 the run reached its goal (or spent its budget, where it has no other goal), 2 bad input, 3 the budget was
spent before the goal, 4 simulations failed, 130 interrupted.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from steersman.bus import BusError
from steersman.engine import bus_command, display, files, journal, loading, people, records, run_directory
from steersman.engine import replay as replaying
from steersman.engine import verify as verification
from steersman.engine import why as reasons
from steersman.engine.crate import write_crate
from steersman.engine.errors import BadInput, EngineError, UnknownName
from steersman.engine.lock import owner
from steersman.engine.options import (
    Account,
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
from steersman.engine.run_directory import RunDirectory
from steersman.engine.site_verbs import doctor, print_checks, sites
from steersman.engine.state import State
from steersman.engine.template import TEMPLATE
from steersman.executors.errors import BadSite
from steersman.executors.site import Site

# What brings Parsl with it is imported by the verbs that run something: it would double the time that the others take.
if TYPE_CHECKING:
    from steersman.engine.run import Run

EXIT = {"goal": 0, "finished": 0, "budget": 3, "failed": 4, "interrupted": 130}
BENCHMARKS = {
    "bus": "bus", "loop": "loop", "store": "store", "scratch": "scratch", "molecular-dynamics": "molecular_dynamics",
    "train": "train", "learning": "learning", "scale": "scale", "events": "events", "shallow-water": "shallow_water",
}  # fmt: skip

app = typer.Typer(
    help="Couple simulations with deep learning: run a workflow file, watch it, ask why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)


@app.command()
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
    bus: Annotated[str | None, typer.Option("--bus", help="redis:// address of a server to use")] = None,
    as_json: Json = False,
) -> None:
    """Run a workflow file and show it live; at the end a report."""
    from steersman.engine import campaign

    changes = site_changes(workers=workers, nodes=nodes, walltime=walltime, account=account, queue=queue)
    plan = campaign.plan(
        workflow, params_file=params, assignments=assignments, site=site, site_changes=changes, seed=seed, rounds=rounds
    )
    directory, made = campaign.begin(plan, run_dir=run_dir, bus_url=bus)
    err.print(
        f"[bold]{plan.workflow.name}[/] runs in {directory.path}   [dim](seed {plan.seed}, {made.slots} slots)[/]"
    )
    state = _execute(directory, made)
    _finish(directory, state, made, as_json=as_json)


@app.command()
def resume(
    run: RunPath,
    bus: Annotated[str | None, typer.Option("--bus", help="redis:// address of a server to use")] = None,
    as_json: Json = False,
) -> None:
    """Go on with a run that was interrupted, whatever died."""
    from steersman.engine import campaign

    directory = run_directory.open_run(run)
    made = campaign.resume(directory, bus_url=bus)
    if made.state.finished:
        assert made.state.end is not None
        err.print(f"{run} is finished: {escape(made.state.end['reason'])}; there is nothing to resume", highlight=False)
        raise typer.Exit(0)
    err.print(f"[bold]{made.workflow.name}[/] goes on in {run} at {made.state.frames:,} frames", highlight=False)
    state = _execute(directory, made)
    _finish(directory, state, made, as_json=as_json)


@app.command(context_settings={"ignore_unknown_options": True})
def tell(
    run: RunPath,
    words: Annotated[
        list[str], typer.Argument(help="pause | continue | stop SEGMENT | pin SEGMENT:FRAME | set key=value | finish")
    ],
) -> None:
    """Tell a running campaign something; it is journalled with who said it and when."""
    out.print(people.tell(run_directory.open_run(run), words), highlight=False)


@app.command(name="journal")
def print_journal(
    run: RunPath,
    kind: Annotated[list[str], typer.Option("--kind", help="only records of this kind; may be repeated")] = [],  # noqa: B006
    sim: Annotated[str, typer.Option("--sim", help="only those of a walker or a segment, e.g. w3 or w3.17")] = "",
    since: Annotated[
        str, typer.Option("--since", help="a time (2026-11-21T09:30), or how long ago (90s, 5m, 2h)")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """Print what happened in a run."""
    records.print_records(run_directory.open_run(run), kind, sim, since, as_json=as_json)


@app.command()
def verify(
    run: RunPath,
    repair: Annotated[
        bool, typer.Option("--repair", help="set aside what is not whole, so that the run can go on")
    ] = False,
    as_json: Json = False,
) -> None:
    """Prove a run directory whole: chunk checksums, journal against store, models against cards."""
    directory = run_directory.open_run(run)
    problems = verification.verify(directory)
    if repair and problems:
        verification.repair(directory, problems)
    if as_json:
        typer.echo(json.dumps([vars(problem) for problem in problems]))
    for problem in [] if as_json else problems:
        out.print(f"[red]not whole[/] {escape(problem.where)}: {escape(problem.problem)}", highlight=False)
    if not problems:
        err.print(f"{run} is whole", highlight=False)
    elif repair:
        err.print(f"set aside in {run}/aside; `steersman resume {run}` goes on", highlight=False)
    raise typer.Exit(4 if problems and not repair else 0)


def _execute(directory: RunDirectory, made: Run) -> State:
    shown = display.Display(made.stop_rule, str(directory.path))
    made.show = lambda state: shown.show(state, time.time())
    try:
        with shown.live():
            return made.execute()
    except KeyboardInterrupt:
        err.print(f"stopped at once; `steersman resume {directory.path}` goes on", highlight=False)
        raise typer.Exit(EXIT["interrupted"]) from None


def _finish(directory: RunDirectory, state: State, made: Run, *, as_json: bool) -> None:
    from steersman.dashboard.report import write_report

    assert state.end is not None
    if state.frames:
        with err.status("drawing figures and the report"):
            write_report(directory)
    write_crate(directory, state)
    outcome = state.end["outcome"]
    if as_json:
        typer.echo(json.dumps({"run": str(directory.path), **summary(directory, state)}))
    else:
        out.print(display.closing(state, state.now))
        out.print(f"[bold]{outcome}[/]: {escape(state.end['reason'])}", highlight=False)
        if state.frames:
            out.print(f"Report: {directory.report}   Ask: steersman why {directory.path} w0.1", highlight=False)
    budget_is_goal = outcome == "budget" and not made.stop_rule.goal
    raise typer.Exit(0 if budget_is_goal else EXIT[outcome])


def summary(directory: RunDirectory, state: State) -> dict[str, Any]:
    """A run in plain values."""
    return {
        "workflow": state.run["workflow"],
        "outcome": state.end["outcome"] if state.end else "running",
        "reason": state.end["reason"] if state.end else None,
        "seed": state.run["seed"],
        "guided": state.run["guided"],
        "frames": state.frames,
        "simulated": state.simulated,
        "time_unit": state.time_unit,
        "hours": round(state.hours(state.now), 5),
        "segments": dict(state.ended),
        "walkers": len(state.walkers),
        "files": files.count(directory.path),
        "models": [
            {
                "version": m.version,
                "accepted": m.accepted,
                "loss": m.card.get("loss"),
                "held_out": m.card.get("held_out"),
            }
            for m in state.models
        ],
        "metrics": {name: values[-1] for name, values in state.metrics.items()},
    }


@app.command()
def status(run: RunPath, as_json: Json = False) -> None:
    """Say how far a run has come."""
    directory = run_directory.open_run(run)
    state = State(journal.read(directory.journal))
    told = summary(directory, state)
    if as_json:
        typer.echo(json.dumps(told))
        return
    driver = owner(directory.path)
    driven = driver is not None and not driver.why_gone
    out.print(display.closing(state, time.time() if driven else state.now))
    out.print(files.told(told["files"], Site.model_validate(directory.settings()["site"])), highlight=False)
    if state.end:
        out.print(f"[bold]{state.end['outcome']}[/]: {escape(state.end['reason'])}", highlight=False)
    elif driven:
        out.print(f"running: {driver}", highlight=False)
    else:
        out.print(f"nobody drives it; `steersman resume {run}` goes on", highlight=False)


@app.command()
def watch(run: RunPath) -> None:
    """Show a run live, from this or another terminal, until it ends."""
    directory = run_directory.open_run(run)
    rule = _stop_rule(directory)
    state, read_to = State(), 0
    with Live(console=out, auto_refresh=False) as live:
        while state.end is None:
            for record, end in journal.follow(directory.journal, offset=read_to):
                state.apply(record)
                read_to = end
            live.update(display.view(state, rule, str(run), time.time()), refresh=True)
            time.sleep(display.DRAW_S)
    out.print(f"[bold]{state.end['outcome']}[/]: {escape(state.end['reason'])}", highlight=False)


@app.command()
def why(
    run: RunPath,
    segment: Annotated[str, typer.Argument(help="<walker>.<number>, e.g. w1.7")],
    tree: Annotated[bool, typer.Option("--tree", help="all it follows from, back to the prepared start")] = False,
    as_json: Json = False,
) -> None:
    """Tell where a segment started, who chose it and what was refused, and how it ended."""
    tell, words = (reasons.tree, reasons.tree_lines) if tree else (reasons.why, reasons.lines)
    told = tell(run_directory.open_run(run), segment)
    typer.echo(json.dumps(told) if as_json else "\n".join(words(told)))


@app.command()
def replay(
    run: RunPath,
    policy: Annotated[
        str, typer.Option("--policy", help="""a policy such as 'Novelty("z")'; without it, the run's own""")
    ] = "",
    as_json: Json = False,
) -> None:
    """Decide again on what a run recorded, without any simulation, and show where a policy chooses otherwise."""
    told = replaying.replay(run_directory.open_run(run), policy)
    typer.echo(json.dumps(told) if as_json else "\n".join(replaying.lines(told)))


@app.command()
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
    as_json: Json = False,
) -> None:
    """Check everything that can be wrong before a job starts."""
    from steersman.engine import campaign
    from steersman.engine.check import check_plan

    changes = site_changes(workers=workers, nodes=nodes, walltime=walltime, account=account, queue=queue)
    plan = campaign.plan(workflow, params_file=params, assignments=assignments, site=site, site_changes=changes)
    checks = check_plan(plan)
    if as_json:
        typer.echo(json.dumps([each._asdict() for each in checks]))
    else:
        print_checks(checks)
    if not all(each.ok for each in checks):
        raise typer.Exit(2)


@app.command()
def workflows(as_json: Json = False) -> None:
    """List the workflow files that come with Steersman."""
    found = {name: _first_line(path) for name, path in loading.shipped().items()}
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table.grid(padding=(0, 2))
    for name, line in found.items():
        table.add_row(f"[bold]{name}[/]", Text(line))
    out.print(table)


@app.command()
def new(name: Annotated[str, typer.Argument(help="name of the workflow; NAME.py is written here")]) -> None:
    """Write a workflow file that works, to start from."""
    if not name.replace("_", "").replace("-", "").isalnum():
        raise BadInput(f"{name!r} is no name for a workflow: use letters, digits, - and _")
    path = Path(f"{name}.py")
    try:
        with path.open("x") as file:
            file.write(TEMPLATE.replace("NAME", name))
    except FileExistsError:
        raise BadInput(f"{path} exists; choose another name or remove it") from None
    out.print(f"wrote {path}; run it with [bold]steersman run {path}[/]", highlight=False)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def bench(context: typer.Context, name: Annotated[str, typer.Argument(help=", ".join(BENCHMARKS))]) -> None:
    """Run a benchmark: one JSON object on standard output, progress on standard error."""
    if name not in BENCHMARKS:
        raise UnknownName("benchmark", name, BENCHMARKS)
    module = import_module(f"steersman.benchmarks.{BENCHMARKS[name]}")
    module.main([argument for argument in context.args if argument != "--json"])


app.command("bus")(bus_command.bus)
app.command("doctor")(doctor)
app.add_typer(sites, name="sites", help="List the site files that come with Steersman, or show one.")


def _stop_rule(directory: RunDirectory) -> Any:
    workflow = loading.load(directory.workflow)
    return workflow.stop_rule(loading.checked(workflow, directory.settings()["params"]))


def _first_line(path: Path) -> str:
    return path.read_text().lstrip('"').splitlines()[0].rstrip('"')


def main() -> None:
    """Run the command line, and end the process, though a score may hang in a thread of it."""
    try:
        _main()
    except SystemExit as end:
        if any(thread.name.startswith("scoring") for thread in threading.enumerate()):
            sys.stdout.flush()
            os._exit(end.code if isinstance(end.code, int) else 0)
        raise


def _main() -> None:
    """What a person did wrong is told in one line and ends with code 2."""
    logging.raiseExceptions = False  # a full disk is told once, not by every line that Parsl cannot log
    try:
        app()
    except (BadInput, BadSite) as error:
        err.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except (EngineError, BusError) as error:
        err.print(f"[red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(4)


if __name__ == "__main__":
    main()
