"""`steersman tune`: which values of parameters do best by a yardstick."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from steersman.cli.options import SEVERAL, Beside, Budget, Json, ParamsFile, Place, Set, WorkflowName, placed
from steersman.cli.printing import again_continues, counting, say

SHOWN = 10


SearchSeed = Annotated[int, typer.Option("--seed", help="seed of the search, and of its runs")]


@placed(*SEVERAL, seed=(SearchSeed, 0))
def tune(
    workflow: WorkflowName,
    over: Annotated[
        list[str], typer.Option("--over", metavar="KEY=RANGE", help="KEY=LOW:HIGH, KEY=LOW:HIGH:log or KEY=a,b,c")
    ],
    trials: Annotated[int, typer.Option("--trials", min=1, help="number of trials, including earlier ones")] = 40,
    yardstick: Annotated[
        str, typer.Option("--yardstick", help="yardstick that judges the trials (default: the first one)")
    ] = "",
    sampler: Annotated[str, typer.Option("--sampler", help="method that chooses values: tpe, random or grid")] = "tpe",
    early: Annotated[bool, typer.Option(help="end the worse half of the trials early")] = True,
    budget: Budget = "",
    assignments: Set = [],  # noqa: B006 (Typer wants a list)
    params: ParamsFile = None,
    *,
    place: Place,
    beside: Beside = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="folder of the trials; an existing one is continued")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tune parameters by a yardstick: run campaigns with different values, and end the worse ones early."""
    from steersman.analysis.comparison import calls

    with counting("checking the workflow") as show, again_continues():
        study = calls.tune(
            workflow, over, trials=trials, yardstick=yardstick, sampler=sampler, early=early, budget=budget,
            set=assignments, params=params, beside=beside, out=folder, show=show, **place,
        )  # fmt: skip
    if as_json:
        say(json.dumps(study))
        return
    trials_of: list[dict[str, Any]] = study["trials"]
    ended = sum(each["state"] == "pruned" for each in trials_of)
    say(f"{study['yardstick']} after {len(trials_of)} trials, {ended} of them ended early; the best:")
    for each in trials_of[:SHOWN]:
        values = " ".join(f"{key}={value}" for key, value in each["params"].items())
        say(
            f"  {each['value']:<10.5g} {values}"
            + ("   when it was judged and ended early" if each["state"] == "pruned" else "")
        )
    vary = " ".join(f"--vary {key}={trials_of[0]['params'][key]},..." for key in trials_of[0]["params"])
    say(f"Each trial is one run, so the best is partly luck; check it with steersman compare {workflow} {vary}")
