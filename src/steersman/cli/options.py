"""What verbs of the command line share: their arguments and options, and what these change of a site."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from steersman.cli.printing import results_alone
from steersman.executors.place import Place as Place

WorkflowName = Annotated[str, typer.Argument(metavar="WORKFLOW", help="a shipped name, or the path of a .py file")]
RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="a run directory, e.g. runs/fold-0001")]
Set = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="set a parameter; may be repeated")]
ParamsFile = Annotated[Path | None, typer.Option("--params", metavar="FILE", help="YAML file of parameters")]
SITE = "a name that `steersman sites` lists, or the path of a .yaml or .py file"
SiteName = Annotated[str, typer.Option("--site", envvar="STEERSMAN_SITE", help=SITE)]
OtherSite = Annotated[str | None, typer.Option("--site", help=f"continue on another site: {SITE}")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="number of slots for walkers (default: that of the site)")
]
Nodes = Annotated[
    int | None, typer.Option("--nodes", min=1, help="number of nodes of a block (default: that of the site)")
]
Walltime = Annotated[
    str | None, typer.Option("--walltime", metavar="TIME", help="length of the blocks: 90s, 30m, 2h, 02:00:00")
]
Inside = Annotated[
    bool, typer.Option("--inside", help="run in the present job, on its nodes, whatever the site asks for")
]
Account = Annotated[str | None, typer.Option("--account", help="account that the scheduler charges")]
Queue = Annotated[str | None, typer.Option("--queue", help="queue or partition of the scheduler")]
Seed = Annotated[int | None, typer.Option("--seed", help="seed of the run (default: a random one)")]
Rounds = Annotated[
    bool, typer.Option("--rounds", help="synchronous order; the seed then reproduces the run bit for bit")
]
BusUrl = Annotated[
    str | None, typer.Option("--bus", help="redis:// address of a bus server to use (default: start one)")
]
PLACE: dict[str, tuple[Any, Any]] = {  # options of a `Place`, and their defaults
    "site": (SiteName, "laptop"),
    "workers": (Workers, None),
    "nodes": (Nodes, None),
    "walltime": (Walltime, None),
    "account": (Account, None),
    "queue": (Queue, None),
    "inside": (Inside, False),
    "seed": (Seed, None),
    "rounds": (Rounds, False),
}

SEVERAL = ("site", "workers", "rounds")  # of a verb that runs several campaigns


def placed(*names: str, **others: tuple[Any, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a verb have options of a run's place, where its signature says `place`.

    Args:
        names: of these options.
        others: those that differ in this verb, with their defaults.
    """

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def called(**given: Any) -> None:
            place = {name: given.pop(name) for name in options}
            verb(**given, place=place)

        options = {name: others.get(name) or PLACE[name] for name in (*names, *others)}
        parameters: list[inspect.Parameter] = []
        for each in inspect.signature(verb, eval_str=True).parameters.values():
            if each.name != "place":
                parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
                continue
            parameters += [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
                for name, (kind, default) in options.items()
            ]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return decorate


Budget = Annotated[str, typer.Option("--budget", help="budget of each campaign, e.g. sim_ns=4 or frames=10000")]
Beside = Annotated[
    int | None, typer.Option("--beside", min=1, help="number of campaigns at a time (default: one a core)")
]
SegmentName = Annotated[str, typer.Argument(metavar="SEGMENT", help="<walker>.<number>, e.g. w1.7")]
Tree = Annotated[bool, typer.Option("--tree", help="show the chain of segments back to the prepared start")]
Words = Annotated[
    list[str], typer.Argument(help="pause | continue | stop SEGMENT | pin SEGMENT:FRAME | set key=value | finish")
]
Kinds = Annotated[list[str], typer.Option("--kind", help="only records of this kind; may be repeated")]
OfSim = Annotated[str, typer.Option("--sim", help="only records of a walker or a segment, e.g. w3 or w3.17")]
Since = Annotated[str, typer.Option("--since", help="a time (2026-11-21T09:30), or how long ago (90s, 5m, 2h)")]
RequireGoal = Annotated[
    bool, typer.Option("--require-goal", help="exit code 3, not 0, if the budget is spent before the goal is reached")
]
Report = Annotated[
    bool, typer.Option("--report/--no-report", help="draw the report at the end; `steersman report RUN` does it later")
]
Trust = Annotated[
    bool, typer.Option("--trust", help="allow the run's own code here (default: only code that you ran or submitted)")
]


def _alone(context: typer.Context, value: bool) -> bool:
    if value:
        context.with_resource(results_alone())
    return value


Json = Annotated[bool, typer.Option("--json", help="one JSON object on standard output", callback=_alone)]
