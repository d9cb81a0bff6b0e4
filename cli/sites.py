"""Verbs that are given a site: `steersman sites | doctor`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from steersman.cli.options import Account, Json, Queue, SiteName, site_changes
from steersman.cli.printing import err, out, print_checks, print_text
from steersman.executors.site import SHIPPED
from steersman.executors.site import sites as shipped_sites
from steersman.executors.site_files import load_site

if TYPE_CHECKING:  # see campaigns.py
    from steersman.engine.probe import Probe

sites = typer.Typer(invoke_without_command=True)


@sites.callback()
def list_sites(context: typer.Context, as_json: Json = False) -> None:
    """List the site files that come with Steersman; copy one to make your own."""
    if context.invoked_subcommand is not None:
        return
    known = {name: load_site(name) for name in shipped_sites()}
    if as_json:
        typer.echo(json.dumps({name: site.model_dump(mode="json") for name, site in known.items()}))
        return
    table = Table.grid(padding=(0, 2))
    for name, path in shipped_sites().items():
        needs = f"\nneeds --{', --'.join(known[name].needs)}" if known[name].needs else ""
        table.add_row(f"[bold]{name}[/]", Text(f"{_first_line(path)}{needs}", overflow="fold"))
    out.print(table)
    out.print(Text(f"files: {SHIPPED}"))


@sites.command()
def show(
    site: Annotated[str, typer.Argument(metavar="NAME", help="a shipped site, or the path of a .yaml or .py file")],
    as_json: Json = False,
) -> None:
    """Show a site file, and the scripts that it gives to the scheduler."""
    from steersman.executors.parsl_config import submit_scripts

    loaded = load_site(site)
    scripts = submit_scripts(loaded)
    if as_json:
        typer.echo(json.dumps({"site": loaded.model_dump(mode="json"), "scripts": scripts}))
        return
    path = shipped_sites().get(site, Path(site))
    print_text(str(path), path.read_text())
    for role, script in scripts.items():
        print_text(f"script of {role}", script)


def doctor(
    site: SiteName = "laptop",
    account: Account = None,
    queue: Queue = None,
    within: Annotated[float, typer.Option("--within", metavar="SECONDS", help="for the job to start and end")] = 900,
    as_json: Json = False,
) -> None:
    """Run a small job on a site and report what its nodes are like, what is wrong, and the cure."""
    from steersman.engine.doctor import examine

    loaded = load_site(site, site_changes(account=account, queue=queue))
    with err.status(escape(f"a small job on {loaded.name}")):
        found = examine(loaded, Path.cwd(), within)
    if as_json:
        facts = {"probes": [asdict(each) for each in found.probes], "findings": [f._asdict() for f in found.findings]}
        typer.echo(json.dumps(facts))
    else:
        out.print(_table(found.probes))
        print_checks(found.findings)
    raise typer.Exit(0 if found.well else 4)


def _table(probes: Sequence[Probe]) -> Table:
    """A row for each node and role."""
    table = Table(box=None, header_style="dim", padding=(0, 1))
    for column in ("node", "for", "workers", "cores", "GPUs", "bus MB/s", "store MB/s", "clock ms", "scratch GB"):
        table.add_column(column, justify="left" if column in ("node", "for") else "right")
    places = sorted({(each.node, each.role) for each in probes})
    for node, role in places:
        here = [each for each in probes if (each.node, each.role) == (node, role)]
        names = " ".join(sorted(each.gpus[0] for each in here if each.gpus)) or "-"
        low = (min(each.bus for each in here), min(each.store_write for each in here))
        skew = max((each.behind_s for each in here), key=abs)
        figures = (f"{low[0]:.0f}", f"{low[1]:.0f}", f"{1e3 * skew:+.1f}", f"{here[0].scratch_gb:.0f}")
        table.add_row(node, role, str(len(here)), str(here[0].cores), names, *figures)
    return table


def _first_line(path: Path) -> str:
    return path.read_text().splitlines()[0].lstrip("# ")
