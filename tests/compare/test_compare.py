"""One campaign of the six wells, measured and analysed: a yardstick is a function of frames, and comparing goes on."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from steersman.analysis import trajectories
from steersman.analysis.errors import UnevenFrames
from steersman.analysis.trajectories import Trajectories, read
from steersman.apps import six_wells
from steersman.cli.__main__ import app
from steersman.cli.compare import _print as print_rows
from steersman.compare import campaigns
from steersman.compare.arms import PLAIN, Arm, arms, budget_of, variant
from steersman.compare.campaigns import Job, run_all
from steersman.compare.comparison import BLIND, Runs, collect, rows
from steersman.compare.errors import CampaignFailed
from steersman.compare.figure import draw
from steersman.compare.files import write_variant
from steersman.compare.latent import yardstick_of
from steersman.compare.metric import HeldOutMetric, parse
from steersman.compare.statistics import Interval
from steersman.compare.write import table, write
from steersman.dashboard import style
from steersman.dashboard.figures import contributed
from steersman.dashboard.results import Results
from steersman.dashboard.yardsticks import Curve, amount, follow
from steersman.journal.history import History
from steersman.journal.run_directory import RunDirectory
from steersman.journal.verify import verify
from steersman.stages import loading
from steersman.stages.workflow import Workflow
from steersman.stages.yardstick import Yardstick
from steersman.steering import LocalOutlierFactor, Steering
from steersman.steering.decide import CHOSE_NONE
from steersman.system.errors import BadInput, BadValue, UnknownName

pytestmark = pytest.mark.slow
WELLS = Path(loading.__file__).parents[1] / "workflows" / "reference" / "wells.py"

TOY = """
from steersman import Workflow, budget

wf = Workflow("toy", stop=budget(frames=20))


@wf.simulate()
def simulate(p, start, out):
    import walks

    for _ in range(5):
        out.append(x=walks.step(out.seed))


@wf.yardstick()
def reached(p, frames):
    return frames["x"].astype(int)
"""


@pytest.fixture(scope="module")
def wells() -> Workflow:
    return loading.load(WELLS)


@pytest.fixture(scope="module")
def job(wells: Workflow, tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("compared")
    arm = Arm('LocalOutlierFactor("z", neighbours=5), explore=0.25')
    (folder / "arm.py").write_bytes(variant(WELLS, arm, budget_of("--budget", "frames=300")))
    made = Job(str(folder / "seed-0"), str(folder / "arm.py"), 0, ("steps=250",), None, "laptop", 2, True)
    run_all([made], beside=1)
    return made


def test_a_run_directory_knows_the_policy_that_was_compared(job: Job) -> None:
    ran = loading.load(RunDirectory(Path(job.run)).workflow)
    assert ran.steering == Steering(LocalOutlierFactor("z", neighbours=5), explore=0.25)
    assert str(ran.stop_rule(ran.params())) == "budget of 300 frames"


def test_what_is_finished_is_not_run_again(job: Job) -> None:
    before = RunDirectory(Path(job.run)).journal.stat()
    run_all([job], beside=1)
    assert RunDirectory(Path(job.run)).journal.stat() == before


def toy(folder: Path, walks: str) -> Job:
    """A campaign of a variant of a workflow of two files."""
    (folder / "mine").mkdir()
    (folder / "mine" / "toy.py").write_text(TOY)
    (folder / "mine" / "walks.py").write_text(walks)
    source, file = folder / "mine" / "toy.py", folder / "arm.py"
    loading.load(source)
    write_variant(file, variant(source, Arm("Random()"), {}), source)
    return Job(str(folder / "seed-0"), str(file), 0, (), None, "laptop", 1, False)


def test_a_variant_imports_what_lies_beside_its_workflow_file(tmp_path: Path) -> None:
    job = toy(tmp_path, "def step(seed): return seed % 7")
    run_all([job], beside=1)
    assert job.finished


def test_a_campaign_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(CampaignFailed, match="no steps today"):
        run_all([toy(tmp_path, "def step(seed): raise ValueError('no steps today')")], beside=1)


def test_a_policy_that_was_asked_for_runs_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it cannot work, nobody waits for plain sampling to hear of it."""
    asked = list[Job]()

    def stopped(jobs: list[Job], *_: object) -> None:
        asked.extend(jobs)
        raise KeyboardInterrupt

    monkeypatch.setattr(campaigns, "run_all", stopped)
    words = ["compare", str(WELLS), "--policy", 'Novelty("z")', "--seeds", "2", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, words).exit_code == 130
    assert [job.seed for job in asked] == [0, 0, 0, 1, 1, 1]
    assert [Path(job.workflow).stem for job in asked[::3]] == ["Novelty-z"] * 2
    for other in (["--set", "steps=250"], ["--rounds"], ["--budget", "frames=300"]):
        refused = CliRunner().invoke(app, [*words, *other])
        assert isinstance(refused.exception, BadValue), "its runs are not mixed with those of other settings"


@pytest.mark.parametrize("policy", ['Novelty("q")', 'Novelty("z"), prune=Redundant("q")'])
def test_a_score_that_is_not_there_is_refused_before_any_campaign(policy: str, wells: Workflow, tmp_path: Path) -> None:
    with pytest.raises(BadValue) as told:
        app(["compare", str(WELLS), "--policy", policy, "--out", str(tmp_path)], standalone_mode=False)
    assert told.value.value == policy
    assert "'q'" in told.value.problem
    assert "angles, cell, far, z" in told.value.problem
    assert not list(tmp_path.iterdir())


def test_a_yardstick_counts_what_the_frames_hold(job: Job, wells: Workflow) -> None:
    runs = collect(Arm(PLAIN), {0: Path(job.run)}, wells)
    frames = RunDirectory(Path(job.run)).frames
    angles = np.concatenate([frames.read("angles", span) for span in frames.spans()])
    visited = set(six_wells.cells(angles).tolist()) - {-1}
    assert runs.curves["cells"][0].value[-1] == len(visited)
    assert (np.diff(runs.curves["cells"][0].value) >= 0).all()
    assert runs.curves["cells"][0].spent[-1] == pytest.approx(len(angles) * 0.05)
    assert runs.cost["simulation"] > 0
    assert 0 < runs.own < runs.starts, "the first start is the prepared one"


def test_an_arm_like_plain_sampling_shows_no_difference(job: Job, wells: Workflow, tmp_path: Path) -> None:
    def of(arm: Arm) -> Runs:
        return collect(arm, {0: Path(job.run), 1: Path(job.run)}, wells)

    plain, same = of(Arm(PLAIN)), of(Arm("Random()"))
    found = [(row, runs) for runs in (plain, same) for row in rows(plain, runs, wells.yardsticks)]
    assert [row.verdict for row, _ in found[2:]] == ["no difference shown, by only 2 seeds"] * 2
    written = write(tmp_path, [plain, same], found)
    assert {path.name for path in tmp_path.iterdir()} == {"comparison.json", "table.md", "runs.csv", "figure.png"}
    assert len(written["rows"]) == 4  # type: ignore[arg-type]
    assert table(found).count("no difference shown") == 2


@pytest.mark.parametrize(
    ("yardstick", "amounts"),
    [("distinct", [1, 2, 2, 3]), ("highest", [3, 3, 3, 7]), ("lowest", [3, 1, 1, 1]), ("mean", [3, 2, 7 / 3, 3.5])],
)
def test_what_frames_amount_to(yardstick: str, amounts: list[float]) -> None:
    assert amount(np.array([3, 1, 3, 7]), Yardstick(lambda p, f: f["x"], yardstick)).tolist() == pytest.approx(amounts)


@pytest.mark.parametrize("wrong", ["error", "error<", "error<a", "error=0.1", "nothing<0.1"])
def test_a_metric_to_compare_by_names_the_levels_to_reach(wrong: str) -> None:
    diffraction = loading.load(loading.shipped()["diffraction"])
    assert parse("error_rate < 0.2,0.1", diffraction) == HeldOutMetric("error_rate", True, (0.2, 0.1))
    with pytest.raises(BadInput):
        parse(wrong, diffraction)


def test_a_metric_is_compared_only_where_draws_are_held_out(wells: Workflow) -> None:
    with pytest.raises(BadInput):
        parse(f"{next(iter(wells.metrics), 'cells')}>3", wells)


def test_rows_are_distinct_as_a_whole_and_what_is_below_0_is_in_no_cell() -> None:
    distinct = Yardstick(lambda p, f: f["x"])
    assert amount(np.array([[0, 1], [1, 0], [0, 1]], bool), distinct).tolist() == [1, 2, 2]
    assert amount(np.array([-1, 4, -1, 4]), distinct).tolist() == [0, 1, 1, 1]
    assert amount(np.zeros((3, 0), bool), distinct).tolist() == [1, 1, 1], "a peptide of three has no far contacts"


def test_plain_and_random_are_always_in_and_parameters_vary_with_each(wells: Workflow) -> None:
    found = arms(wells, ['Novelty("z"), explore=0.2', 'Target("z")'], {"steps": ["100", "500"]})
    assert len(found) == 2 * 4
    assert [arm.steer for arm in found[:2]] == ["Unsteered()", "Random(), fallback=Random()"]
    assert [arm.guided for arm in found[:4]] == [False, False, False, True]
    assert len({arm.slug for arm in found}) == 8


def test_slots_vary_like_parameters_but_belong_to_the_site(wells: Workflow) -> None:
    found = arms(wells, [], {"workers": ["1", "16"], "steps": ["100"]})
    assert [(arm.workers, arm.assignments) for arm in found] == [(1, ("steps=100",))] * 3 + [(16, ("steps=100",))] * 3
    assert found[0].label == "Unsteered(), steps=100, workers=1"
    for wrong in ("0", "-1", "many", ""):
        with pytest.raises(BadInput):
            arms(wells, [], {"workers": [wrong]})


def test_a_workflow_that_draws_has_no_restarts_to_compare_with() -> None:
    for name in ("shallow_water", "diffraction"):
        assert [arm.steer for arm in arms(loading.load(loading.shipped()[name]), [], {})] == [PLAIN, ""]


def test_a_budget_that_is_none_is_refused() -> None:
    assert budget_of("--budget", "sim_ns=0.5") == {"sim_ns": 0.5}
    assert budget_of("--budget", "") == {}
    for wrong in ("sim_ns", "frames=x", "nights=3", "frames=0"):
        with pytest.raises(BadInput):
            budget_of("--budget", wrong)


def test_plain_sampling_that_ran_longer_says_how_much_longer_it_needs(wells: Workflow) -> None:
    """Its end is not compared: all are, where the shortest ended."""
    each = {"cells": wells.yardsticks["cells"]}

    def of(arm: Arm, cells_a_step: int, steps: int) -> Runs:
        curve = Curve(np.arange(1.0, steps + 1), np.arange(1.0, steps + 1) * cells_a_step)
        return Runs(arm, seeds=[0, 1], curves={"cells": [curve, curve]})

    (row,) = rows(of(Arm(PLAIN), 1, 400), of(Arm("Random()"), 4, 50), each)
    assert row.sooner[175] == Interval(175 / 44, 175 / 44, 175 / 44, level=0.5)
    assert row.more == Interval(150.0, 150.0, 150.0)


def test_the_figure_shows_the_whole_name_of_each_arm() -> None:
    curve = Curve(np.arange(1.0, 50), np.arange(1.0, 50))
    label = ", ".join(["Random() | Random()"] * 9)
    with style.applied():
        figure = draw([Runs(Arm(each), seeds=[0, 1], curves={"cells": [curve, curve]}) for each in (PLAIN, label)])
        figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().x1 <= figure.bbox.x1
    assert [" ".join(text.get_text().split()) for text in legend.get_texts()] == [PLAIN, label]
    assert "2 seeds" in legend.get_title().get_text()


@pytest.mark.parametrize(("seeds", "few"), [(2, True), (3, True), (8, False)])
def test_a_verdict_by_few_seeds_says_so(wells: Workflow, seeds: int, few: bool) -> None:
    curves = [Curve(np.arange(1.0, 50), np.arange(1.0, 50) * more) for more in (1, 4)]
    plain, better = (Runs(Arm(PLAIN), list(range(seeds)), {"cells": [curve] * seeds}) for curve in curves)
    better.arm, better.starts, better.own = Arm("Random()"), 20, 20
    (row,) = rows(plain, better, {"cells": wells.yardsticks["cells"]})
    assert row.verdict.startswith("better")
    assert row.verdict.endswith(f"by only {seeds} seeds") is few


def test_a_policy_that_chose_no_start_is_not_judged(
    wells: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However much better its runs were: others chose their starts. Each format has the share that it chose."""
    curves = [Curve(np.arange(1.0, 50), np.arange(1.0, 50) * more) for more in (1, 4)]
    plain, idle, chose = (
        Runs(Arm(policy), seeds=[0, 1], curves={"cells": [curve, curve]}, starts=20, own=own)
        for policy, curve, own in ((PLAIN, curves[0], 18), ("Random()", curves[1], 0), ('Novelty("z")', curves[1], 5))
    )
    each = {"cells": wells.yardsticks["cells"]}
    found = [(row, runs) for runs in (plain, idle, chose) for row in rows(plain, runs, each)]
    assert [row.verdict == CHOSE_NONE for row, _ in found] == [False, True, False]
    assert [replace(row, blind=True).verdict == BLIND for row, _ in found] == [False, False, True]
    lines = [line.split(" | ") for line in table(found).splitlines() if line.count("%")]
    assert [line[-2] for line in lines] == ["90 %", "0 %", "25 %"]
    written: Any = write(tmp_path, [plain, idle, chose], found)
    assert [row["chosen_by_policy"] for row in written["rows"]] == [0.9, 0, 0.25]
    with (tmp_path / "runs.csv").open() as file:
        shares = {row["arm"]: float(row["chosen_by_policy"]) for row in csv.DictReader(file)}
    assert list(shares.values()) == [0.9, 0, 0.25]
    monkeypatch.setenv("COLUMNS", "60")
    print_rows([row for row, _ in found])
    said = capsys.readouterr().out
    assert all(said.count(f" {share} %") == 1 for share in (90, 0, 25)), "the number and its sign are in one line"


def test_the_report_draws_what_compare_measures(job: Job) -> None:
    history = History(RunDirectory(Path(job.run)))
    title, draw = contributed(history)["yardsticks"]
    figure, caption = draw(history)
    assert title == "What was reached"
    assert [axes.get_ylabel() for axes in figure.axes] == ["wells", "cells"]
    assert "cells" in caption


@pytest.fixture(scope="module")
def found(job: Job) -> Trajectories:
    return read([RunDirectory(Path(job.run))], "z")


def test_a_piece_of_plain_dynamics_is_a_segment_with_the_frame_that_it_started_from(
    job: Job, found: Trajectories
) -> None:
    segments = History(RunDirectory(Path(job.run))).segments
    alone = [i for i in range(len(segments)) if segments.parent[i] >= 0 and segments.policy[i] != "Unsteered"]
    frames = np.concatenate(list(found.pieces))
    assert set(frames.tolist()) == set(range(len(found.features)))
    assert len(frames) == len(found.features) + len(alone)
    assert len(found.pieces) == len(alone) + 2, "two slots began at the prepared start"
    assert found.step == pytest.approx(0.05)


def test_neighbours_in_a_piece_are_neighbours_in_space(found: Trajectories) -> None:
    """25 steps move each coordinate by 0.3 rad on average, where it is flat."""
    steps = np.concatenate([np.linalg.norm(np.diff(found.features[piece], axis=0), axis=1) for piece in found.pieces])
    assert steps.max() < 1.6


def test_several_runs_are_one_analysis(job: Job, found: Trajectories) -> None:
    run = RunDirectory(Path(job.run))
    twice = read([run, run], "z")
    assert (len(twice.features), len(twice.pieces)) == (2 * len(found.features), 2 * len(found.pieces))
    with pytest.raises(UnknownName):
        read([run], "y")


def test_runs_whose_frames_are_not_equally_far_apart_are_refused(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    run, one, factors = RunDirectory(Path(job.run)), trajectories._one, iter((1, 2))

    def slower(*given: Any) -> Any:
        *all_but_steps, steps = one(*given)
        return *all_but_steps, steps * next(factors)

    monkeypatch.setattr(trajectories, "_one", slower)
    with pytest.raises(UnevenFrames) as told:
        read([run, run], "z")
    assert [told.value.shortest, told.value.longest] == pytest.approx([0.05, 0.1])


def test_analyse_writes_a_page_a_figure_and_json_and_the_report_shows_them(job: Job) -> None:
    words = ["analyse", job.run, "--of", "z", "--states", "8", "--json"]
    done = subprocess.run([sys.executable, "-m", "steersman.cli", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    run = RunDirectory(Path(job.run))
    assert said == json.loads((run.analysis / "analysis.json").read_text())
    assert {file.suffix for file in run.analysis.iterdir()} == {".json", ".png", ".svg", ".html"}
    report = run.report.read_text()
    assert all(words in report for row in said["report"]["rows"] for words in row)
    assert verify(run) == []


def test_a_workflow_without_a_yardstick_is_judged_in_the_latent_space_of_one_model(
    job: Job, wells: Workflow, tmp_path: Path
) -> None:
    """All runs by the same model and the same cells: those of the run that trained it, and beyond them further ones."""
    file = tmp_path / "double_well.py"
    double_well = loading.load(loading.shipped()["double_well"])
    file.write_bytes(variant(loading.shipped()["double_well"], Arm(""), {"frames": 600.0}))
    runs = [
        Job(str(tmp_path / f"seed-{seed}"), str(file), seed, ("train_every=300",), None, "laptop", 1, False)
        for seed in range(2)
    ]
    run_all(runs, beside=2)
    directories = [RunDirectory(Path(each.run)) for each in runs]
    yardstick = yardstick_of(directories[0], double_well)
    double_well.yardsticks["cells"] = yardstick
    measured = collect(Arm(PLAIN), dict(enumerate(directory.path for directory in directories)), double_well)
    model: Any = Results(directories[0], History(directories[0]).state).model
    assert model is not None
    for directory, curve in zip(directories, measured.curves["cells"], strict=True):
        position = np.concatenate([directory.frames.read("position", span) for span in directory.frames.spans()])
        cells = yardstick.function(double_well.params(), {"position": position})
        z = model.encode(position)[0]
        assert curve.value[-1] == len(np.unique(cells))
        assert (np.diff(cells[np.argsort(z[:, 0])].ravel()) >= 0).all(), "cells are in the order of the latent space"
    with pytest.raises(BadInput):
        yardstick_of(RunDirectory(Path(job.run)), wells)  # it has no model
    is_followed_from_the_first_model_to_the_last(History(directories[0]))


def is_followed_from_the_first_model_to_the_last(history: History) -> None:
    """Against the time simulated when it was computed; the last value says what all frames were good for."""
    name, series = next(iter(history.metrics.items()))
    found = follow(history, name)
    assert found.value[-1] == series[-1, 1]
    assert set(found.value[~np.isnan(found.value)]) <= set(series[:, 1])
    first = int(np.isnan(found.value).sum())
    assert 0 < first < len(found.value)
    assert np.isnan(found.value[:first]).all()
    assert (np.diff(found.spent) > 0).all()
    assert np.isnan(follow(history, "nobody computed").value).all()
