"""Trials of parameters: what a range means, and that the same command goes on with what was tried."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from steersman.analysis.comparison import calls, tuning
from steersman.analysis.comparison.arms import OWN, Arm, variant
from steersman.analysis.comparison.calls import Comparison
from steersman.analysis.comparison.campaigns import Job, _campaign
from steersman.analysis.comparison.files import alone
from steersman.analysis.comparison.tuning import (
    RUN,
    TRIALS,
    WORKFLOW,
    Search,
    _grid,
    _look,
    _range,
    _Running,
    _storage,
    ask,
    begin_anew,
    results,
    tune,
)
from steersman.cli.__main__ import app
from steersman.data.yardsticks import Curve
from steersman.engine import campaign
from steersman.journal import manifest
from steersman.journal.file import Journal, read
from steersman.journal.records import End, Run, Session
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.stages.errors import BadWorkflow
from steersman.stages.workflow import Workflow
from steersman.system.errors import BadInput, EngineError

optuna = pytest.importorskip("optuna")
WELLS = Path(loading.__file__).parents[1] / "workflows" / "reference" / "wells.py"


@pytest.fixture(scope="module")
def wells() -> Workflow:
    return loading.load(WELLS)


def test_a_range_has_the_type_of_its_parameter(wells: Workflow) -> None:
    made = optuna.distributions
    assert _range("steps=50:1000:log", wells) == ("steps", made.IntDistribution(50, 1000, log=True))
    assert _range("steps=50,100", wells) == ("steps", made.CategoricalDistribution([50, 100]))
    wrong_ones = ["step=1:2", "steps=1:x", "steps=2:1", "steps=1:2:lin", "steps", "steps=50", "steps=50,50"]
    for wrong in (*wrong_ones, "barrier_kT=nan:1", "barrier_kT=1:inf"):
        with pytest.raises(BadInput):
            _range(wrong, wells)


def test_a_grid_is_every_combination_and_needs_values(wells: Workflow) -> None:
    space = dict([_range("steps=50,100", wells), _range("frames=10,20,30", wells)])
    assert len({tuple(each.values()) for each in _grid(space)}) == 6
    with pytest.raises(BadInput):
        _grid(dict([_range("steps=50:100", wells)]))


@pytest.mark.parametrize("wrong", ["steps=1:500", "frames=0:10", "steps=100,10,50"])
def test_a_range_beyond_its_parameter_is_refused_before_anything_is_written(wrong: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["tune", str(WELLS), "--over", wrong, "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, BadInput)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["tune", "--over", "steps=100:200"], ["compare"]], ids=lambda words: words[0])
def test_a_yardstick_that_does_not_work_is_said_before_any_campaign(words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{WELLS.read_text()}\n@wf.yardstick()\ndef wrong(p, frames): return frames['angle']\n")
    done = CliRunner().invoke(app, [*words, str(file), "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, BadWorkflow)
    assert done.exception.line == len(file.read_text().splitlines())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [["tune", "--over", "steps=100:200"], ["compare"]], ids=lambda words: words[0])
def test_a_folder_in_which_another_works_is_left_alone(words: list[str], tmp_path: Path) -> None:
    """The second would take the running trials of the first for those of a search that died."""
    (tmp_path / TRIALS).touch()
    with alone(tmp_path):
        done = CliRunner().invoke(app, [*words, str(WELLS), "--out", str(tmp_path)])
        assert isinstance(done.exception, EngineError)
        assert done.exception.exit_status == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", TRIALS]
    with alone(tmp_path):
        pass


def test_a_folder_is_begun_anew_until_there_is_a_trial(tmp_path: Path) -> None:
    begin_anew(tmp_path)
    for file in (WORKFLOW, TRIALS):
        (tmp_path / file).touch()
    (tmp_path / "trial-0000.log").touch()
    begin_anew(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    (tmp_path / "trial-0000.log").unlink()
    begin_anew(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "other",
    [
        {"over": ["steps=100:300"]},
        {"over": ["frames=100:200"]},
        {"yardstick": "leaps"},
        {"rounds": True},
        {"set": {"frames": 50}},
        {"workers": 3},
    ],
    ids=str,
)
def test_a_folder_holds_one_search(other: dict[str, Any], tmp_path: Path) -> None:
    """Values of two yardsticks, or of two ranges, would stand in one table."""
    file = tmp_path / "mine.py"
    file.write_text(f"{WELLS.read_text()}\n@wf.yardstick(less=True)\ndef leaps(p, frames): return frames['time']\n")
    call: dict[str, Any] = {"over": ["steps=100:200"], "trials": 0, "out": tmp_path / "out"}
    calls.tune(file, **call)
    (tmp_path / "out" / "trial-0000.log").touch()
    calls.tune(file, **call)
    with pytest.raises(BadInput):
        calls.tune(file, **call | other)


@pytest.mark.parametrize("words", [["tune", "--over", "steps=100:200"], ["compare"]], ids=lambda words: words[0])
def test_nothing_is_written_into_a_run_or_over_a_file(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").touch()
    for folder in (tmp_path, tmp_path / "journal.jsonl"):
        done = CliRunner().invoke(app, [*words, str(WELLS), "--out", str(folder)])
        assert isinstance(done.exception, BadInput)
    assert [path.name for path in tmp_path.iterdir()] == ["journal.jsonl"]


@pytest.mark.parametrize(("direction", "order"), [("minimize", [1, 2, 0, 3]), ("maximize", [0, 2, 1, 3])])
def test_results_are_told_best_first_and_what_was_ended_early_comes_last(direction: str, order: list[int]) -> None:
    study, made, state = optuna.create_study(direction=direction), optuna.trial.create_trial, optuna.trial.TrialState
    for value in (3.0, 1.0, 2.0):
        study.add_trial(made(value=value))
    study.add_trial(made(state=state.PRUNED, value=0.5 if direction == "minimize" else 9.0))
    study.add_trial(made(state=state.FAIL))
    assert [each["number"] for each in results(study)] == order


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_search_that_goes_on_draws_what_it_would_have_drawn(sampler: str, tmp_path: Path) -> None:
    space = {"x": optuna.distributions.FloatDistribution(0.0, 1.0)}
    search = Search(["x=0:1"], "cells", 14, sampler)

    def drawn(study: Any, trials: int) -> list[float]:
        for _ in range(trials):
            trial = ask(study, space, search)
            study.tell(trial, trial.params["x"])
        return [trial.params["x"] for trial in study.trials]

    whole = drawn(optuna.create_study(), 14)
    storage = _storage(tmp_path)
    drawn(optuna.create_study(study_name="half", storage=storage), 7)
    assert drawn(optuna.load_study(study_name="half", storage=storage), 7) == whole
    assert len(set(whole)) == 14


@pytest.mark.slow
def test_the_same_call_goes_on_with_what_was_tried(wells: Workflow, tmp_path: Path) -> None:
    """A trial whose process died goes on in its run directory; those that are over are not run again."""
    file = tmp_path / "workflow.py"
    file.write_bytes(variant(WELLS, Arm(OWN), {"frames": 200.0}))
    workflow, asked = loading.load(file), list[str]()

    def job(run: str, values: tuple[str, ...]) -> Job:
        asked.append(run)
        return Job(run, str(file), 0, values, None, {"workers": 1})

    died = optuna.create_study(study_name="wells", storage=_storage(tmp_path), direction="maximize")
    died.enqueue_trial({"steps": 250})
    trial = died.ask({"steps": optuna.distributions.CategoricalDistribution([250, 500])})
    trial.set_user_attr(RUN, str(tmp_path / "died"))
    search = Search(["steps=250,500"], "cells", trials=2, sampler="grid")
    found = results(tune(search, workflow, tmp_path, job, beside=2))
    assert sorted(each["params"]["steps"] for each in found) == [250, 500]
    assert str(tmp_path / "died") in asked
    assert len(asked) == 2
    assert all(RunDirectory(Path(each["run"])).journal.exists() for each in found)
    assert found[0]["state"] == "complete"
    again = results(tune(search, workflow, tmp_path, job, beside=2))
    assert (again, len(asked)) == (found, 2)


def test_a_trial_without_a_frame_is_over_when_it_has_ended(wells: Workflow, tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    journal = Journal(directory.journal)
    journal.append(Run(workflow="wells"), Session(host="here", pid=1), End(outcome="budget", reason="0.1 hours"))
    manifest.seal(directory)
    study = optuna.create_study()
    ended = SimpleNamespace(poll=lambda: 0, returncode=0)
    job = Job(str(tmp_path), str(WELLS), 0, (), None, {"workers": 1})
    params = wells.params()
    each = _Running(study.ask(), ended, job, wells.stop_rule(params), params)  # type: ignore[arg-type]
    assert _look(each, study, wells, Search([], "cells", trials=1))
    assert [trial.state.name for trial in study.trials] == ["PRUNED"]


@pytest.mark.parametrize(("end", "state", "value"), [("budget", "COMPLETE", 18), ("interrupted", "PRUNED", 9)])
def test_a_trial_that_comes_to_its_end_before_it_is_stopped_is_whole(
    end: str, state: str, value: float, wells: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(RunDirectory(tmp_path).journal)
    journal.append(Run(workflow="wells"), Session(host="here", pid=1))
    found = [9.0]
    monkeypatch.setattr(tuning, "measure", lambda *_: {"cells": Curve(np.array([1.0, 2.0]), np.array(2 * found))})

    def stopped() -> None:
        found[0] = 18.0
        journal.append(End(outcome=end, reason=""))

    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.SuccessiveHalvingPruner(1, 2))
    for better in (20, 21):
        trial = study.ask()
        trial.report(better, 4)
        trial.should_prune()
        study.tell(trial, better)
    runs = SimpleNamespace(poll=lambda: None, terminate=stopped, wait=lambda: None)
    job = Job(str(tmp_path), str(WELLS), 0, (), None, {"workers": 1})
    half_way = SimpleNamespace(share=lambda progress: 0.5, either=())
    each = _Running(study.ask(), runs, job, half_way, wells.params())  # type: ignore[arg-type]
    assert _look(each, study, wells, Search([], "cells", trials=3))
    assert (study.trials[-1].state.name, study.trials[-1].value) == (state, value)


def test_trials_are_judged_at_the_same_parts_of_the_budget_however_fast_they_are_looked_at(
    wells: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is over when it is looked at for the first time, and has spent half again as much as it was given;
    the second one is seen at an eighth, and is better there."""
    study = optuna.create_study(direction="maximize", pruner=optuna.pruners.SuccessiveHalvingPruner(1, 2))
    job = Job(str(tmp_path), str(WELLS), 0, (), None, {"workers": 1})
    Journal(RunDirectory(tmp_path).journal).append(Run(workflow="wells"), Session(host="here", pid=1))
    monkeypatch.setattr(Job, "finished", True)

    def looked(per_frame: float, share: float, *, over: bool) -> bool:
        spent = np.arange(1.0, 80 * share + 1)
        monkeypatch.setattr(tuning, "measure", lambda *_: {"cells": Curve(spent, per_frame * spent)})
        process = SimpleNamespace(poll=lambda: 0 if over else None, returncode=0)
        rule = SimpleNamespace(share=lambda progress: share, either=())
        each = _Running(study.ask(), process, job, rule, wells.params())  # type: ignore[arg-type]
        return _look(each, study, wells, Search([], "cells", trials=2))

    assert looked(0.6, 1.5, over=True)
    assert study.trials[0].value == pytest.approx(0.6 * 80)
    assert not looked(1.0, 0.125, over=False), "10 cells, for 6"


def test_a_campaign_that_died_before_it_was_sealed_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = RunDirectory(tmp_path)
    Journal(directory.journal).append(
        Run(workflow="wells"), Session(host="here", pid=1), End(outcome="goal", reason="")
    )
    job = Job(str(tmp_path), str(WELLS), 0, (), None, {"workers": 1})
    assert not job.finished
    run = SimpleNamespace(state=State(read(directory.journal)))
    monkeypatch.setattr(campaign, "resume", lambda directory: run)
    _campaign(job)
    assert job.finished


@pytest.mark.parametrize("verb", ["compare", "tune"])
def test_the_object_of_json_goes_to_standard_output(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"folder": "there", "yardstick": "cells", "trials": []}
    made = {"compare": Comparison(Path("there"), [], found), "tune": found}[verb]
    monkeypatch.setattr(calls, verb, lambda *_, **__: made)
    words = ["--over", "steps=1:2"] if verb == "tune" else []
    app([verb, str(WELLS), *words, "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out) == found
