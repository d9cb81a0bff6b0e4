"""`steersman.compare(...)` and `steersman.tune(...)`: a workflow and what is asked of it -> campaigns -> results."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from steersman import steering
from steersman.analysis.comparison import arms as of
from steersman.analysis.comparison import campaigns, tuning
from steersman.analysis.comparison.campaigns import Job, Tally
from steersman.analysis.comparison.files import alone, keep_results, write_once, write_variant
from steersman.analysis.comparison.latent import yardstick_of
from steersman.analysis.comparison.metric import parse
from steersman.analysis.comparison.tables import cells, write
from steersman.analysis.comparison.verdicts import ArmResult, collect, expect_yardstick, rows, with_levels
from steersman.checks import trying
from steersman.executors.place import Place, changes, site_name
from steersman.journal import run_directory
from steersman.stages import loading
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.steering import StopRule
from steersman.steering.decide import PRUNES_NONE
from steersman.system.errors import BadValue, UnknownName
from steersman.system.node import cores

Given = Iterable[str] | Mapping[str, Any]
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Comparison:
    """A comparison that is done.

    Args:
        folder: with its table, figure, CSV and JSON, and the run directories.
        rows: one for each arm and yardstick.
        summary: what comparison.json has.
    """

    folder: Path
    rows: Sequence[ArmResult]
    summary: dict[str, Any] = field(repr=False)

    def _repr_html_(self) -> str:
        from html import escape

        heads = ("yardstick", "arm", "at the end (range)", "starts by its policy", "compared with plain sampling")
        body = ["".join(f"<td>{escape(cell)}</td>" for cell in (row.yardstick, *cells(row))) for row in self.rows]
        text = "".join(f"<tr>{row}</tr>" for row in body)
        return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{text}</table>"


def compare(
    workflow: PathLike | Workflow,
    policies: Sequence[str] = (),
    *,
    vary: Mapping[str, Sequence[Any]] | None = None,
    seeds: int = 8,
    budget: str = "",
    plain_budget: str = "",
    set: Given = (),
    params: PathLike | None = None,
    beside: int | None = None,
    out: PathLike | None = None,
    model_of: PathLike | None = None,
    metrics: Sequence[str] = (),
    show: Callable[[Tally], None] = lambda progress: None,
    **place: Unpack[Place],
) -> Comparison:
    """Compare policies, as `steersman compare` does: equal budgets and seeds, beside plain sampling and `Random()`.

    Args:
        workflow: as of `steersman.run`.
        policies: arguments of `wf.steer`, as text; none: what the workflow file says.
        vary: values of parameters, or of "workers", to compare.
        budget: of each campaign, as in "sim_ns=4".
        set: parameters.
        beside: campaigns at a time; default: one a core.
        out: folder of the comparison; one that exists is continued. Default: runs/compare-<workflow>.
        show: called a few times a second.
        seeds, plain_budget, params, model_of, metrics: as the options of `steersman compare`.
        place: site, workers, rounds and so on, as of `steersman.run`, but no seed: that is the number of a campaign.
    Raises: BadInput. EngineError: the same call continues. KeyboardInterrupt: the same.
    """
    changes(place)  # what is wrong with it is told here
    for name, value in {"seed": place.get("seed"), "seeds": None if seeds > 1 else seeds}.items():
        if value is not None:
            raise BadValue(name, str(value), "campaigns have the seeds 0, 1, ..., at least two: write seeds=8")
    source, loaded = _loaded(workflow)
    if model_of:
        loaded.yardsticks["cells"] = yardstick_of(run_directory.open_run(Path(model_of)), loaded)
    judges = [parse(text, loaded) for text in metrics]
    expect_yardstick(loaded, judges)
    varied = {key: [str(value) for value in values] for key, values in (vary or {}).items()}
    place["site"] = site_name(place)
    words, file_of_params = _written(set), None if params is None else Path(params).absolute()

    def given(assignments: Sequence[str]) -> Params:
        return loading.parameters(loaded, file_of_params, [*words, *assignments])

    own = lambda assignments: loaded.steering_rule(given(assignments))  # noqa: E731
    chosen = of.arms(loaded, policies, varied, own)
    steers = {arm: of.steering_of(arm, partial(own, arm.assignments)) for arm in chosen}
    if place.get("rounds") and (pruned := next((arm for arm in chosen if steers[arm].prune), None)):
        raise BadValue("--policy", pruned.label, f"{PRUNES_NONE}; leave --rounds out")
    limits = of.budget_of("--budget", budget)
    plain_limits = of.budget_of("--plain-budget", plain_budget) or limits
    for ends in filter(None, (limits, plain_limits)):
        for each in steers.values():
            loading.check_stop(loaded, steering.budget(**ends), each)
    folder = Path(out or Path("runs", f"compare-{loaded.name}")).absolute()
    checked = given([])
    settings = {"params": checked.model_dump(mode="json"), "workers": None, "rounds": False, **_given(place)}
    known = _score_names(loaded, checked, source)
    if known is not None:
        of.check_needs(steers, known)
    with alone(folder):
        write_once(folder / "settings.json", json.dumps(settings).encode())
        keep_results(folder, [arm.label for arm in chosen])
        jobs: dict[of.Arm, dict[int, Job]] = {}
        named: dict[str, tuple[str, StopRule]] = {}
        given_file = str(file_of_params) if file_of_params else None
        for arm in chosen:
            of_arm = given(arm.assignments)
            file, ends = folder / f"{arm.slug}.py", plain_limits if arm.plain else limits
            write_variant(file, of.variant(source, arm, ends), source)
            all_words, there = (*words, *arm.assignments), place.copy()
            if arm.workers:
                there["workers"] = arm.workers
            jobs[arm] = {
                seed: Job(str(folder / arm.slug / f"seed-{seed}"), str(file), seed, all_words, given_file, there)
                for seed in range(seeds)
            }
            rule = steering.budget(**ends) if ends else loaded.stop_rule(of_arm)
            of.expect_amount(rule)
            named |= {job.run: (f"{arm.label}, seed {seed}", rule) for seed, job in jobs[arm].items()}
        # Seed by seed, so that a table can be made of those that are done; first the policies that were asked for, so
        # that one that cannot work ends the comparison at once.
        by_seed = [jobs[arm][seed] for seed in range(seeds) for arm in reversed(chosen)]

        def tell(done: int, running: Sequence[Job]) -> None:
            show(Tally(done, [job.run for job in running], named))

        campaigns.run_all(by_seed, beside or cores(), tell)
        runs = {arm: collect(arm, {s: Path(job.run) for s, job in jobs[arm].items()}, loaded, judges) for arm in chosen}
        plain = {arm.varied: runs[arm] for arm in chosen if arm.plain}
        measures = with_levels({each.name: each for each in judges} or loaded.yardsticks, [*plain.values()])
        judged_rows = [(row, runs[arm]) for arm in chosen for row in rows(plain[arm.varied], runs[arm], measures)]
        summary = write(folder, list(runs.values()), judged_rows)
    return Comparison(folder, [row for row, _ in judged_rows], summary)


def tune(
    workflow: PathLike | Workflow,
    over: Sequence[str],
    *,
    trials: int = 40,
    yardstick: str = "",
    sampler: str = "tpe",
    early: bool = True,
    budget: str = "",
    set: Given = (),
    params: PathLike | None = None,
    beside: int | None = None,
    out: PathLike | None = None,
    show: Callable[[str], None] = lambda words: None,
    **place: Unpack[Place],
) -> dict[str, Any]:
    """Tune parameters by a yardstick, as `steersman tune` does, and end the worse campaigns early.

    Args:
        workflow: as of `steersman.run`.
        over: "KEY=LOW:HIGH", "KEY=LOW:HIGH:log" or "KEY=a,b,c", for each parameter.
        trials: in all, those of earlier calls included.
        out: folder of the trials; one that exists is continued. Default: runs/tune-<workflow>.
        show: called with words on how far it is.
        set, beside: as of `steersman.compare`; the others as the options of `steersman tune`.
        place: site, workers, rounds, seed of the search (0) and so on, as of `steersman.run`.
    Returns: folder; yardstick; trials: a mapping each, best first, with number, params, value, state and run.
    Raises: as `steersman.compare`. MissingExtra: Optuna is not installed.
    """
    changes(place)
    source, loaded = _loaded(workflow)
    expect_yardstick(loaded)
    judged = yardstick or next(iter(loaded.yardsticks))
    if judged not in loaded.yardsticks:
        raise UnknownName("yardstick", judged, loaded.yardsticks)
    seed, place["site"] = place.get("seed") or 0, site_name(place)
    search = tuning.Search(over, judged, trials, sampler, seed, early)
    words, file_of_params = _written(set), None if params is None else Path(params).absolute()
    space = tuning.space_of(search, loaded)
    checked = [loading.parameters(loaded, file_of_params, [*words, end]) for end in tuning.ends(space)]
    folder = Path(out or Path("runs", f"tune-{loaded.name}")).absolute()
    limits = of.budget_of("--budget", budget)
    _score_names(loaded, checked[0], source)  # a yardstick that does not work ends it here
    given = str(file_of_params) if file_of_params else None
    asked = {"over": [*over], "yardstick": judged, "sampler": sampler, "early": early}
    settings = {**asked, "params": [given, *words], "workers": None, "rounds": False, **_given(place), "seed": seed}

    def job(run: str, values: tuple[str, ...]) -> Job:
        return Job(run, str(file), seed, (*words, *values), given, place)

    with alone(folder):
        tuning.begin_anew(folder)
        file = folder / tuning.WORKFLOW
        write_variant(file, of.variant(source, of.Arm(of.OWN), limits), source)
        write_once(folder / tuning.SETTINGS, json.dumps(settings).encode())
        loaded.stop = steering.budget(**limits) if limits else loaded.stop  # the variant is not imported here
        loading.check_stop(loaded, loaded.stop_rule(checked[0]), loaded.steering_rule(checked[0]))
        show(f"{trials} trials in {folder}")
        study = tuning.tune(
            search, loaded, folder, job, beside or cores(), lambda done: show(f"{done} of {trials} trials are done")
        )
        results = tuning.results(study)
        (folder / "trials.json").write_text(json.dumps(results, indent=1) + "\n")
    return {"folder": str(folder), "yardstick": judged, "trials": results}


def _loaded(workflow: PathLike | Workflow) -> tuple[Path, Workflow]:
    name, outline = loading.source_of(workflow)
    source = loading.find(name)
    loaded = loading.load(source)
    if outline is not None:
        loading.expect(source, loaded, outline)
    return source, loaded


def _given(place: Place) -> dict[str, Any]:
    """What of it is not left as it is."""
    return {name: value for name, value in place.items() if value not in (None, False)}


def _written(given: Given) -> tuple[str, ...]:
    """As the options of the campaigns' processes have them: `key=value`."""
    if isinstance(given, Mapping):
        return tuple(f"{key}={json.dumps(value)}" for key, value in given.items())
    return tuple(given)


def _score_names(workflow: Workflow, params: Params, source: Path) -> list[str] | None:
    """Names of the scores, by trying the workflow once; None: a stage does not work, as its runs will say.

    Raises: BadWorkflow, BadYardstick: a yardstick does not work.
    """
    with contextlib.redirect_stdout(sys.stderr):
        names = trying.score_names(workflow, params, source)
        return names if workflow.scoring else []
