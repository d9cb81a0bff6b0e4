"""`steersman tune`: which values of parameters do best by a yardstick."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from steersman.cli.options import Json, ParamsFile, Rounds, Set, SiteName, Workers, WorkflowName
from steersman.cli.printing import counting, err
from steersman.system.errors import UnknownName
from steersman.system.node import cores

SHOWN = 10


def tune(
    context: typer.Context,
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
    budget: Annotated[
        str, typer.Option("--budget", help="budget of each campaign, e.g. sim_ns=4 or frames=10000")
    ] = "",
    assignments: Set = [],  # noqa: B006 (Typer wants a list)
    params: ParamsFile = None,
    seed: Annotated[int, typer.Option("--seed", help="seed of the search, and of its runs")] = 0,
    site: SiteName = "laptop",
    workers: Workers = None,
    rounds: Rounds = False,
    beside: Annotated[int, typer.Option("--beside", min=1, help="number of campaigns at a time")] = cores(),
    folder: Annotated[
        Path | None, typer.Option("--out", help="folder of the trials; an existing one is continued")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tune parameters by a yardstick: run campaigns with different values, and end the worse ones early."""
    from steersman import steering
    from steersman.cli.trying import score_names
    from steersman.compare import arms as of
    from steersman.compare.campaigns import Job
    from steersman.compare.errors import NoYardstick
    from steersman.compare.files import alone, write_variant
    from steersman.compare.tuning import WORKFLOW, Search, begin_anew, ends, results, space_of, tune
    from steersman.stages import loading

    source = loading.find(workflow)
    loaded = loading.load(source)
    if not loaded.yardsticks:
        raise NoYardstick(loaded.name)
    judged = yardstick or next(iter(loaded.yardsticks))
    if judged not in loaded.yardsticks:
        raise UnknownName("yardstick", judged, loaded.yardsticks)
    search = Search(over, judged, trials, sampler, seed or 0, early)
    checked = [loading.parameters(loaded, params, [*assignments, end]) for end in ends(space_of(search, loaded))]
    folder = (folder or Path("runs") / f"tune-{loaded.name}").absolute()
    limits = of.budget_of("--budget", budget)
    score_names(loaded, checked[0], source)  # a yardstick that does not work ends it here
    context.with_resource(alone(folder))
    begin_anew(folder)
    file = folder / WORKFLOW
    write_variant(file, of.variant(source, of.Arm(of.OWN), limits), source)
    loaded.stop = steering.budget(**limits) if limits else loaded.stop  # as the variant; it is not imported here, too
    given = str(params.absolute()) if params else None

    def job(run: str, values: tuple[str, ...]) -> Job:
        return Job(run, str(file), seed or 0, (*assignments, *values), given, site, workers, rounds)

    try:
        with counting(f"{trials} trials in {folder}") as say:
            study = tune(search, loaded, folder, job, beside, lambda done: say(f"{done} of {trials} trials are done"))
    except KeyboardInterrupt:
        err.plain("stopped; give the same command again to continue")
        raise typer.Exit(130) from None
    found = results(study)
    (folder / "trials.json").write_text(json.dumps(found, indent=1) + "\n")
    if as_json:
        say(json.dumps({"folder": str(folder), "yardstick": judged, "trials": found}))
        return
    ended = sum(each["state"] == "pruned" for each in found)
    typer.echo(f"{judged} after {len(found)} trials, {ended} of them ended early; the best:")
    for each in found[:SHOWN]:
        values = " ".join(f"{key}={value}" for key, value in each["params"].items())
        typer.echo(f"  {each['value']:<10.5g} {values}" + ("   ended early" if each["state"] == "pruned" else ""))
    vary = " ".join(f"--vary {key}={found[0]['params'][key]},..." for key in found[0]["params"])
    typer.echo(f"Each trial is one run, so the best is partly luck; check it with steersman compare {workflow} {vary}")
