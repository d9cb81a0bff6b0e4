"""`steersman compare`: the same campaign with each policy, several times, and which one pays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column
from rich.text import Text

from steersman.cli.options import SEVERAL, Beside, Budget, Json, ParamsFile, Place, Set, WorkflowName, placed
from steersman.cli.printing import again_continues, columns, counting, out, say
from steersman.system.errors import BadValue

if TYPE_CHECKING:  # the others start sooner without what this one imports
    from steersman.analysis.comparison.verdicts import ArmResult


@placed(*SEVERAL)
def compare(
    workflow: WorkflowName,
    policy: Annotated[
        list[str],
        typer.Option("--policy", help="""arguments of wf.steer, e.g. 'Novelty("z"), explore=0.2'; may be repeated"""),
    ] = [],  # noqa: B006 (Typer wants a list)
    vary: Annotated[
        list[str],
        typer.Option("--vary", metavar="KEY=A,B", help="values of a parameter, or of workers, to compare"),
    ] = [],  # noqa: B006
    seeds: Annotated[int, typer.Option("--seeds", min=2, help="number of campaigns of each policy")] = 8,
    budget: Budget = "",
    plain_budget: Annotated[
        str, typer.Option("--plain-budget", help="budget of plain sampling, if it should run longer than the others")
    ] = "",
    assignments: Set = [],  # noqa: B006
    params: ParamsFile = None,
    *,
    place: Place,
    beside: Beside = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="folder of the comparison; an existing one is continued")
    ] = None,
    model_of: Annotated[
        Path | None,
        typer.Option("--model-of", metavar="RUN", help="judge all runs by cells of this run's latent space"),
    ] = None,
    metric: Annotated[
        list[str],
        typer.Option("--metric", help="judge by levels of a metric of held-out draws, e.g. 'error<0.2,0.1'"),
    ] = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Compare policies: the same budget and seeds for each, beside plain sampling and random restarts."""
    from steersman.analysis.comparison import calls
    from steersman.cli.display import Beside as Shown

    with counting("checking the workflow") as say_so, again_continues():
        comparison = calls.compare(
            workflow, policy, vary=_values(vary), seeds=seeds, budget=budget, plain_budget=plain_budget,
            set=assignments, params=params, beside=beside, out=folder, model_of=model_of, metrics=metric,
            show=Shown(say_so).show, **place,
        )  # fmt: skip
    if as_json:
        say(json.dumps(comparison.summary))
    else:
        _print(comparison.rows)
        out.plain(f"Figure, tables with times and costs, CSV and JSON: {comparison.folder}")


def _print(rows: Sequence[ArmResult]) -> None:
    """What a person wants to know first: how far each arm came, and whether that differs from plain sampling."""
    from steersman.analysis.comparison.tables import cells

    for name in dict.fromkeys(row.yardstick for row in rows):
        numbers = [Column(head, no_wrap=True) for head in ("at the end\n(range)", "starts by\nits policy")]
        arm, verdict = (Column(head, overflow="fold") for head in (f"{name}: arm", "compared with plain sampling"))
        table = columns(arm, *numbers, verdict)
        for row in rows:
            if row.yardstick == name:
                label, end, share, said = cells(row)
                table.add_row(Text(label), end, share, Text(said))
        out.print(table, highlight=False)
        out.print()


def _values(vary: list[str]) -> dict[str, list[str]]:
    from steersman.stages.loading import once

    pairs = []
    for text in vary:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise BadValue("--vary", text, "write --vary key=a,b,c")
        pairs.append((key.strip(), values.split(",")))
    return once("--vary", pairs)
