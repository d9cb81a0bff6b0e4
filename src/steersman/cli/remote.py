"""Verbs for runs at other machines: `steersman remote ...`."""

from __future__ import annotations

import datetime
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace
from rich.markup import escape

from steersman.cli import runs
from steersman.cli.options import Json, Kinds, OfSim, SegmentName, Set, Since, Tree, Words
from steersman.cli.printing import Shown, columns, err, out, print_checks, say
from steersman.cli.sites import UNWELL
from steersman.engine import people
from steersman.executors.errors import ServiceSilent
from steersman.journal.run_directory import RunDirectory
from steersman.remote import known
from steersman.remote.known import KnownEndpoint, Sent
from steersman.remote.pace import growing
from steersman.remote.transfer import GROUPS
from steersman.stages import loading
from steersman.system.errors import BadInput, EngineError

SOON_S, LATE_S = 2.0, 30.0  # between two questions about a run
REST_S = 10.0  # between two fetches of one that is followed
CANCEL_S = 100.0
LAST_LINES = 10  # of a driver that did not end well
AT_WORK = ("waiting", "running")
STATES = {"unknown": "not there", "waiting": "waits to begin", "running": "running", "ended": "ended", "lost": "lost"}

RunName = Annotated[str, typer.Argument(metavar="NAME", help="name that `steersman submit` returned")]
At = Annotated[str, typer.Option("--at", metavar="ENDPOINT", help="a name of `steersman endpoints`, or a UUID")]

remote = typer.Typer(no_args_is_help=True)


@remote.callback()
def at_other_machines() -> None:
    """Look at, steer and fetch runs at other machines."""


@remote.command("list")
def list_runs(
    at: Annotated[str, typer.Option("--at", help="all runs of this endpoint, of all users")] = "",
    as_json: Json = False,
) -> None:
    """List the runs that were submitted from here, and their states."""
    sent = known.runs()
    places = {at: known.endpoint(at)} if at else {each.endpoint.name: each.endpoint for each in sent.values()}
    rows: list[dict[str, Any]] = []
    for place in places.values():
        try:
            (there,) = site_of(place).ask("", ("names", {}))
        except EngineError as error:
            if at:
                raise
            there = {}
            err.plain(str(error))
        ours = [one.name for one in sent.values() if one.endpoint.uuid == place.uuid]
        for name in dict.fromkeys([*ours, *(there if at else ())]):
            state = there.get(name, {"state": "unknown"} if there else {"state": "?"})
            when = sent[name].at if name in sent else None
            rows.append({"name": name, "at": place.name, "submitted": when, **state})
    if as_json:
        say(json.dumps({"runs": rows}))
        return
    table = columns("run", "at", "submitted", "state")
    for row in rows:
        table.add_row(escape(row["name"]), row["at"], _date(row["submitted"]), escape(_in_words(row)))
    out.print(table) if rows else say("nothing was submitted from here yet", to_stderr=True)


@remote.command()
def status(name: RunName, as_json: Json = False) -> None:
    """Show the progress of a run."""
    view = _view(name)
    look = view.catch_up()
    directory = RunDirectory(view.path)
    if as_json:
        facts = {"remote": {key: look[key] for key in look if key not in ("log", "log_end")}}
        say(json.dumps(facts | (runs.facts(directory) if view.begun else {})))
        return
    if view.begun:
        runs.status(view.path)
    _print_driver(view.sent, look, begun=view.begun)


@remote.command()
def watch(name: RunName) -> None:
    """Show a run live until it ends; if it cannot be reached, try again later."""
    view = _view(name)
    look, intervals = view.catch_up(), _intervals()
    while not view.begun and look["state"] in AT_WORK:  # a job may wait for hours
        time.sleep(next(intervals))
        look = view.catch_up()
    if view.begun:
        polls = _Polls(view.catch_up, out)
        sent = known.submitted(name) / "workflow.py"  # that of the site is not run here
        runs.follow(
            RunDirectory(view.path), f"{name} at {view.sent.endpoint.name}",
            lambda state: polls.over(ends=state.end is not None), loading.load(sent) if sent.exists() else None,
        )  # fmt: skip
        look = polls.look or look
    _print_driver(view.sent, look, begun=view.begun)


@remote.command()
def logs(
    name: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="continue until the driver has ended")] = False,
) -> None:
    """Print what the driver of a run printed."""
    site, sent = _of(name)
    end, intervals = 0, _intervals()
    while True:
        (look,) = site.ask(sent.name, ("look", {"log": end}))
        say(look["log"].rstrip("\n")) if look["log"] else None
        more, end = look["log_end"] > end and len(look["log"]) > 2**17, look["log_end"]
        if not more:
            if not follow or look["state"] not in AT_WORK:
                break
            intervals = _intervals() if look["log"] else intervals
            time.sleep(next(intervals))


@remote.command()
def why(
    name: RunName,
    segment: SegmentName,
    tree: Tree = False,
    as_json: Json = False,
) -> None:
    """Show where a segment started, who chose that and what was rejected, and how the segment ended."""
    runs.why(_looked_at(name), segment, tree, as_json)


@remote.command()
def journal(
    name: RunName,
    kind: Kinds = [],  # noqa: B006
    sim: OfSim = "",
    since: Since = "",
    as_json: Json = False,
) -> None:
    """Print what happened in a run."""
    runs.journal(_looked_at(name), kind, sim, since, as_json)


@remote.command(context_settings={"ignore_unknown_options": True})
def tell(
    name: RunName,
    words: Words,
) -> None:
    """Send a command to a running campaign; the journal records who sent it, and when."""
    site, sent = _of(name)
    (answer,) = site.ask(sent.name, ("tell", {"words": words, "who": people.who()}))
    say(answer)


@remote.command()
def cancel(name: RunName) -> None:
    """End a run now, as Ctrl-C does; `remote resume` continues it."""
    site, sent = _of(name)
    with err.status("its driver ends its blocks and writes the frames so far"):
        (look,) = site.ask(sent.name, ("cancel", {"within_s": CANCEL_S}), within_s=CANCEL_S + 30)
    _print_driver(sent, look, begun=True)


@remote.command()
def resume(
    name: RunName,
    assignments: Set = [],  # noqa: B006
) -> None:
    """Continue a run that was interrupted; with --set, also one that is finished."""
    from steersman.remote.submit import START_S, in_job

    site, sent = _of(name)
    (look,) = site.ask(sent.name, ("resume", {"settings": assignments, "where": sent.where}), within_s=START_S)
    sent = in_job(site, sent, look)
    err.plain(f"{name} continues at {sent.endpoint.name}; steersman remote watch {name}")


@remote.command()
def fetch(
    name: RunName,
    what: Annotated[
        str, typer.Option("--what", help="groups of files: figures, models, frames or all; separated by commas")
    ] = "figures",
    follow: Annotated[bool, typer.Option("--follow", help="fetch repeatedly until the run has ended")] = False,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="instead of runs/NAME")] = None,
    most: Annotated[
        float, typer.Option("--most", metavar="MB", help="largest size of a group of files to fetch")
    ] = 500,
) -> None:
    """Fetch the new files of a run into a run directory here."""
    from steersman.remote.copy import Copy, groups_of

    groups = groups_of([word for word in what.split(",") if word])
    view = _view(name)
    path = to or Path("runs") / name
    intervals = _intervals(REST_S)
    with err.status(f"fetching {what}") as shown:
        copy = Copy(
            view, path, round(most * 1e6),
            lambda received, size: shown.update(f"fetching {what}: {received / 1e6:.1f} of {size / 1e6:.1f} MB"),
        )  # fmt: skip
        while True:
            done = copy.fetch(groups)
            came = f"{done.files} files, {done.received / 1e6:.1f} MB"
            err.plain(f"{came} into {path}; the run: {_in_words(done.look)}")
            if not follow or done.look["state"] not in AT_WORK:
                break
            intervals = _intervals(REST_S) if done.files else intervals
            time.sleep(next(intervals))
    for group, size in done.left.items():
        err.plain(_too_large(view.sent, done.look["path"], group, size, most, path))
    say(str(path))


@remote.command()
def check(
    at: At,
    site: Annotated[str, typer.Option("--site", help="a site by name, or the path of a file here")] = "",
    as_json: Json = False,
) -> None:
    """Check everything between here and a run there: service, endpoint, versions, folder, site file."""
    from steersman.executors.preflight import Finding
    from steersman.remote.check import check as look_at

    findings: list[Finding] = []
    try:
        with err.status(escape(f"asking {at}")):
            for each in look_at(site_of(endpoint_of(at)), site):
                findings.append(each)
    except (EngineError, BadInput) as error:
        findings.append(Finding("stopped", False, str(error)))
    say(json.dumps({"checks": [each._asdict() for each in findings]})) if as_json else print_checks(findings)
    raise typer.Exit(0 if all(each.ok for each in findings) else UNWELL)


@remote.command()
def install(
    at: At,
    run: Annotated[bool, typer.Option("--run", help="run the steps instead of printing them")] = False,
) -> None:
    """Put this version of Steersman at a site, into an environment of its own."""
    from steersman.remote.install import install as put
    from steersman.remote.install import steps, wheel

    endpoint = endpoint_of(at)
    if not run:
        for step in steps(endpoint.folder, wheel()[0]):
            say(step)
        say(f"steersman endpoints add {endpoint.name} --python {endpoint.folder}/venv/bin/python")
        err.print("the wheel is the installed Steersman; --run sends it there and runs these commands")
        return
    with err.status(escape(f"installing at {at}; this takes minutes, most of them for torch")):
        installed = put(site_of(endpoint))
    known.keep_endpoint(replace(endpoint, python=installed["python"]))
    say(installed["python"])


@remote.command()
def login() -> None:
    """Log in to Globus once, in a browser; the tokens stay where Globus keeps them."""
    from steersman.executors import globus

    globus.login()


class _Polls:
    """Questions about a run that is shown, rarer where nothing is new; what fails is said once and asked again."""

    def __init__(self, ask: Callable[[], dict[str, Any]], console: Shown) -> None:
        self._ask, self._console, self._intervals = ask, console, _intervals()
        self._asked, self._interval, self._said = time.monotonic(), next(self._intervals), ""
        self.look: dict[str, Any] = {}

    def over(self, *, ends: bool = False) -> bool:
        """Ask when it is time.

        Args:
            ends: the run is over, and its driver only draws the report.
        Returns: whether the run writes nothing more.
        """
        if time.monotonic() - self._asked < (SOON_S if ends else self._interval):
            return False
        try:
            before, self.look = self.look, self._ask()
            if self._said or self.look.get("state") != before.get("state"):
                self._intervals, self._said = _intervals(), ""
        except ServiceSilent as error:
            if str(error) != self._said:
                self._said = str(error)
                self._console.plain(str(error))
        self._asked, self._interval = time.monotonic(), next(self._intervals)
        return self.look.get("state", "running") not in AT_WORK


def _intervals(first_s: float = SOON_S) -> Iterator[float]:
    return growing(first_s, LATE_S)


def endpoint_of(name: str) -> KnownEndpoint:
    if not name:
        raise BadInput("name the endpoint: --at NAME (see `steersman endpoints`) or --endpoint UUID")
    return known.endpoint(name)


def site_of(endpoint: KnownEndpoint) -> Any:
    from steersman.remote.site import RemoteSite

    return RemoteSite(endpoint)


def _of(name: str) -> tuple[Any, Sent]:
    sent = known.run(name)
    return site_of(sent.endpoint), sent


def _view(name: str) -> Any:
    from steersman.remote.copy import View

    return View(*_of(name))


def _looked_at(name: str) -> Path:
    """The run directory that holds the journal, caught up."""
    view = _view(name)
    view.catch_up()
    return Path(view.path)


def _print_driver(sent: Sent, look: dict[str, Any], *, begun: bool) -> None:
    """How the driver stands; where it did not end well, its last words."""
    state = "" if begun and look["state"] == "running" else f"{_in_words(look)}; "
    out.plain(f"{state}{look['path']} at {sent.endpoint.name}")
    if look["state"] == "waiting" and sent.task and (fate := site_of(sent.endpoint).task(sent.task)) != "waiting":
        out.plain(f"its job did not begin: {fate}")
    if look["state"] == "lost" or look.get("code") not in (None, 0, 3, 130) or not begun:
        say("\n".join(look["log"].rstrip().splitlines()[-LAST_LINES:]))


def _in_words(look: dict[str, Any]) -> str:
    words = STATES.get(look["state"], "not known")
    if look["state"] == "ended":
        words += f" with exit code {look['code']}"
        words += f" ({signal.strsignal(-look['code'])})" if look["code"] < 0 else ""
    if look["state"] == "lost":
        words += f": {look['why']}; `steersman remote resume` continues it"
    return words


def _too_large(sent: Sent, path: str, group: str, size: int, most: float, to: Path) -> str:
    place = sent.endpoint.collection or "COLLECTION"
    names = GROUPS.get(group, ("",))
    commands = [f"globus transfer --recursive {place}:{path}/{name} HERE:{to.absolute()}/{name}" for name in names]
    return (
        f"{group or 'the small files'} are {size / 1e6:,.0f} MB, more than the limit of {most:g} MB (--most): "
        f"they are in {path}; with Globus Transfer: {'; '.join(commands)}"
    )


def _date(moment: float | None) -> str:
    return "" if moment is None else datetime.datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")
