"""Ranges of parameters -> campaigns, the worst of them ended early -> the values that do best by a yardstick.

What was tried lies in `trials.log` of the folder, in Optuna's format: the same call goes on where it was stopped.
"""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from steersman.analysis.comparison.campaigns import LOOK_S, Job, failed, started
from steersman.data.history import History
from steersman.data.yardsticks import Curve, measure
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.steering import StopRule
from steersman.steering.stop import Budget
from steersman.system.errors import BadValue, MissingExtra, UnknownName

EIGHTHS = 1, 2, 4  # of the budget, after which the worse half of the trials that came so far ends
RUN = "run"  # attribute of a trial: its run directory
WORKFLOW, TRIALS, SETTINGS = "workflow.py", "trials.log", "settings.json"  # in the folder
SAMPLERS = ("tpe", "random", "grid")


@dataclass(frozen=True)
class Search:
    """What is tried.

    Args:
        ranges: `KEY=LOW:HIGH`, `KEY=LOW:HIGH:log` or `KEY=a,b,c`, of parameters of the workflow.
        yardstick: by whose last value trials are judged.
        trials: how many in all.
        sampler: "tpe" learns from the trials before, "random" does not, "grid" tries all of `KEY=a,b,c`.
        early: end the worse trials early, by successive halving.
    """

    ranges: Sequence[str]
    yardstick: str
    trials: int
    sampler: str = "tpe"
    seed: int = 0
    early: bool = True


@dataclass
class _Running:
    trial: Any
    process: subprocess.Popen[bytes]
    job: Job
    rule: StopRule
    params: Params
    history: History | None = None
    looked: int = 0  # eighths of the budget at which it was judged


def tune(
    search: Search,
    workflow: Workflow,
    folder: Path,
    job: Callable[[str, tuple[str, ...]], Job],
    beside: int,
    show: Callable[[int], None] = lambda done: None,
) -> Any:
    """Run trials until there are so many; returns Optuna's study.

    Args:
        job: (run directory, `key=value` of the trial) -> its campaign.
        beside: campaigns at a time.
        show: called with the number of trials that are over.
    Raises: BadInput: a range that is none. EngineError: one ended without its budget spent. MissingExtra: Optuna.
    """
    optuna = _optuna()
    space = space_of(search, workflow)
    grid = _grid(space) if search.sampler == "grid" else []
    trials = min(search.trials, len(grid)) if grid else search.trials
    study = optuna.create_study(
        study_name=workflow.name, storage=_storage(folder), load_if_exists=True,
        direction="minimize" if workflow.yardsticks[search.yardstick].less else "maximize",
        pruner=optuna.pruners.SuccessiveHalvingPruner(1, 2),
    )  # fmt: skip
    _renew(study)
    for values in grid:
        study.enqueue_trial(values, skip_if_exists=True)
    running: list[_Running] = []
    try:
        while True:
            while len(running) < beside and _over(study) + len(running) < trials:
                running.append(_begin(ask(study, space, search), workflow, folder, job))
            if not running:
                return study
            time.sleep(LOOK_S)
            for each in list(running):
                if _look(each, study, workflow, search):
                    running.remove(each)
                    show(_over(study))
    finally:
        for each in running:
            each.process.terminate()
        for each in running:
            each.process.wait()


def ask(study: Any, space: Mapping[str, Any], search: Search) -> Any:
    """The next trial, drawn from a seed of its own: a search that goes on draws what it would have drawn."""
    samplers, at_work = _optuna().samplers, ("RUNNING", "COMPLETE", "PRUNED")
    drawn = sum(trial.state.name in at_work for trial in study.trials)
    seed = int(np.random.SeedSequence([search.seed, drawn]).generate_state(1)[0])
    study.sampler = (samplers.TPESampler if search.sampler == "tpe" else samplers.RandomSampler)(seed=seed)
    return study.ask(space)


def space_of(search: Search, workflow: Workflow) -> dict[str, Any]:
    """Parameter -> Optuna's distribution. Raises: BadInput: a range that is none. MissingExtra: Optuna."""
    if search.sampler not in SAMPLERS:
        raise UnknownName("sampler", search.sampler, SAMPLERS)
    space = loading.once("--over", (_range(text, workflow) for text in search.ranges))
    if search.sampler == "grid":
        _grid(space)
    return space


def ends(space: Mapping[str, Any]) -> list[str]:
    """`key=value` of the values that a parameter must allow for all between them to be tried."""
    return [
        f"{key}={value}"
        for key, values in space.items()
        for value in getattr(values, "choices", None) or (values.low, values.high)
    ]


def begin_anew(folder: Path) -> None:
    """Take away what a call left that came to no trial, so that another workflow or budget may be tried here."""
    if not any(folder.glob("trial-*")):
        for name in (TRIALS, WORKFLOW, SETTINGS):
            (folder / name).unlink(missing_ok=True)


def results(study: Any) -> list[dict[str, Any]]:
    """What was tried, best first: number, params, value, state, run; trials that were ended early come last."""
    trials = [
        {
            "number": trial.number, "params": trial.params, "value": trial.value, "state": trial.state.name.lower(),
            "run": trial.user_attrs.get(RUN, ""),
        }
        for trial in study.trials if trial.state.is_finished() and trial.state.name != "FAIL"
    ]  # fmt: skip
    sign = 1 if study.direction.name == "MINIMIZE" else -1
    return sorted(trials, key=lambda each: (each["state"] != "complete", sign * each["value"]))


def _begin(trial: Any, workflow: Workflow, folder: Path, job: Callable[[str, tuple[str, ...]], Job]) -> _Running:
    run = trial.user_attrs.get(RUN) or str(folder / f"trial-{trial.number:04d}")
    trial.set_user_attr(RUN, run)
    campaign = job(run, tuple(f"{key}={value}" for key, value in trial.params.items()))
    params = loading.parameters(workflow, Path(campaign.params) if campaign.params else None, campaign.assignments)
    return _Running(trial, started(campaign), campaign, workflow.stop_rule(params), params)


def _look(each: _Running, study: Any, workflow: Workflow, search: Search) -> bool:
    """Judge a trial as far as it has come; returns whether it is over."""
    over = each.process.poll() is not None
    if over and (each.process.returncode or not each.job.finished):
        raise failed(each.job)
    if each.history is None and RunDirectory(Path(each.job.run)).journal.exists():
        each.history = History(RunDirectory(Path(each.job.run)))
    if each.history is None:
        return False
    each.history.catch_up()
    share = _spent(each)
    due = [eighths for eighths in EIGHTHS if each.looked < eighths <= 8 * share] if search.early else []
    if not over and (not due or share >= 1):  # what has spent its budget ends anyhow
        return False
    pruned = _optuna().trial.TrialState.PRUNED
    curve = measure(each.history, workflow, each.params).get(search.yardstick)
    if curve is None:  # it has no frame
        if over:
            study.tell(each.trial, state=pruned)
        return over
    worse = [_judged(each, curve, eighths, share) for eighths in due]  # all of them: others are judged beside each
    if not over:
        if not any(worse):
            return False
        each.process.terminate()
        each.process.wait()
        each.history.catch_up()
        if not each.history.state.finished:
            study.tell(each.trial, state=pruned)
            return True
        curve = measure(each.history, workflow, each.params)[search.yardstick]  # it came to its end before
        share = _spent(each)
    study.tell(each.trial, _at(curve, 1 / max(share, 1.0)))  # not by what the last segments brought beyond the budget
    return True


def _spent(each: _Running) -> float:
    """The share of its budget that a trial has spent, above 1 where its last segments brought more."""
    assert each.history is not None
    progress = each.history.state.progress(each.history.state.now)
    budgets = (rule for rule in each.rule.either if isinstance(rule, Budget))
    return max(each.rule.share(progress), *(rule.spent(progress) for rule in budgets), 0.0)


def _judged(each: _Running, curve: Curve, eighths: int, share: float) -> bool:
    """Whether a trial is among the worse at a part of its budget, of which it spent this share by now."""
    each.looked = eighths
    each.trial.report(_at(curve, eighths / (8 * share)), eighths)
    return bool(each.trial.should_prune())


def _at(curve: Curve, part: float) -> float:
    """What it came to when this part of all that it has spent was."""
    return float(curve.at(np.array(curve.spent[-1] * part)))


def _over(study: Any) -> int:
    """Trials that were run to their end, or ended early."""
    return sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials)


def _renew(study: Any) -> None:
    """Trials whose process died go on, as new ones with the same values and run directory."""
    optuna = _optuna()
    for trial in study.trials:
        if trial.state == optuna.trial.TrialState.RUNNING:
            study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
            study.enqueue_trial(trial.params, user_attrs={RUN: trial.user_attrs.get(RUN, "")})


def _range(text: str, workflow: Workflow) -> tuple[str, Any]:
    """`KEY=...` -> key and Optuna's distribution. Raises: BadInput."""
    key, _, values = text.partition("=")
    key = key.strip()
    if key not in workflow.params.model_fields:
        raise UnknownName(f"parameter of {workflow.name}", key, workflow.params.model_fields)
    distributions, whole = _optuna().distributions, workflow.params.model_fields[key].annotation is int
    try:
        if ":" not in values:
            if len(set(values.split(","))) < 2:
                raise ValueError("there is nothing to search")
            return key, distributions.CategoricalDistribution([loading.value(key, each) for each in values.split(",")])
        low, high, *log = values.split(":")
        if log not in ([], ["log"]) or not all(math.isfinite(float(each)) for each in (low, high)):
            raise ValueError("this is no range")
        if whole:
            return key, distributions.IntDistribution(int(low), int(high), log=bool(log))
        return key, distributions.FloatDistribution(float(low), float(high), log=bool(log))
    except ValueError as error:
        words = f"{str(error).rstrip('.')}; write KEY=LOW:HIGH, KEY=LOW:HIGH:log or KEY=a,b,c"
        raise BadValue("--over", text, words) from None


def _grid(space: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All combinations. Raises: BadValue: a range has no end of values."""
    for key, values in space.items():
        if not hasattr(values, "choices"):
            raise BadValue("--over", key, "a grid needs its values: write KEY=a,b,c")
    return [dict(zip(space, each, strict=True)) for each in product(*(values.choices for values in space.values()))]


def _storage(folder: Path) -> Any:
    _optuna()
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    folder.mkdir(parents=True, exist_ok=True)
    return JournalStorage(JournalFileBackend(str(folder / TRIALS)))


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise MissingExtra("optuna", "tune") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
