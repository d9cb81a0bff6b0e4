"""One campaign of the six wells, measured: the yardstick is a function of stored frames, and comparing goes on."""

from pathlib import Path

import numpy as np
import pytest

from steersman.apps import six_wells
from steersman.compare.arms import PLAIN, Arm, arms, budget_of, variant
from steersman.compare.campaigns import Job, run_all
from steersman.compare.comparison import Runs, collect, rows
from steersman.compare.write import table, write
from steersman.dashboard.figures import contributed
from steersman.dashboard.yardsticks import amount
from steersman.journal.history import History
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.stages.workflow import Workflow, Yardstick
from steersman.steering import LocalOutlierFactor, Novelty, Random, Steering
from steersman.steering.expression import parse_steering
from steersman.system.errors import BadInput

WELLS = Path(loading.__file__).parents[1] / "workflows" / "reference" / "wells.py"


@pytest.fixture(scope="module")
def wells() -> Workflow:
    return loading.load(WELLS)


@pytest.fixture(scope="module")
def job(wells: Workflow, tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("compared")
    arm = Arm('LocalOutlierFactor("z", neighbours=5), explore=0.25')
    (folder / "arm.py").write_text(variant(WELLS, arm, budget_of("frames=300")))
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


def test_a_yardstick_counts_what_the_frames_hold(job: Job, wells: Workflow) -> None:
    runs = collect(Arm(PLAIN), {0: Path(job.run)}, wells)
    frames = RunDirectory(Path(job.run)).frames
    angles = np.concatenate([frames.read("angles", span) for span in frames.spans()])
    visited = set(six_wells.cells(angles).tolist()) - {-1}
    assert runs.curves["cells"][0].value[-1] == len(visited)
    assert (np.diff(runs.curves["cells"][0].value) >= 0).all()
    assert runs.curves["cells"][0].spent[-1] == pytest.approx(len(angles) * 0.05)
    assert runs.cost["simulation"] > 0


def test_an_arm_like_plain_sampling_shows_no_difference(job: Job, wells: Workflow, tmp_path: Path) -> None:
    def of(arm: Arm) -> Runs:
        return collect(arm, {0: Path(job.run), 1: Path(job.run)}, wells)

    plain, same = of(Arm(PLAIN)), of(Arm("Random()"))
    found = [(row, runs) for runs in (plain, same) for row in rows(plain, runs, wells)]
    assert [row.verdict for row, _ in found[2:]] == ["no difference shown"] * 2
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


def test_rows_are_distinct_as_a_whole_and_what_is_below_0_is_in_no_cell() -> None:
    distinct = Yardstick(lambda p, f: f["x"])
    assert amount(np.array([[0, 1], [1, 0], [0, 1]], bool), distinct).tolist() == [1, 2, 2]
    assert amount(np.array([-1, 4, -1, 4]), distinct).tolist() == [0, 1, 1, 1]


def test_plain_and_random_are_always_in_and_parameters_vary_with_each(wells: Workflow) -> None:
    found = arms(wells, ['Novelty("z"), explore=0.2', 'Target("z")'], {"steps": ["100", "500"]})
    assert len(found) == 2 * 4
    assert [arm.steer for arm in found[:2]] == ["Unsteered()", "Random(), fallback=Random()"]
    assert [arm.guided for arm in found[:4]] == [False, False, False, True]
    assert len({arm.slug for arm in found}) == 8


def test_steering_is_written_as_in_a_workflow_file() -> None:
    assert parse_steering('Novelty("z"), explore=0.2, fallback=Random()') == Steering(Novelty("z"), 0.2, Random())
    for wrong in ("Novelty", "3", "Nowhere()", 'Novelty("z"), explore=2', "__import__('os')"):
        with pytest.raises(BadInput):
            parse_steering(wrong)


def test_a_budget_that_is_none_is_refused() -> None:
    assert budget_of("sim_ns=0.5") == {"sim_ns": 0.5}
    for wrong in ("sim_ns", "frames=x", "nights=3", "frames=0"):
        with pytest.raises(BadInput):
            budget_of(wrong)


def test_the_report_draws_what_compare_measures(job: Job) -> None:
    history = History(RunDirectory(Path(job.run)))
    title, draw = contributed(history)["yardsticks"]
    figure, caption = draw(history)
    assert title == "What was reached"
    assert [axes.get_ylabel() for axes in figure.axes] == ["wells", "cells"]
    assert "cells" in caption
