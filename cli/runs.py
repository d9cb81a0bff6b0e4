"""Verbs that are given a run directory: `steersman status | watch | tell | why | replay | journal | verify`."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer
from rich.markup import escape

from steersman.cli import display, records
from steersman.cli.options import Json, RunPath
from steersman.cli.printing import err, out, say
from steersman.cli.summary import summary
from steersman.engine import files, people
from steersman.executors.site import Site
from steersman.journal import replay as replaying
from steersman.journal import run_directory
from steersman.journal import verify as verification
from steersman.journal import why as reasons
from steersman.journal.history import History
from steersman.journal.lock import driven as is_driven
from steersman.journal.lock import owner
from steersman.stages import loading
from steersman.stages.modules import MODULE
from steersman.steering.expression import parse


def status(run: RunPath, as_json: Json = False) -> None:
    """Say how far a run has come."""
    directory = run_directory.open_run(run)
    with run_directory.reading(directory):
        state = History(directory).state
        found = summary(directory, state)
        site = Site.model_validate(directory.settings()["site"])
    if as_json:
        typer.echo(json.dumps(found))
        return
    driver, driven = owner(directory.path), is_driven(directory.path)
    out.print(display.closing(state, time.time() if driven else state.now))
    out.print(files.in_words(found["files"], site), highlight=False)
    if state.end:
        out.print(f"[bold]{state.end.outcome}[/]: {escape(state.end.reason)}", highlight=False)
    elif driven:
        out.print(escape(f"{display.paused(state) or 'running'}: {driver}"), highlight=False)
    else:
        out.print(escape(f"nobody drives it; `steersman resume {run}` goes on"), highlight=False)
    if state.paused and not driven:
        out.print(escape(display.paused(state)), highlight=False)


def watch(run: RunPath) -> None:
    """Show a run live, from this or another terminal, until it ends."""
    directory = run_directory.open_run(run)
    workflow = loading.load(directory.workflow)
    history = History(directory)
    state, shown = history.state, display.Display(str(run), out)
    with shown.live():
        while True:
            params = loading.checked(workflow, history.settings()["params"])
            shown.show(state, workflow.stop_rule(params), time.time())
            if state.end is not None:
                break
            time.sleep(display.DRAW_S)
            history.catch_up()
    out.print(display.closing(state, state.now))
    out.print(f"[bold]{state.end.outcome}[/]: {escape(state.end.reason)}", highlight=False)


def tell(
    run: RunPath,
    words: Annotated[
        list[str], typer.Argument(help="pause | continue | stop SEGMENT | pin SEGMENT:FRAME | set key=value | finish")
    ],
) -> None:
    """Say something to a running campaign; it is journalled with who said it and when."""
    say(people.tell(run_directory.open_run(run), words))


def why(
    run: RunPath,
    segment: Annotated[str, typer.Argument(help="<walker>.<number>, e.g. w1.7")],
    tree: Annotated[bool, typer.Option("--tree", help="all it follows from, back to the prepared start")] = False,
    as_json: Json = False,
) -> None:
    """Say where a segment started, who chose it and what was refused, and how it ended."""
    tell, words = (reasons.tree, reasons.tree_lines) if tree else (reasons.why, reasons.lines)
    directory = run_directory.open_run(run)
    with run_directory.reading(directory):
        found = tell(History(directory), segment)
    say(json.dumps(found) if as_json else "\n".join(words(found)))


def replay(
    run: RunPath,
    policy: Annotated[
        str, typer.Option("--policy", help="""a policy such as 'Novelty("z")'; without it, the run's own""")
    ] = "",
    as_json: Json = False,
) -> None:
    """Decide again on what a run recorded, without any simulation, and show where a policy chooses otherwise."""
    directory = run_directory.open_run(run)
    own = loading.load(directory.workflow).steering
    other = parse(policy, vars(sys.modules[MODULE])) if policy else None
    with run_directory.reading(directory):
        found = replaying.replay(directory, own, other)
    say(json.dumps(found) if as_json else "\n".join(replaying.lines(found)))


def journal(
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
        err.print(escape(f"{run} is whole"), highlight=False)
    elif repair:
        err.print(escape(f"set aside in {run}/aside; `steersman resume {run}` goes on"), highlight=False)
    raise typer.Exit(4 if problems and not repair else 0)
