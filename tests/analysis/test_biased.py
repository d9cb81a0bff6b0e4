"""A biased run, written with the real journal and the real store: which frames count, what they say, what is drawn."""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import steersman
from steersman.analysis import biased
from steersman.cli.__main__ import main
from steersman.dashboard import free_energy, style
from steersman.data.errors import DamagedPart
from steersman.data.history import History
from steersman.data.reweighing import lineages
from steersman.data.segment_table import SegmentTable
from steersman.data.unbiased import FewPassages
from steersman.data.why import why
from steersman.executors import site_files
from steersman.journal import records, run_directory
from steersman.journal.file import Journal
from steersman.journal.modes.biases import Biases, file_of, read
from steersman.journal.records import FrameId
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.steering import Opes, Scores
from steersman.steering.opes import ENERGY, HOT
from steersman.steering.reweighting import weights
from steersman.store import FRAME, SEGMENT, SEGMENT_FIELDS, GroupWriter
from steersman.system.errors import BadInput, DamagedFile
from steersman.worker import tasks
from tests.steering.test_reweighting import GRID, U, drawn

WALKERS, SEGMENTS, FRAMES = 2, 24, 50
HOT_ONES = 0, 8  # segments of each walker at another temperature
PLAIN, OF_MODEL_1 = 2, 6  # segments of each walker without a bias, and before model 2
FAILED = 12  # a segment of walker 1, in whose place the next one goes on from where it began
SOFT = 20  # a segment of walker 0 whose frames had half of the energy
FILE = """
import numpy as np
from steersman import Workflow, budget
from steersman.steering import Opes

wf = Workflow("pushed", stop=budget(frames=9))

@wf.simulate()
def segment(p, start, out): out.append(z=0.0)

@wf.score()
def place(p, model, frames): return {"z": frames["z"], "bias": frames["bias"]}

wf.steer(bias=Opes("z", barrier_kT=14))

@wf.yardstick()
def well(p, frames): return (frames["z"] > 0).astype(int)

@wf.yardstick()
def square(p, frames): return frames["z"].astype(float) ** 2
"""


def written(path: Path, *, unit: float = 1.0) -> RunDirectory:
    """A run whose frames are drawn from the biased equilibrium of every segment.

    Args:
        unit: of the stored energy; other than 1, the workflow file is wrong.
    """
    directory = run_directory.create(path.parent, "pushed", path)
    (path / "pushed.py").write_text(FILE)
    site = site_files.load_site("laptop").model_dump(mode="json")
    settings = {"workflow": "pushed", "seed": 1, "rounds": False, "params": {}, "site": site}
    run_directory.write_settings(directory, settings, path / "pushed.py")
    journal, rng, opes = Journal(directory.journal), np.random.default_rng(0), Opes("z", barrier_kT=14)
    journal.append(records.Run(workflow="pushed", seed=1, slots=2), records.Session(host="here", pid=1))
    journal.append(*(records.Hired(walker=walker, slot=walker) for walker in range(WALKERS)))
    writers = [GroupWriter(directory.frames.path / f"w{walker}") for walker in range(WALKERS)]
    biases, energies = [], [np.zeros(len(GRID))]
    z, felt, by = (np.empty((WALKERS, 0)) for _ in range(3))
    for number in range(SEGMENTS):
        model = 0 if number < PLAIN else 1 if number < OF_MODEL_1 else 2
        if number in (PLAIN, OF_MODEL_1):
            journal.append(records.Training(model=model, frames=z.size))
            journal.append(records.Trained(model=model, accepted=True, reason="new", frames=z.size))
        if model and number % 2 == 0:
            row = np.arange(z.size)
            scores = Scores(
                row * 0, row, row // FRAMES, row, row, {"z": z.ravel(), ENERGY: felt.ravel(), HOT: _hot(z)}, model,
                biased_by=by.ravel().astype(int),
            )  # fmt: skip
            biases.append(opes.made(scores))
            energies.append(biases[-1].energy(GRID))
            file_of(directory, len(biases)).parent.mkdir(exist_ok=True)
            file_of(directory, len(biases)).write_bytes(biases[-1].to_bytes())
            sha256 = run_directory.sha256(file_of(directory, len(biases)))
            journal.append(records.Biased(bias=len(biases), model=model, frames=z.size, sha256=sha256))
        nodes = drawn(U + energies[-1], WALKERS * FRAMES, rng).reshape(WALKERS, FRAMES)
        share = np.where((np.arange(WALKERS) == 0) & (number == SOFT), 0.5, 1.0)[:, None]
        z, felt = np.hstack([z, GRID[nodes]]), np.hstack([felt, share * energies[-1][nodes]])
        by = np.hstack([by, np.full((WALKERS, FRAMES), model)])
        for walker, writer in enumerate(writers):
            start = WALKERS * number + walker
            before = number - 2 if (walker, number) == (1, FAILED + 1) else number - 1
            parent = FrameId(walker, (before + 1) * FRAMES - 1, before) if number else None
            how = "failed" if (walker, number) == (1, FAILED) else "finished"
            span: dict[str, Any] = {"walker": walker, "segment": number, "start": start, "first_row": number * FRAMES}
            journal.append(records.Start(
                start=start, seed=start, slot=walker, parent=parent, policy="Unsteered", exact=True, with_model=model,
                bias=len(biases),
            ))  # fmt: skip
            journal.append(records.Began(**span))
            journal.append(records.Ended(**span, end_row=(number + 1) * FRAMES, how=how, simulated=1.0))
            for i in range(-FRAMES, 0):
                frame = {"time": (FRAMES + i) * 0.02, "z": z[walker, i], "bias": felt[walker, i] * unit}
                stored = {name: np.float64(value) for name, value in frame.items()}
                writer.append(FRAME, {**stored, "segment": np.int32(number), HOT: np.bool_(number in HOT_ONES)})
            table = dict.fromkeys(SEGMENT_FIELDS, -1) | {"number": number, "start": start}
            writer.append(SEGMENT, {"segments": np.array(list(table.values()))})
    for walker, writer in enumerate(writers):
        rows = writer.publish()
        journal.append(records.Published(walker=walker, frames=rows[FRAME], segments=rows[SEGMENT]))
    scored = GroupWriter(directory.scores / "0002", attributes={"model": 2})
    walkers, rows_of = (each.ravel() for each in np.indices(z.shape))
    values: dict[str, Any] = {"z": z.ravel(), "other": rng.normal(size=z.size), "bias": felt.ravel() * unit}
    values |= {"right": z.ravel() > 0, HOT: _hot(z)}
    scored.extend(FRAME, {"walker": walkers.astype(np.int32), "row": rows_of.astype(np.int64), **values})
    scored.close()
    journal.append(records.Scored(model=2, frames=z.size), records.End(outcome="budget", reason="spent"))
    journal.close()
    return directory


def _hot(z: np.ndarray) -> np.ndarray:
    """Of frames in order of walkers and of time, which are hot."""
    return np.broadcast_to(np.isin(np.arange(z.shape[1]) // FRAMES, HOT_ONES), z.shape).ravel()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return written(tmp_path_factory.mktemp("runs") / "pushed-0001")


@pytest.fixture
def run(directory: RunDirectory) -> steersman.Run:
    return steersman.open_run(directory.path)


def test_frames_count_that_the_newest_model_biased_with_the_energy_that_they_say(run: steersman.Run) -> None:
    scores, unbiased = run.scores, run.unbiased
    number = scores["segment"].astype(str).str.split(".").str[1].astype(int)
    counts = (number >= OF_MODEL_1) & ~((scores["walker"] == 0) & (number == SOFT))
    counts &= ~((scores["walker"] == 1) & (number == FAILED)) & ~number.isin(HOT_ONES)
    behind = counts.groupby(scores["walker"]).cumsum() > counts.groupby(scores["walker"]).transform("sum") // 5
    assert ((scores["weight"] > 0) == (counts & behind)).all(), "each lineage without its first fifth"
    assert scores["weight"].sum() == pytest.approx(1)
    assert unbiased.weights.odd == FRAMES
    assert len(unbiased.weights) == (counts & behind).sum()
    assert list(scores)[-1] == "weight"


def test_hot_frames_are_named_and_are_no_state(directory: RunDirectory) -> None:
    history = History(directory)
    assert [why(history, f"w1.{number}")["hot"] for number in (0, 1, 2)] == [FRAMES, 0, 0]
    with style.applied():
        _, caption = free_energy.draw(history)
    assert ("right:" in caption, "hot:" in caption) == (True, False)


def test_weights_are_those_of_the_versions_in_the_directory(run: steersman.Run, directory: RunDirectory) -> None:
    scores = run.scores
    used = scores[scores["weight"] > 0]
    number = used["segment"].astype(str).str.split(".").str[1].astype(int).to_numpy()
    version, z = 1 + (number - PLAIN) // 2, used["z"].to_numpy()
    biases = {k: steersman.steering.Bias.from_bytes(file_of(directory, k).read_bytes()) for k in np.unique(version)}
    truth = weights(version, lambda k, some: biases[k].energy(z[some]))
    np.testing.assert_allclose(used["weight"], truth, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::steersman.data.errors.DamagedPart")  # `run.scores` has no weights
@pytest.mark.parametrize("way", ["another", "a pipe", "a link"])
def test_a_version_of_the_bias_that_is_not_the_runs_is_not_used(
    way: str, directory: RunDirectory, tmp_path: Path
) -> None:
    """By those who look, by the driver and by a walker; whoever wrote it."""
    copy, outside = RunDirectory(tmp_path / "run"), tmp_path / "outside.npz"
    shutil.copytree(directory.path, copy.path)
    newest = History(copy).state.mode(Biases).versions[-1]
    file = file_of(copy, newest.bias)
    file.replace(outside)
    if way == "another":
        shutil.copyfile(file_of(copy, newest.bias - 1), file)
    elif way == "a pipe":
        os.mkfifo(file)
    else:
        file.symlink_to(outside)
    start = records.Start(start=0, seed=0, bias=newest.bias, bias_sha256=newest.sha256)
    for look in (
        lambda: steersman.open_run(copy.path).unbiased.weights,
        lambda: free_energy.draw(History(copy)),
        lambda: read(copy, newest.bias, newest.sha256),
        lambda: tasks.learned(str(copy.path), start),
    ):
        with pytest.raises(DamagedFile):
            look()


def test_the_report_says_of_weights_and_states_what_analyse_says(run: steersman.Run, directory: RunDirectory) -> None:
    with style.applied():
        figure, caption = free_energy.draw(History(directory))
    weights = run.unbiased.weights
    assert f"{len(weights):,} frames are worth {weights.effective:,.0f}" in caption
    found = run.unbiased.difference("z > 0", "z < 0")
    assert f"right: {found.value:.1f} kT ({found.low:.1f} to {found.high:.1f})" in caption
    assert len(figure.axes) == 3, "no control"


def test_lineages_go_on_where_a_segment_ended(run: steersman.Run) -> None:
    found, scores = run.unbiased.weights, run.scores
    walker, row = scores["walker"].to_numpy()[found.order], scores["row"].to_numpy()[found.order]
    assert len(np.unique(found.lineage)) == WALKERS
    assert (np.diff(walker[np.argsort(found.lineage, kind="stable")]) != 0).sum() == WALKERS - 1
    assert all((np.diff(row[found.lineage == each]) > 0).all() for each in np.unique(found.lineage))


def test_a_walker_that_died_before_its_first_frame_ends_no_lineage(directory: RunDirectory) -> None:
    """Another one begins where it began: the first fifth is that of one lineage, and passages are not cut in two."""
    table = History(directory).segments
    known = {each.name: getattr(table, each.name) for each in fields(table) if each.name != "given"}
    at = int(np.flatnonzero(table.parent >= 0)[4])
    lost = {name: np.insert(column, at, column[at]) for name, column in known.items()}
    lost["parent"] = np.where(lost["parent"] >= at, lost["parent"] + 1, lost["parent"])
    lost["how"][at], lost["end"][at] = "lost", lost["first"][at]
    found = np.delete(lineages(SegmentTable(**lost, given={})), at)
    same = [np.unique(each, return_inverse=True)[1].tolist() for each in (found, lineages(table))]
    assert same[0] == same[1]


def test_states_and_quantities_are_columns_variables_expressions_and_arrays(run: steersman.Run) -> None:
    unbiased, chance = run.unbiased, np.exp(-U) / np.exp(-U).sum()
    right = chance[GRID > 0].sum()
    found = unbiased.difference("z > 0", "z < 0")
    assert found.low < np.log((1 - right) / right) < found.high
    z = run.scores["z"].to_numpy()
    assert unbiased.difference(z > 0, z < 0) == found
    assert unbiased.average("0 < z < 9").value == pytest.approx(right, abs=0.05)
    assert unbiased.average("z") == unbiased.average(z)
    assert unbiased.average("time").value == pytest.approx(12, abs=8), "a column before it is a stored variable"
    along = unbiased.free_energy("z", bins=20)
    assert (along.index.name, list(along)) == ("z", ["free_energy", "low", "high"])
    assert along["free_energy"].min() == 0
    assert unbiased.free_energy("z", "other", bins=8)["free_energy"].unstack().shape == (8, 8)
    for wrong in ("z >", "nope < 1", "segment", np.zeros(3)):
        with pytest.raises(BadInput):
            unbiased.average(wrong)
    with pytest.raises(BadInput):
        unbiased.difference("z", "z < 0")


def test_an_energy_in_another_unit_is_not_used(tmp_path: Path) -> None:
    opened = steersman.open_run(written(tmp_path / "pushed-0001", unit=2.494).path)
    with pytest.warns(DamagedPart):
        assert "weight" not in opened.scores


def test_analyse_says_what_the_weights_say(run: steersman.Run, directory: RunDirectory) -> None:
    workflow = loading.load(directory.workflow)
    said = biased.answer(run.unbiased, workflow, ["z < 0", "z > 0"])
    assert said["frames"] == WALKERS * SEGMENTS * FRAMES
    assert said["counted"] == 0.8 * (WALKERS * (SEGMENTS - OF_MODEL_1) * FRAMES - 4 * FRAMES)
    found = run.unbiased.difference("z > 0", "z < 0")
    assert said["free_energies"] == {"z > 0 above z < 0": [found.value, found.low, found.high]}
    assert said["populations"]["well = 1"] == said["populations"]["z > 0"]
    square = run.unbiased.average(run.scores["z"].to_numpy() ** 2)
    assert said["averages"]["square"] == [square.value, square.low, square.high]
    assert [note.split()[0] for note in said["notes"]] == [str(FRAMES)], "the soft segment"
    assert biased.lines(said)[-1] == biased.SUPPORTED
    alone = biased.answer(run.unbiased, workflow, ["z > 0"])["free_energies"]
    assert list(alone.values()) == list(said["free_energies"].values())


def test_states_that_were_seldom_entered_and_collapsed_weights_are_said(run: steersman.Run) -> None:
    unbiased = run.unbiased
    problems = list(biased._problems(unbiased, [{"far": unbiased.state("z > 1.25")}]))
    assert any(problem.startswith("Few passages: far") for problem in problems)
    with pytest.warns(FewPassages):
        unbiased.average("z > 1.25")
    with pytest.warns(FewPassages):
        unbiased.difference("z > 1.25", "z < 0")
    object.__setattr__(unbiased.weights, "newest", -12.0)
    assert any("collapsed" in problem for problem in biased._problems(unbiased, []))
    object.__setattr__(unbiased.weights, "newest", 0.0)


@pytest.mark.parametrize("score", ["z", "other"])
def test_the_figure_shows_the_free_energy_along_a_score(run: steersman.Run, score: str) -> None:
    left, right = biased.draw(run.unbiased, score).axes
    assert (left.get_xlabel(), right.get_ylabel()) == (score, score)
    assert np.nanmin(left.lines[0].get_ydata()) == 0


@pytest.mark.slow
def test_the_command_writes_it_and_refuses_what_has_no_meaning(
    directory: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*words: str, status: int) -> str:
        monkeypatch.setattr(sys, "argv", ["steersman", "analyse", *words, "--trust", "--out", str(tmp_path / "out")])
        with pytest.raises(SystemExit) as ended:
            main()
        assert (ended.value.code or 0) == status
        return capsys.readouterr().out

    run = str(directory.path)
    found = json.loads(said(run, "--region", "z > 0", "--json", status=0))
    assert found == json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert found["report"]["rows"][0][0] == "free energy of z > 0 above all else"
    assert {file.suffix for file in (tmp_path / "out").iterdir()} == {".json", ".png", ".svg", ".html"}
    for wrong in ((run, run), (run, "--states", "8"), (run, "--of", "nope"), (run, "--region", "z >")):
        said(*wrong, status=2)


def test_a_run_without_a_bias_has_no_weights(directory: RunDirectory, tmp_path: Path) -> None:
    """Its frames may have been steered: equal weights would be wrong."""
    plain = run_directory.create(tmp_path, "plain", tmp_path / "plain-0001")
    journal = Journal(plain.journal)
    journal.append(records.Run(workflow="plain", seed=1, slots=1), records.Session(host="here", pid=1))
    journal.close()
    opened = steersman.open_run(plain.path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "weight" not in opened.scores
    with pytest.raises(BadInput):
        opened.unbiased  # noqa: B018


def test_a_state_that_was_entered_often_and_left_seldom_is_warned_of() -> None:
    """And the other way round: the rarer of the two limits what an interval can know."""
    for left, entered in ((1, 50), (50, 1)):
        weights = SimpleNamespace(passages_apart=lambda *_, both=(left, entered): both, enough_passages=10)
        run: Any = SimpleNamespace(weights=weights, table=range(4))
        (said,) = biased._seldom(run, {"z > 0": np.array([True, False, True, False])})
        assert said == f"z > 0 was entered {entered} and left {left} times that lie apart"
    weights = SimpleNamespace(passages_apart=lambda *_: (50, 50), enough_passages=10)
    assert not list(biased._seldom(SimpleNamespace(weights=weights, table=range(4)), {"a": np.ones(4, bool)}))  # type: ignore[arg-type]
