"""Verbs that are given a site: `steersman sites | doctor`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from steersman.cli.options import SITE, Account, Json, Queue, SiteName
from steersman.cli.printing import err, first_line, out, print_checks, print_text, say
from steersman.executors.errors import BadSite
from steersman.executors.place import site_of
from steersman.executors.site import SHIPPED, Site, own
from steersman.executors.site import sites as all_sites
from steersman.executors.site_files import file_of, load_site

if TYPE_CHECKING:  # see campaigns.py
    from steersman.checks.probe import Probe

UNWELL = 7  # exit code of `doctor` and `remote check`

sites = typer.Typer(invoke_without_command=True)


@sites.callback()
def list_sites(context: typer.Context, as_json: Json = False) -> None:
    """List the site files that come with Steersman, and your own; copy one to make your own."""
    if context.invoked_subcommand is not None:
        return
    known = {name: _loaded(name) for name in all_sites()}
    if as_json:
        say(json.dumps({name: _plain(site) for name, site in known.items()}))
        return
    table = Table.grid(padding=(0, 2))
    for name, path in all_sites().items():
        table.add_row(f"[bold]{name}[/]", Text(_in_words(path, known[name]), overflow="fold"))
    out.print(table)
    out.print(Text(f"files: {SHIPPED}\nyours: {own()}"))


def _loaded(name: str) -> Site | BadSite:
    """One that a user is still writing does not hide the others."""
    try:
        return load_site(name)
    except BadSite as error:
        return error


def _plain(site: Site | BadSite) -> dict[str, Any]:
    return {"problem": site.problem} if isinstance(site, BadSite) else site.model_dump(mode="json")


def _in_words(path: Path, site: Site | BadSite) -> str:
    if isinstance(site, BadSite):
        return f"{path}: {site.problem}"
    return first_line(path) + (f"\nneeds --{', --'.join(site.needs)}" if site.needs else "")


@sites.command()
def show(
    site: Annotated[str, typer.Argument(metavar="NAME", help=SITE)],
    as_json: Json = False,
) -> None:
    """Show a site file, and the scripts that it gives to the scheduler."""
    from steersman.executors.parsl_config import submit_scripts

    loaded = load_site(site)
    scripts = submit_scripts(loaded)
    if as_json:
        say(json.dumps({"site": loaded.model_dump(mode="json"), "scripts": scripts}))
        return
    path = file_of(site)
    print_text(str(path), path.read_text(encoding="utf-8"))
    for role, script in scripts.items():
        print_text(f"script of {role}", script)


def doctor(
    site: SiteName = "laptop",
    account: Account = None,
    queue: Queue = None,
    within: Annotated[
        float, typer.Option("--within", metavar="SECONDS", help="time limit for the job to start and end")
    ] = 900,
    as_json: Json = False,
) -> None:
    """Run a small job on a site; report its nodes, what is wrong, and how to repair it."""
    from steersman.checks.site import examine

    loaded = site_of({"site": site, "account": account, "queue": queue})
    with err.status(escape(f"a small job on {loaded.name}")):
        report = examine(loaded, Path.cwd(), within)
    if as_json:
        facts = {"probes": [asdict(each) for each in report.probes], "findings": [f._asdict() for f in report.findings]}
        say(json.dumps(facts))
    else:
        out.print(_table(report.probes))
        print_checks(report.findings)
    raise typer.Exit(0 if report.well else UNWELL)


def _table(probes: Sequence[Probe]) -> Table:
    """A row for each node and role."""
    table = Table(box=None, header_style="dim", padding=(0, 1))
    table.add_column("node")
    table.add_column("for", min_width=len("simulation"))
    for column in ("workers", "cores", "GPUs", "bus MB/s", "store MB/s", "clock ms", "scratch GB"):
        table.add_column(column, justify="right")
    places = sorted({(each.node, each.role) for each in probes})
    for node, role in places:
        here = [each for each in probes if (each.node, each.role) == (node, role)]
        names = " ".join(sorted(each.gpus[0] for each in here if each.gpus)) or "-"
        low = (min(each.bus for each in here), min(each.store_write for each in here))
        skew = max((each.behind_s for each in here), key=abs)
        figures = (f"{low[0]:.0f}", f"{low[1]:.0f}", f"{1e3 * skew:+.1f}", f"{here[0].scratch_gb:.0f}")
        table.add_row(node, role, str(len(here)), str(here[0].cores), names, *figures)
    return table
