"""What comes with Steersman, and a workflow file to start from: `steersman workflows | new | bench`."""

from __future__ import annotations

import json
import re
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from steersman.cli.options import Json
from steersman.cli.printing import first_line, out, say
from steersman.stages import loading
from steersman.system.errors import BadInput, UnknownName

BENCHMARKS = {  # name -> file of benchmarks/, whose parser says it
    found[1]: file.stem
    for file in sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))
    if (found := re.search(r'prog="steersman bench ([\w-]+)"', file.read_text(encoding="utf-8")))
}
TEMPLATE = '''"""NAME: describe it here.

    steersman run NAME.py
"""

import numpy as np

from steersman import Params, Workflow, budget
from steersman.steering import Novelty
from steersman.store import Variable


class Parameters(Params):
    steps: int = 50  # of a segment
    frames: int = 20_000  # budget


wf = Workflow("NAME", Parameters, stop=lambda p: budget(frames=p.frames))


@wf.simulate(variables={"time": Variable((), "s", "time"), "x": Variable((), "m", "position")})
def simulate(p, start, out):
    """One segment: put your simulation here; it begins from start.frame, which is empty at the very first."""
    rng = np.random.default_rng(out.seed)
    x = float(start.frame.get("x", 0.0))
    for step in range(1, p.steps + 1):
        x += rng.normal()
        out.append(time=float(step), x=x)
        if out.stopped:
            break


@wf.score()
def place(p, model, frames):
    """What steering looks at; with a @wf.train stage, `model` is what it returned."""
    return {"x": frames["x"]}


wf.steer(Novelty("x"))


@wf.metric
def spread(scores):
    return float(np.ptp(scores.values["x"]))


@wf.yardstick("highest")
def farthest(p, frames):
    """What `steersman compare NAME.py` judges by: a function of stored frames alone."""
    return np.abs(frames["x"])
'''


def workflows(as_json: Json = False) -> None:
    """List the workflow files that come with Steersman."""
    files = loading.shipped()
    if as_json:
        say(json.dumps({name: first_line(path) for name, path in files.items()}))
        return
    for folder, title in (loading.SHIPPED, ""), (loading.REFERENCE, "\nReference problems, for `steersman compare`:"):
        table = Table.grid(padding=(0, 2))
        for name, path in files.items():
            if path.parent == folder:
                table.add_row(f"[bold]{name}[/]", Text(first_line(path)))
        out.print(*filter(None, [title]), table, sep="\n")


def new(
    name: Annotated[str, typer.Argument(help="name of the workflow; NAME.py is written here")],
    source: Annotated[
        str, typer.Option("--from", metavar="WORKFLOW", help="copy this one; `steersman workflows` lists them")
    ] = "",
) -> None:
    """Write a workflow file that works, to start from: a random walk, or a copy of one that comes with Steersman."""
    if not name.replace("_", "").replace("-", "").isalnum():
        raise BadInput(f"{name!r} cannot be the name of a workflow: use letters, digits, - and _")
    text = loading.find(source).read_text(encoding="utf-8") if source else TEMPLATE.replace("NAME", name)
    path = Path(f"{name}.py")
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        raise BadInput(f"{path} exists; choose another name or remove it") from None
    out.print(f"wrote {path}; run it with [bold]steersman run {path}[/]", highlight=False)


def bench(context: typer.Context, name: Annotated[str, typer.Argument(help=", ".join(BENCHMARKS))]) -> None:
    """Run a benchmark: one JSON object on standard output, progress on standard error; NAME --help shows options."""
    if name not in BENCHMARKS:
        raise UnknownName("benchmark", name, BENCHMARKS)
    module = import_module(f"steersman.benchmarks.{BENCHMARKS[name]}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # its server would stay
    module.main([argument for argument in context.args if argument != "--json"])
