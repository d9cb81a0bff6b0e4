"""A weighted ensemble through the engine: more members than slots, and weights that sum to 1 whatever happens."""

import json
import shutil
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from steersman.analysis.answer import by_weights
from steersman.analysis.comparison.arms import Arm, variant
from steersman.analysis.comparison.campaigns import Job, run_all
from steersman.analysis.trajectories import read
from steersman.apps import six_wells
from steersman.data.history import History
from steersman.data.repair import ends, repair
from steersman.data.replay import replay
from steersman.data.verify import verify
from steersman.journal import file as journal
from steersman.journal import published
from steersman.journal.modes.ensemble import Ensemble
from steersman.journal.records import Start
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.steering import Scores
from steersman.steering.weighted_ensemble import arrivals, averages
from steersman.store import Window
from steersman.store.lineages import Lineages

pytestmark = pytest.mark.slow
WELLS = Path(loading.__file__).parents[1] / "workflows" / "reference" / "wells.py"
SLOTS, STEPS, FRAMES = 2, 250, 10


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    folder = tmp_path_factory.mktemp("weighted")
    arm = Arm('WeightedEnsemble("cell", members=3, target="far")')
    loading.load(WELLS)
    (folder / "arm.py").write_bytes(variant(WELLS, arm, {"frames": 2000.0}))
    job = Job(str(folder / "run"), str(folder / "arm.py"), 0, (f"steps={STEPS}",), None, {"workers": SLOTS})
    run_all([job], beside=1)
    return RunDirectory(Path(job.run))


@pytest.fixture(scope="module")
def rounds(ran: RunDirectory) -> list[list[Start]]:
    starts = list(journal.read(ran.journal, Start))
    return [list(each) for _, each in groupby(starts, key=lambda start: start.round)]


@pytest.fixture(scope="module")
def scores(ran: RunDirectory) -> Scores:
    return History(ran).scores


def test_weights_sum_to_1_in_every_round_and_members_are_more_than_slots(rounds: list[list[Start]]) -> None:
    assert [each[0].round for each in rounds] == list(range(1, len(rounds) + 1))
    assert [sum(start.weight for start in each) for each in rounds] == pytest.approx([1.0] * len(rounds), abs=1e-12)
    assert max(len(each) for each in rounds) > 5 * SLOTS
    assert all(start.exact for each in rounds for start in each if start.parent)


def test_a_round_begins_when_all_of_the_one_before_has_ended(ran: RunDirectory) -> None:
    open_ = 0
    state = State()
    for record in journal.read(ran.journal):
        if isinstance(record, Start) and record.round != (
            state.mode(Ensemble).rounds[-1] if state.mode(Ensemble).rounds else 0
        ):
            assert not state.starts
            open_ += 1
        state.apply(record)
    assert open_ > 5


def test_each_frame_has_the_weight_of_its_member(scores: Scores, rounds: list[list[Start]]) -> None:
    assert len(scores) == FRAMES * sum(len(each) for each in rounds)
    total = np.bincount(scores.round, weights=scores.weight)[1:]
    np.testing.assert_allclose(total, FRAMES)
    np.testing.assert_allclose(averages(scores, np.ones(len(scores))), 1)
    assert arrivals(scores, scores.values["far"] > 0).shape == (2, len(rounds))


def test_a_training_gets_the_weights_and_joins_members_over_their_ends(
    ran: RunDirectory, rounds: list[list[Start]]
) -> None:
    state, starts = History(ran).state, [start for each in rounds for start in each]
    spans = published.spans(state)
    assert [span.weight for span in spans] == pytest.approx([start.weight for start in starts])
    window = Window(ran.frames, spans)
    before = Lineages(window.frames, window.spans).before
    parents = [start.parent and (start.parent.walker, start.parent.row) for start in starts]
    ends = [(int(span.walker[1:]), span.end - 1) for span in spans]
    assert [ends[at] if at >= 0 else None for at in before.tolist()] == parents
    pairs = window.lagged(1) // FRAMES  # these segments leave no state: nobody knows that a frame is all there is
    assert (pairs[:, 0] == pairs[:, 1]).all()
    assert not published.spans(State())


def test_an_ensemble_whose_newest_round_was_damaged_is_said_not_to_go_on(ran: RunDirectory, tmp_path: Path) -> None:
    copy = RunDirectory(shutil.copytree(ran.path, tmp_path / "copy"))
    assert not ends(copy)
    next(iter(sorted((copy.path / "frames.zarr").glob("*/time/c/*"))[-1:])).unlink()
    repair(copy, verify(copy))
    assert ends(copy)


def test_what_was_decided_is_decided_again(ran: RunDirectory, rounds: list[list[Start]]) -> None:
    found = replay(ran, loading.load(ran.workflow))
    assert (found["decisions"], found["different"]) == (sum(len(each) for each in rounds), [])
    line = json.loads(ran.decisions.read_text().splitlines()[-1])
    assert line["reason"].startswith("goes on with weight")


def test_analyse_reads_the_weights(ran: RunDirectory, scores: Scores) -> None:
    found = read([ran], "z")
    assert found.members is not None
    assert len(found.members) == len(found.features) == len(scores)
    angles = np.arctan2(found.features[:, 2:], found.features[:, :2])
    np.testing.assert_array_equal(six_wells.grid_cells(angles, 8), found.members.values["cell"])
    said = by_weights(found, History(ran).steering(loading.load(ran.workflow)).policy)
    assert "too few" in said["weighted"]["problem"], "a dozen rounds are not an answer"
