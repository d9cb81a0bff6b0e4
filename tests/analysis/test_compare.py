"""One campaign of the six wells, measured and analysed: a yardstick is a function of frames, and comparing goes on."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from steersman.analysis import trajectories
from steersman.analysis.comparison import campaigns
from steersman.analysis.comparison.arms import PLAIN, Arm, budget_of, variant
from steersman.analysis.comparison.campaigns import Job, run_all
from steersman.analysis.comparison.files import write_variant
from steersman.analysis.comparison.latent import yardstick_of
from steersman.analysis.comparison.tables import table, write
from steersman.analysis.comparison.verdicts import ONE_RUN, Runs, collect, rows
from steersman.analysis.trajectories import Trajectories, read
from steersman.apps import six_wells
from steersman.cli.__main__ import app
from steersman.dashboard.figures import contributed, drawn
from steersman.data.history import History
from steersman.data.results import Results
from steersman.data.verify import verify
from steersman.data.yardsticks import follow
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.stages.workflow import Workflow
from steersman.steering import LocalOutlierFactor, Steering
from steersman.system.errors import BadInput, BadValue, EngineError, UnknownName
from tests.dashboard.kept import kept

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
    made = Job(str(folder / "seed-0"), str(folder / "arm.py"), 0, ("steps=250",), None, {"workers": 2, "rounds": True})
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
    return Job(str(folder / "seed-0"), str(file), 0, (), None, {"workers": 1})


def test_a_variant_imports_what_lies_beside_its_workflow_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = toy(Path(), "def step(seed): return seed % 7")
    run_all([job], beside=1)
    assert job.finished


def test_a_campaign_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no steps today"):
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
    assert [Path(job.workflow).stem for job in asked[::3]] == [Arm('Novelty("z")').slug] * 2
    for other in (["--set", "steps=250"], ["--rounds"], ["--budget", "frames=300"]):
        refused = CliRunner().invoke(app, [*words, *other])
        assert isinstance(refused.exception, BadValue), "its runs are not mixed with those of other settings"


@pytest.mark.parametrize("policy", ['Novelty("q")', 'Novelty("z"), prune=Redundant("q")'])
def test_a_score_that_is_not_there_is_refused_before_any_campaign(policy: str, wells: Workflow, tmp_path: Path) -> None:
    with pytest.raises(BadValue) as told:
        app(["compare", str(WELLS), "--policy", policy, "--out", str(tmp_path)], standalone_mode=False)
    assert told.value.value == policy
    assert "'q'" in told.value.problem
    assert "far, z" in told.value.problem
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
    assert 0 < sum(runs.own) < sum(runs.starts), "the first start is the prepared one"


def test_an_arm_like_plain_sampling_shows_no_difference(job: Job, wells: Workflow, tmp_path: Path) -> None:
    def of(arm: Arm) -> Runs:
        return collect(arm, {0: Path(job.run), 1: Path(job.run)}, wells)

    plain, same = of(Arm(PLAIN)), of(Arm("Random()"))
    assert {row.verdict for row in rows(plain, same, wells.yardsticks)} == {ONE_RUN}, "the same frames twice"
    plain.first.clear()
    found = [(row, runs) for runs in (plain, same) for row in rows(plain, runs, wells.yardsticks)]
    assert [row.verdict for row, _ in found[2:]] == ["no difference shown, by only 2 seeds"] * 2
    written = write(tmp_path, [plain, same], found)
    assert {path.name for path in tmp_path.iterdir()} == {"comparison.json", "table.md", "runs.csv", "figure.png"}
    assert len(written["rows"]) == 4
    assert table(found).count("no difference shown") == 2


def test_the_report_draws_what_compare_measures(job: Job) -> None:
    history = History(RunDirectory(Path(job.run)))
    title, draw = contributed(history)["yardsticks"]
    figure, caption = drawn(draw, history)
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
    with pytest.raises(BadInput) as told:
        read([run, run], "z")
    assert [told.value.values["shortest"], told.value.values["longest"]] == pytest.approx([0.05, 0.1])


def test_analyse_writes_a_page_a_figure_and_json_and_the_report_shows_them(job: Job) -> None:
    words = ["analyse", job.run, "--of", "z", "--states", "8", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    run = RunDirectory(Path(job.run))
    assert said == json.loads((run.analysis / "analysis.json").read_text())
    assert {file.suffix for file in run.analysis.iterdir()} == {".json", ".png", ".svg", ".html"}
    assert kept(run)["equilibrium"]["rows"] == said["report"]["rows"]
    assert verify(run) == []


def test_a_workflow_without_a_yardstick_is_judged_in_the_latent_space_of_one_model(
    job: Job, wells: Workflow, tmp_path: Path
) -> None:
    """All runs by the same model and the same cells: those of the run that trained it, and beyond them further ones."""
    file = tmp_path / "double_well.py"
    double_well = loading.load(loading.shipped()["double_well"])
    file.write_bytes(variant(loading.shipped()["double_well"], Arm(""), {"frames": 600.0}))
    runs = [
        Job(str(tmp_path / f"seed-{seed}"), str(file), seed, ("train_every=300",), None, {"workers": 1, "rounds": True})
        for seed in range(2)
    ]
    run_all(runs, beside=2)
    directories = [RunDirectory(Path(each.run)) for each in runs]
    yardstick = yardstick_of(directories[0], double_well)
    double_well.yardsticks["cells"] = yardstick
    measured = collect(Arm(PLAIN), dict(enumerate(directory.path for directory in directories)), double_well)
    model: Any = Results(History(directories[0])).model
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
