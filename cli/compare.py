"""`steersman compare`: the same campaign with each policy, several times, and which one pays."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column
from rich.text import Text

from steersman.cli.options import Json, ParamsFile, Rounds, Set, SiteName, Workers, WorkflowName
from steersman.cli.printing import columns, counting, err, out
from steersman.system.errors import BadValue
from steersman.system.node import cores

if TYPE_CHECKING:  # the others start sooner without what this one imports
    from steersman.compare.comparison import Row
    from steersman.steering import StopRule


def compare(
    context: typer.Context,
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
    budget: Annotated[
        str, typer.Option("--budget", help="budget of each campaign, e.g. sim_ns=4 or frames=10000")
    ] = "",
    plain_budget: Annotated[
        str, typer.Option("--plain-budget", help="budget of plain sampling, if it should run longer than the others")
    ] = "",
    assignments: Set = [],  # noqa: B006
    params: ParamsFile = None,
    site: SiteName = "laptop",
    workers: Workers = None,
    rounds: Rounds = False,
    beside: Annotated[int, typer.Option("--beside", min=1, help="number of campaigns at a time")] = cores(),
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
    from steersman import steering
    from steersman.cli.display import Beside
    from steersman.cli.trying import score_names
    from steersman.compare import arms as of
    from steersman.compare.campaigns import Job, run_all
    from steersman.compare.comparison import collect, rows
    from steersman.compare.errors import NoYardstick
    from steersman.compare.files import alone, write_once, write_variant
    from steersman.compare.latent import yardstick_of
    from steersman.compare.metric import parse
    from steersman.compare.write import write
    from steersman.journal import run_directory
    from steersman.stages import loading

    source = loading.find(workflow)
    loaded = loading.load(source)
    if model_of:
        loaded.yardsticks["cells"] = yardstick_of(run_directory.open_run(model_of), loaded)
    metrics = [parse(text, loaded) for text in metric]
    if not (loaded.yardsticks or metrics):
        raise NoYardstick(loaded.name)
    chosen = of.arms(loaded, policy, _values(vary))
    limits = of.budget_of("--budget", budget)
    plain_limits = of.budget_of("--plain-budget", plain_budget) or limits
    folder = (folder or Path("runs") / f"compare-{loaded.name}").absolute()
    checked = loading.parameters(loaded, params, assignments)
    settings = {"params": checked.model_dump(mode="json"), "site": site, "workers": workers, "rounds": rounds}
    known = score_names(loaded, checked, source)
    if known is not None:
        of.check_needs(chosen, loaded, known)
    context.with_resource(alone(folder))
    write_once(folder / "settings.json", json.dumps(settings).encode())
    jobs: dict[of.Arm, dict[int, Job]] = {}
    named: dict[str, tuple[str, StopRule]] = {}
    for arm in chosen:
        of_arm = loading.parameters(loaded, params, [*assignments, *arm.assignments])
        file = folder / f"{arm.slug}.py"
        ends = plain_limits if arm.plain else limits
        write_variant(file, of.variant(source, arm, ends), source)
        words = (*assignments, *arm.assignments)
        given, slots = str(params.absolute()) if params else None, arm.workers or workers
        jobs[arm] = {
            seed: Job(str(folder / arm.slug / f"seed-{seed}"), str(file), seed, words, given, site, slots, rounds)
            for seed in range(seeds)
        }
        rule = steering.budget(**ends) if ends else loaded.stop_rule(of_arm)
        named |= {job.run: (f"{arm.label}, seed {seed}", rule) for seed, job in jobs[arm].items()}
    # Seed by seed, so that a table can be made of those that are done; first the policies that were asked for, so that
    # one that cannot work ends the comparison at once.
    by_seed = [jobs[arm][seed] for seed in range(seeds) for arm in reversed(chosen)]
    try:
        with counting(f"{len(by_seed)} campaigns in {folder}") as say:
            shown = Beside(say, named)
            run_all(by_seed, beside, lambda done, jobs: shown.show(done, [job.run for job in jobs], time.time()))
    except KeyboardInterrupt:
        err.plain("stopped; give the same command again to continue")
        raise typer.Exit(130) from None
    runs = {arm: collect(arm, {s: Path(job.run) for s, job in jobs[arm].items()}, loaded, metrics) for arm in chosen}
    plain = {arm.varied: runs[arm] for arm in chosen if arm.plain}
    measures = {each.name: each for each in metrics} or loaded.yardsticks
    found = [(row, runs[arm]) for arm in chosen for row in rows(plain[arm.varied], runs[arm], measures)]
    written = write(folder, list(runs.values()), found)
    if as_json:
        say(json.dumps(written))
    else:
        _print([row for row, _ in found])
        out.plain(f"Figure, tables with times and costs, CSV and JSON: {folder}")


def _print(rows: Sequence[Row]) -> None:
    """What a person wants to know first: how far each arm came, and whether that differs from plain sampling."""
    from steersman.compare.write import at_the_end, by_policy

    for name in dict.fromkeys(row.yardstick for row in rows):
        numbers = [Column(head, no_wrap=True) for head in ("at the end\n(range)", "starts by\nits policy")]
        arm, verdict = (Column(head, overflow="fold") for head in (f"{name}: arm", "compared with plain sampling"))
        table = columns(arm, *numbers, verdict)
        for row in rows:
            if row.yardstick == name:
                guided = " (guided)" if row.arm.guided else ""
                table.add_row(Text(row.arm.label + guided), at_the_end(row), by_policy(row), Text(row.verdict))
        out.print(table, highlight=False)
        out.print()


def _values(vary: list[str]) -> dict[str, list[str]]:
    found = {}
    for text in vary:
        key, equals, values = text.partition("=")
        if not equals or not values:
            raise BadValue("--vary", text, "write --vary key=a,b,c")
        found[key.strip()] = values.split(",")
    return found
