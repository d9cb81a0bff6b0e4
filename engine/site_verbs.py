"""`steersman sites`, and what `check` and `sites show` tell of a site."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steersman.executors.preflight import Finding, submit_scripts
from steersman.executors.site import sites as shipped_sites
from steersman.executors.site_files import load_site

out = Console()
Json = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]
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
        needs = f"needs --{', --'.join(known[name].needs)}\n" if known[name].needs else ""
        table.add_row(f"[bold]{name}[/]", Text(f"{_first_line(path)}\n{needs}{path}\n", overflow="fold"))
    out.print(table)


@sites.command()
def show(
    site: Annotated[str, typer.Argument(metavar="NAME", help="a shipped site, or the path of a .yaml file")],
    as_json: Json = False,
) -> None:
    """Show a site file, and the scripts that it gives to the scheduler."""
    loaded = load_site(site)
    scripts = submit_scripts(loaded)
    if as_json:
        typer.echo(json.dumps({"site": loaded.model_dump(mode="json"), "scripts": scripts}))
        return
    path = shipped_sites().get(site, Path(site))
    _print_text(str(path), path.read_text())
    for role, script in scripts.items():
        _print_text(f"{loaded.scheduler} script of {role}", script)


def print_checks(checks: Sequence[Finding]) -> None:
    """Print what was found as a table, and below it what takes several lines."""
    table = Table.grid(padding=(0, 2))
    for each in checks:
        if "\n" not in each.found:
            table.add_row("[green]ok[/]" if each.ok else "[red]no[/]", each.what, Text(each.found, overflow="fold"))
    out.print(table)
    for each in checks:
        if "\n" in each.found:
            _print_text(each.what, each.found)


def _print_text(title: str, text: str) -> None:
    out.rule(Text(title), align="left")
    typer.echo(text.rstrip())


def _first_line(path: Path) -> str:
    return path.read_text().splitlines()[0].lstrip("# ")
