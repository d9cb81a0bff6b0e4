"""What verbs of the command line share: their arguments and options, and what these change of a site."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from steersman.system.errors import BadValue

UNITS = {"s": 1, "m": 60, "h": 3600}

WorkflowName = Annotated[str, typer.Argument(metavar="WORKFLOW", help="a shipped name, or the path of a .py file")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="a run directory, e.g. runs/fold-0001")]
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="set a parameter; may be repeated")]
ParamsFile = Annotated[Path | None, typer.Option("--params", metavar="FILE", help="YAML file of parameters")]
SiteName = Annotated[str, typer.Option("--site", help="a shipped site, or the path of a .yaml or .py file")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="slots for walkers, instead of the site's")]
Nodes = Annotated[int | None, typer.Option("--nodes", min=1, help="nodes of a block, instead of the site's")]
Walltime = Annotated[str | None, typer.Option("--walltime", metavar="TIME", help="of all blocks: 90s, 30m, 2h")]
Account = Annotated[str | None, typer.Option("--account", help="account that the scheduler charges")]
Queue = Annotated[str | None, typer.Option("--queue", help="queue or partition of the scheduler")]
Seed = Annotated[int | None, typer.Option("--seed", help="seed of the run; drawn when it is not given")]
Rounds = Annotated[bool, typer.Option("--rounds", help="synchronous order that repeats bit for bit from the seed")]
BusUrl = Annotated[str | None, typer.Option("--bus", help="redis:// address of a server to use")]
Json = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]


def site_changes(
    *,
    workers: int | None = None,
    nodes: int | None = None,
    walltime: str | None = None,
    account: str | None = None,
    queue: str | None = None,
) -> dict[str, Any]:
    """What was given, by the keys of a site file. Raises: BadValue: a walltime that is none."""
    given = {
        "simulation.workers": workers,
        "simulation.nodes": nodes,
        "walltime_s": None if walltime is None else _seconds(walltime),
        "account": account,
        "queue": queue,
    }
    return {key: value for key, value in given.items() if value is not None}


def _seconds(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    if unit not in UNITS or not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{0,9})?", number):
        raise BadValue("--walltime", text, "write a number and s, m or h, e.g. 90s, 30m, 2h")
    return float(number) * UNITS[unit]
