"""`steersman bus`: names, depths, rates, blocked takers and the last tuples of a run, live; or one name's tuples."""

from __future__ import annotations

import itertools
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from steersman.bus import BusError, Row, TupleSpace, inspect, rows
from steersman.cli.options import Json
from steersman.cli.printing import out, say
from steersman.engine.people import expect_driver
from steersman.journal.run_directory import RunDirectory
from steersman.system.errors import BadInput

PATIENCE_S = 2.0  # who looks does not wait a minute for a server that is gone
LAST = 3
DRAW_S = 1.0


def bus(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="a run directory, or any directory with a bus.json")],
    follow: Annotated[
        str | None, typer.Option("--follow", metavar="NAME", help="show each tuple that is put under this name")
    ] = None,
    last: Annotated[int, typer.Option("--last", min=0, help="number of newest tuples to show for each name")] = LAST,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="end after this number of tables or tuples")
    ] = None,
    as_json: Json = False,
    as_lines: Annotated[
        bool, typer.Option("--jsonl", help="one JSON object per line, for each table or tuple")
    ] = False,
) -> None:
    """Show the tuple space of a run: names, depths, rates, blocked takers, last tuples. It changes nothing.

    On a terminal it stays live until Ctrl-C; into a pipe, or as JSON, it looks once.
    """
    if as_json and (follow is not None or (count or 1) > 1):
        raise BadInput(
            "--json prints only one object; with --follow or --count use --jsonl, which prints one object per line"
        )
    as_json |= as_lines
    if RunDirectory(run).journal.exists():
        expect_driver(RunDirectory(run))
    try:
        with TupleSpace.connect(run / "bus" if (run / "bus").is_dir() else run, patience_s=PATIENCE_S) as space:
            if follow is not None:
                _follow(space, follow, count, as_json=as_json)
            elif as_json or not sys.stdout.isatty():
                _print(space, last, count or 1, as_json=as_json)
            else:
                _live(space, last, count)
    except BusError:
        raise BadInput(f"{run} is not running, or does not answer; `steersman resume {run}` continues it") from None


def _follow(space: TupleSpace, name: str, count: int | None, *, as_json: bool) -> None:
    for line in itertools.islice(inspect.follow(space, name), count):
        say(json.dumps({"name": name, "tuple": line}) if as_json else line)


def _print(space: TupleSpace, last: int, count: int, *, as_json: bool) -> None:
    for look in range(count):
        if look:
            time.sleep(DRAW_S)
        statistics = rows(space, last=last)
        if as_json:
            say(json.dumps({row.name: asdict(row.statistics) | {"last": list(row.last)} for row in statistics}))
        else:
            out.print(_view(statistics))


def _live(space: TupleSpace, last: int, count: int | None) -> None:
    with Live(console=out, auto_refresh=False) as live:
        for look in itertools.count() if count is None else range(count):
            if look:
                time.sleep(DRAW_S)
            live.update(_view(rows(space, last=last)), refresh=True)


def _view(statistics: list[Row]) -> Any:
    table = Table(box=None, header_style="dim", padding=(0, 1, 0, 0))  # 80 columns hold it
    for column in Row.COLUMNS:
        table.add_column(column, justify="left" if column == "name" else "right")
    for row in statistics:
        table.add_row(*map(Text, row.cells))
    tuples = [Text(f"{line}") for row in statistics for line in row.last]
    return Group(table, Text(), *tuples) if tuples else table
