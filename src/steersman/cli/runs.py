"""Verbs that are given a run directory: `steersman status | watch | tell | why | replay | journal | verify`."""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape

from steersman.cli import display, records
from steersman.cli.options import Json, Kinds, OfSim, RunPath, SegmentName, Since, Tree, Trust, Words
from steersman.cli.printing import err, out, say
from steersman.cli.summary import summary
from steersman.data import repair as repairs
from steersman.data import replay as replaying
from steersman.data import verify as verification
from steersman.data import why as reasons
from steersman.data.history import History
from steersman.engine import files, people
from steersman.executors import site_files
from steersman.executors.site import Site
from steersman.journal import calls, copies, run_directory
from steersman.journal.errors import run_damaged
from steersman.journal.lock import driven as is_driven
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading, trust
from steersman.stages.errors import UntrustedCode
from steersman.stages.modules import MODULE
from steersman.stages.workflow import Workflow
from steersman.steering.expression import parse
from steersman.store import names
from steersman.system.errors import DamagedFile, UnknownName


def status(run: RunPath, as_json: Json = False) -> None:
    """Show the progress of a run."""
    directory = run_directory.open_run(run)
    with run_directory.reading(directory):
        history = _read(directory)
        seen = history.overview()
        answer = summary(seen)
        site = site_files.checked(str(directory.settings_file), directory.site())
    copy = copies.of(directory.path)
    tell = f"remote tell {copy.run}" if copy else f"tell {run}"
    jobs = _jobs(site, directory) if site.scheduler and not seen.alive and not copy else []
    if as_json:
        say(json.dumps(answer | {"jobs": jobs}))
        return
    out.print(display.closing(seen))
    if copy:
        out.plain(str(copy))
    else:
        out.print(files.in_words(answer["files"], site), highlight=False)
    if seen.ended:
        display.print_outcome(seen)
    elif seen.alive:
        out.plain("running" if copy else f"running: {seen.driver}")
    else:
        out.plain(_without_driver(directory, run))
    if jobs and site.scheduler:
        what = f"jobs of this run still wait or run without a driver: {', '.join(jobs)}"
        out.plain(f"{what}; `resume` cancels them, or {site.scheduler.CANCEL} does")
    if seen.paused_by:
        out.plain(display.paused(history.state, tell))


def _without_driver(directory: RunDirectory, run: RunPath) -> str:
    copy = copies.of(directory.path)
    return f"it has no driver; `steersman {f'remote resume {copy.run}' if copy else f'resume {run}'}` continues it"


def _jobs(site: Site, directory: RunDirectory) -> list[str]:
    from steersman.executors import batch  # Parsl's import takes a second

    return batch.jobs_of(site, directory.path)


def facts(directory: RunDirectory) -> dict[str, Any]:
    """A run in plain values, see `summary`."""
    with run_directory.reading(directory):
        return summary(History(directory).overview())


def _read(directory: RunDirectory) -> History:
    """Raises: DamagedFile: the journal has lost everything. That of a run that begins is empty for a moment."""
    history = History(directory)
    if not history.place.offset and not is_driven(directory.path):
        raise run_damaged(directory.path, f"{directory.journal.name} is empty: it has no complete record")
    return history


def watch(run: RunPath, code: Trust = False) -> None:
    """Show a run live, from this or another terminal, until it ends or its driver is gone."""
    directory = run_directory.open_run(run)
    if code:
        trust.trust(directory.workflow)
    try:
        workflow = trust.load(directory.workflow)
    except UntrustedCode as untrusted:
        workflow = None
        err.plain(f"without a budget: {untrusted}")
    over = lambda state: state.end is not None or not is_driven(directory.path)  # noqa: E731
    state = follow(directory, str(run), over, workflow)
    if not state.end:
        out.plain(_without_driver(directory, run))


def follow(directory: RunDirectory, name: str, over: Callable[[State], bool], workflow: Workflow | None) -> State:
    """Show a run live until it is over, which is asked a few times a second before the journal is read again.

    Args:
        workflow: with the rule that ends it; None: that is not shown.
    """
    history = History(directory)
    state, shown = history.state, display.Display(name, out)
    with shown.live():
        while True:
            is_over = over(state)
            history.catch_up()
            params = history.settings()["params"] if workflow else {}
            rule = workflow.stop_rule(loading.checked(workflow, params)) if workflow else None
            shown.show(state, functools.partial(history.overview, rule), time.time())
            if is_over:
                break
            time.sleep(display.DRAW_S)
    seen = history.overview()
    out.print(display.closing(seen))
    display.print_outcome(seen)
    return state


def tell(
    run: RunPath,
    words: Words,
) -> None:
    """Send a command to a running campaign; the journal records who sent it, and when."""
    say(people.tell(run_directory.open_run(run), words))


def why(
    run: RunPath,
    segment: SegmentName,
    tree: Tree = False,
    as_json: Json = False,
) -> None:
    """Show where a segment started, who chose that and what was rejected, and how the segment ended.

    Of a task, by its name or the key of a call: what it needed, and what came of it.
    """
    directory = run_directory.open_run(run)
    with run_directory.reading(directory):
        history = History(directory)
        if of_task := calls.why(history.state.calls, segment):
            say(json.dumps(of_task) if as_json else "\n".join(calls.lines(of_task)))
            return
        if history.state.calls and names.SegmentName.parse(segment) is None:
            tasks = {call.called.task for call in history.state.calls.values()}
            raise UnknownName("segment (as w0.7) or task", segment, tasks)
        ask, words = (reasons.tree, reasons.tree_lines) if tree else (reasons.why, reasons.lines)
        answer = ask(history, segment)
        said = json.dumps(answer) if as_json else "\n".join(words(answer))
    say(said)


def replay(
    run: RunPath,
    policy: Annotated[
        str,
        typer.Option("--policy", help="""arguments of wf.steer, e.g. 'Novelty("z")' (default: those of the run)"""),
    ] = "",
    code: Trust = False,
    as_json: Json = False,
) -> None:
    """Repeat the decisions of a run on its recorded scores, and show where a policy would choose differently."""
    directory = run_directory.open_run(run)
    if code:
        trust.trust(directory.workflow)
    workflow = trust.load(directory.workflow)
    other = parse(policy, vars(sys.modules[MODULE])) if policy else None
    with run_directory.reading(directory):
        outcome = replaying.replay(directory, workflow, other)
    say(json.dumps(outcome) if as_json else "\n".join(replaying.lines(outcome)))


def journal(
    run: RunPath,
    kind: Kinds = [],  # noqa: B006
    sim: OfSim = "",
    since: Since = "",
    as_json: Json = False,
) -> None:
    """Print what happened in a run."""
    records.print_records(run_directory.open_run(run), kind, sim, since, as_json=as_json)


def verify(
    run: RunPath,
    repair: Annotated[
        bool, typer.Option("--repair", help="move damaged files to RUN/aside, so that the run can continue")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check that a run directory is intact: checksums, journal against store, models against their cards."""
    directory = run_directory.open_run(run)
    problems = verification.verify(directory)
    lost = repairs.cost(directory, problems)
    if repair and problems:
        repairs.repair(directory, problems)
    if as_json:
        say(json.dumps({"whole": not problems, "problems": [vars(problem) for problem in problems]}))
    for problem in [] if as_json else problems:
        out.print(f"[red]damaged[/] {escape(problem.where)}: {escape(problem.problem)}", highlight=False)
    if not problems:
        err.plain(f"{run} is whole")
    elif repair:
        moved = f"; damaged files lie in {run}/aside" if (run / "aside").exists() else ""
        err.plain(f"left out: {lost or 'no frames and no models'}{moved}")
        if taken := [each.where for each in problems if each.what == "settings" and (run / each.where).is_file()]:
            err.plain(f"taken as it is now, which the journal says: {', '.join(taken)}")
        needed = [each.where for each in problems if each.what == "settings" and not (run / each.where).is_file()]
        if needed:
            err.plain(f"the run can be resumed once {' and '.join(needed)} is there again, from a copy of the run")
            raise typer.Exit(DamagedFile.exit_status)
        err.plain(repairs.ends(directory) or f"`steersman resume {run}` continues the run")
    else:
        err.plain(f"`steersman verify {run} --repair` leaves out: {lost or 'no frames and no models'}")
    raise typer.Exit(DamagedFile.exit_status if problems and not repair else 0)
