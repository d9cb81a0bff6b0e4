"""Recorded decisions taken again, and segments traced back to the prepared start."""

import hashlib
import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from steersman import open_run
from steersman.data.history import History
from steersman.data.replay import lines, replay
from steersman.data.why import tree
from steersman.journal import file as journal
from steersman.journal.records import Began, Start
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.steering import Candidate, Novelty, Policy, Random, Scores, Steering, WeightedEnsemble
from steersman.system.errors import BadInput
from tests.engine.conftest import finished, started, steersman
from tests.outside import installed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=["asynchronous", "rounds"])
def steered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Parameters that its policy depends on are changed in its middle."""
    cwd = tmp_path_factory.mktemp("steered")
    text = (
        (loading.SHIPPED / "double_well.py")
        .read_text()
        .replace("class DoubleWell(Params):", "class DoubleWell(Params):\n    bins: int = 20")
    )
    (cwd / "wells.py").write_text(text.replace('wf.steer(Novelty("z")', 'wf.steer(lambda p: Novelty("z", bins=p.bins)'))
    words = ["run", "wells.py", "--set", "frames=100000000", "--set", "train_every=500", "--set", "barrier_kT=30",
             "--seed", 5, "--run-dir", cwd / "run"]  # fmt: skip
    driver = started(*words, *(["--rounds"] if request.param == "rounds" else []), cwd=cwd)
    said: list[str] = []

    def enough(state: State) -> bool:
        chosen = state.chosen["Novelty"]
        if chosen > 2 and not said:
            said.append(open_run(cwd / "run").tell("set", {"bins": 2}))
        return chosen > 10

    finished(driver, cwd / "run", until=enough)
    return RunDirectory(cwd / "run")


def test_the_own_policy_decides_again_as_it_did(steered: RunDirectory) -> None:
    told = replay(steered, loading.load(steered.workflow))
    starts = [r for r in journal.read(steered.journal, Start) if r.again is None]
    assert told["decisions"] == len(starts) > 10
    assert told["different"] == []
    assert told["kept"] == sum(record.policy == "explore" for record in starts)
    assert {bool(record.set) for record in starts if record.policy == "Novelty"} == {False, True}


def test_a_run_cut_off_anywhere_decides_again_as_it_did(steered: RunDirectory, tmp_path: Path) -> None:
    cut = RunDirectory(shutil.copytree(steered.path, tmp_path / "cut"))
    lines = steered.journal.read_text().splitlines(keepends=True)
    kinds = [json.loads(line)["kind"] for line in lines]
    for end in (kinds.index("scored"), len(lines) // 2):  # the first: a model was never there
        cut.journal.write_text("".join(lines[:end]))
        told = replay(cut, loading.load(cut.workflow))
        assert told["decisions"] > 1
        assert told["different"] == []


def test_another_policy_chooses_otherwise_and_is_labelled(
    steered: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is of another package."""
    monkeypatch.setenv("PYTHONPATH", str(installed(tmp_path)))
    size = steered.journal.stat().st_size
    words = 'Target("x", 1.0) | Newest("x"), explore=0.5, fallback=Random()'
    done = steersman("replay", steered.path, "--policy", words, "--json", cwd=steered.path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["label"] == "off-policy"
    assert told["same"] + told["kept"] + len(told["different"]) == told["decisions"]
    assert {each["chosen"]["policy"] for each in told["different"]} == {"Newest", "Random", "Target"}
    text = steersman("replay", steered.path, "--policy", 'Target("x", 1.0)', cwd=steered.path).stdout
    assert "off-policy" in text
    assert "from the reference" in text
    assert steered.journal.stat().st_size == size, "a replay changes nothing"


class Broken(Policy):
    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        raise ValueError("no idea")


def test_a_policy_that_fails_is_told_with_what_its_fallback_chose(steered: RunDirectory) -> None:
    told = replay(steered, loading.load(steered.workflow), Steering(Broken(), fallback=Random()))
    at_first = 4  # starts at most, before there are frames to choose from
    assert 0 <= told["decisions"] - told["kept"] - told["failed"]["ValueError: no idea"] <= at_first
    assert any("ValueError: no idea" in line for line in lines(told))


@pytest.mark.parametrize(
    ("policy", "lacks"), [(Novelty("rmsd"), "recorded are: error, x, z"), (WeightedEnsemble("x", (0.0,)), "rounds")]
)
def test_a_policy_that_needs_what_the_run_lacks_is_refused(steered: RunDirectory, policy: Policy, lacks: str) -> None:
    with pytest.raises(BadInput, match=lacks):
        replay(steered, loading.load(steered.workflow), Steering(policy))


def test_a_segment_is_traced_to_the_prepared_start(steered: RunDirectory) -> None:
    starts = {record.start: record for record in journal.read(steered.journal, Start)}
    began = {f"w{r.walker}.{r.segment}": starts[r.start] for r in journal.read(steered.journal, Began)}
    history = History(steered)
    segments = history.segments
    name = segments.name(max(range(len(segments)), key=lambda i: len(segments.lineage(i))))
    told = tree(history, name)
    chain = told["segments"]
    assert [chain[0]["segment"], chain[-1]["parent"]] == [name, None]
    assert len(chain) > 2
    for child, parent in pairwise(chain):
        assert child["parent"]["segment"] == parent["segment"]
    assert all(each["seed"] == began[each["segment"]].seed for each in chain)
    assert told["workflow"] == hashlib.sha256((steered.path / "workflow.py").read_bytes()).hexdigest()
    taken = {each[name] for each in chain for name in ("model", "with_model")}
    assert [model["version"] for model in told["models"]] == sorted(taken - {0})
    assert all(model["frames"] for model in told["models"])
    assert told["environment"]["packages"]["numpy"]
    lines = steersman("why", steered.path, name, "--tree", cwd=steered.path).stdout.splitlines()
    assert [line.split()[0] for line in lines[: len(chain)]] == [each["segment"] for each in chain]
    assert "the prepared start" in lines[len(chain) - 1]
    assert " by prepared" not in lines[len(chain) - 1]
    assert steersman("why", steered.path, "w99.0", "--tree", cwd=Path(steered.path)).returncode == 2
