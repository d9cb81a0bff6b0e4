"""`steersman.open_run`: every table, every frame and every lineage is what journal and store say."""

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import xarray
from msgspec.structs import replace

import steersman
from steersman.data import frames
from steersman.data.errors import DamagedPart
from steersman.data.history import History
from steersman.data.why import tree, tree_lines
from steersman.journal import file, records
from steersman.journal.errors import BadDirectory, JournalTooNew
from steersman.journal.file import Journal
from steersman.journal.lock import Lock
from steersman.journal.run_directory import RunDirectory
from steersman.store import FRAME, Frames, GroupWriter, MissingVariable, StoreError
from steersman.system.errors import BadInput, DamagedFile, UnknownName
from tests.data.conftest import FRAMES, REPORT_PS, STORY, explain

W1_1 = [(1, 0), (1, 1), (0, 4), (0, 5), (0, 6), (1, 4), (1, 5), (1, 6), (1, 7)]  # walker and row, by the story


@pytest.fixture
def opened(run: RunDirectory) -> steersman.Run:
    return steersman.open_run(run.path)


@pytest.mark.slow
def test_importing_steersman_costs_little_and_opening_a_run_needs_neither_torch_nor_parsl(run: RunDirectory) -> None:
    code = (
        "import sys, time; before = time.process_time(); import steersman; took = time.process_time() - before\n"
        f"run = steersman.open_run({str(run.path)!r}); run.segments, run.scores, run.frames, repr(run)\n"
        "run.lineage('w1.1')\n"
        "assert not {'torch', 'parsl', 'redis', 'matplotlib'} & set(sys.modules)\n"
        "print(took)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(said.stdout) < 0.05


def test_a_lineage_is_one_trajectory_back_to_the_prepared_start(
    opened: steersman.Run, simulated: list[np.ndarray]
) -> None:
    """Of each parent the frames up to the one that the next segment started from; time goes on evenly."""
    found = opened.lineage("w1.1")
    assert list(zip(found.walker.values.tolist(), found.row.values.tolist(), strict=True)) == W1_1
    assert found.segment.values.tolist() == ["w1.0"] * 2 + ["w0.1"] * 3 + ["w1.1"] * 4
    assert np.allclose(found.time, REPORT_PS * np.arange(1, 10))
    assert (found.time.attrs["units"], found.positions.attrs["units"]) == ("ps", "nm")
    positions = np.concatenate([simulated[1][:2], simulated[2][:3], simulated[3]])
    assert np.array_equal(found.positions, positions)
    assert found.groupby("segment").count().sizes["segment"] == 3
    assert set(opened.lineage("w1.1", []).variables) == {"time", "segment", "walker", "row"}
    part = opened.lineage("w1.1:1")
    assert part.sizes["frame"] == len(W1_1) - FRAMES + 2
    xarray.testing.assert_identical(part.drop_attrs(), found.isel(frame=slice(part.sizes["frame"])).drop_attrs())
    with pytest.raises(UnknownName):
        opened.lineage(f"w1.1:{FRAMES}")
    with pytest.raises(MissingVariable):
        opened.lineage("w1.1", ["momenta"])


def test_scores_lie_along_the_frames_that_count(opened: steersman.Run, simulated: list[np.ndarray]) -> None:
    scores = opened.scores
    assert len(scores) == FRAMES * len(STORY) == opened.state["frames"]
    for i in (0, 7, 13):
        frame, row = opened.frame(i), scores.iloc[i]
        assert (frame.walker, frame.row, str(frame.segment.values)) == (row["walker"], row["row"], row["segment"])
        assert float(frame.time) == pytest.approx(row["time"])
    known = scores[scores["error"].notna()]
    assert len(known) == 4 * FRAMES
    assert (known["error"] == known["row"]).all()
    assert (known["z_0"] == known["walker"]).all()
    odd = scores.query("odd")
    assert len(odd) == len(scores[scores["odd"]]) == 2 * FRAMES, "booleans select; what is not scored is not selected"
    assert (odd["row"] % 2 == 1).all()
    assert known["odd"].astype(bool).to_numpy().tolist() == (known["row"] % 2 == 1).tolist()
    assert set(scores[scores["error"].isna()]["segment"]) == {"w0.2"}
    assert np.array_equal(opened.frame("w0.1:2").positions, simulated[2][2])
    times = scores[scores["segment"] == "w1.1"]["time"]
    assert np.allclose(times, opened.lineage("w1.1").time[-FRAMES:])


def test_scores_are_had_as_policies_see_them(opened: steersman.Run) -> None:
    scores, scored = opened.scores, opened.scored
    places = list(zip(scored.walker.tolist(), scored.row.tolist(), strict=True))
    assert set(places) <= set(zip(scores.walker, scores.row, strict=True))
    one = next(name for name, value in scored.values.items() if value.ndim == 1)
    table = scores.set_index(["walker", "row"])[one]
    assert table.loc[places].tolist() == scored.values[one].tolist()
    for wrong in ([3, 1], "w0.0", scores.walker > 0):
        with pytest.raises(BadInput):
            opened.dataset(wrong)


def test_all_frames_are_one_dataset_that_reads_what_is_looked_at(
    opened: steersman.Run, simulated: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row i is row i of the scores; nothing is read before, and then no more than is needed."""
    scores, read = opened.scores, []
    whole = opened.dataset()
    of_walkers = [np.concatenate([simulated[i] for i in each]) for each in ((0, 2, 4), (1, 3))]
    expected = np.stack([of_walkers[w][r] for w, r in zip(scores.walker, scores.row, strict=True)])
    original = frames.rows

    def counted(*given: Any) -> np.ndarray:
        read.append(len(given[3]))
        return original(*given)

    monkeypatch.setattr(frames, "rows", counted)
    assert whole.sizes["frame"] == len(scores)
    assert not read
    assert np.array_equal(whole.positions[3:7, 1], expected[3:7, 1])
    assert np.array_equal(whole.positions[-1], expected[-1])
    assert np.array_equal(whole.positions.isel(frame=[5, 0, 5]), expected[[5, 0, 5]])
    assert np.array_equal(whole.positions[::-3, [2, 0]], expected[::-3][:, [2, 0]])
    assert whole.positions[2:2].shape == (0, *expected.shape[1:])
    assert read == [4, 1, 2, len(expected[::-3])], "what is looked at"
    assert np.array_equal(whole.positions, expected)
    assert (whole.positions.attrs["units"], whole.time.attrs["units"]) == ("nm", "ps")
    assert whole.segment.values.tolist() == scores.segment.tolist()
    some = scores.nlargest(3, "error")
    part = opened.dataset(some, ["positions"])
    assert set(part.data_vars) == {"positions"}
    assert np.array_equal(part.positions, expected[some.index])
    with pytest.raises(BadInput):
        opened.dataset(scores.query("error > 1e9"))


@pytest.mark.parametrize("row", [-1, 3 * FRAMES, 10**6])
@pytest.mark.parametrize("others", [[], [0], [0, 1, 2, 3]])
def test_a_row_that_a_walker_has_not_is_no_other_row(
    row: int, others: list[int], opened: steersman.Run, tmp_path: Path
) -> None:
    """Neither alone nor among others, at once or when it is looked at, in a file or in memory."""
    scores = opened.scores
    chosen = scores.iloc[[0] * (1 + len(others))].assign(row=[*others, row])
    with pytest.raises(StoreError) as refused:
        opened.dataset(chosen)
    assert (refused.value.values["row"], refused.value.values["rows"]) == (row, 3 * FRAMES)
    for suffix in ("xtc", "pdb"):
        with pytest.raises(StoreError):
            opened.export(tmp_path / f"a.{suffix}", chosen)
    assert not list(tmp_path.glob("a.*"))
    with pytest.raises(StoreError):
        Frames(opened.path / "frames.zarr").stored("w0")["positions"].row(row)


def test_tables_say_what_the_journal_says(opened: steersman.Run) -> None:
    segments = opened.segments
    assert segments.index.tolist() == ["w0.0", "w1.0", "w0.1", "w1.1", "w0.2"]
    assert segments["parent"].tolist() == ["", "", "w1.0", "w0.1", "w1.0"]
    assert segments.loc["w0.2", ["how", "cause", "frames"]].tolist() == ["failed", "NaN", FRAMES]
    assert segments.attrs["units"]["simulated"] == "ps"
    assert (segments["ended"] - segments["began"] == pandas.Timedelta(1, "s")).all()
    decisions = opened.decisions
    assert decisions["segment"].tolist() == segments.index.tolist()
    assert decisions["refused"].tolist() == [1] * len(STORY)
    models = opened.models
    assert models.loc[1, ["accepted", "loss", "frames"]].tolist() == [True, 2.0, 12]
    assert opened.metrics[["coverage", "scored"]].values.tolist() == [[5.0, opened.state["scored"]]]
    assert opened.failures[["what", "name", "cause", "text"]].values.tolist() == [
        ["segment", "w0.2", "NaN", "Traceback: NaN"]
    ]
    assert opened.state["outcome"] == "goal"


def test_a_choice_that_waited_while_parameters_changed_is_one_choice(run: RunDirectory) -> None:
    """Its start has another number then, and the segment that ran it is that of the choice."""
    before = steersman.open_run(run.path).state["starts"]["Novelty"]
    journal, frame = Journal(run.journal), records.FrameId(1, 0, 0)
    chosen = records.Start(start=5, seed=5, slot=1, parent=frame, policy="Novelty", reason="new")
    journal.append(records.Session(host="here", pid=1), chosen, replace(chosen, start=6, again=5, set={"latent": 3}))
    journal.append(records.Began(walker=1, segment=2, start=6, first_row=2 * FRAMES))
    journal.close()
    explain(run, 5, frame, "Novelty")
    opened = steersman.open_run(run.path)
    assert opened.decisions.loc[5, "segment"] == "w1.2"
    assert opened.segments.loc["w1.2", "start"] == 5
    assert opened.why("w1.2")["candidates"] == opened.decisions.loc[5, "candidates"] == 3
    assert opened.state["starts"]["Novelty"] == before + 1
    assert opened.segments["set_latent"].tolist() == [2] * len(STORY) + [3], "that of its parameters which each had"


@pytest.mark.parametrize(("left", "repeats"), [(True, True), (False, True), (True, False)])
def test_a_segment_goes_on_exactly_where_a_state_was_left(left: bool, repeats: bool, run: RunDirectory) -> None:
    """Not where it was to, and there was none; and not one that was told what need not be so again."""
    journal = Journal(run.journal)
    at: dict[str, Any] = {"walker": 1, "first_row": 2 * FRAMES}
    journal.append(
        records.Session(host="here", pid=1), records.Start(start=5, seed=5), records.Began(**at, segment=2, start=5)
    )
    end = records.Ended(**at, segment=2, start=5, end_row=3 * FRAMES, how="finished", state=left)
    parent = records.FrameId(1, 3 * FRAMES - 1, 2)
    journal.append(end, records.Start(start=6, seed=6, parent=parent, policy="Unsteered", exact=True))
    at = {"walker": 1, "segment": 3, "start": 6, "first_row": 3 * FRAMES}
    journal.append(records.Began(**at), records.Ended(**at, end_row=3 * FRAMES, how="finished", repeats=repeats))
    journal.close()
    told = tree(History(run), "w1.3")
    assert [each["exact"] for each in told["segments"]] == [left and repeats, False]
    assert ("with its state" in tree_lines(told)[0]) is (left and repeats)


@pytest.mark.parametrize("reason", ["by a signal", "by a signal; `steersman resume /elsewhere/w` continues the run"])
def test_a_run_that_was_moved_is_continued_where_it_lies(reason: str, run: RunDirectory, tmp_path: Path) -> None:
    """Not where it lay when it was interrupted; the second is as older runs have it."""
    journal = Journal(run.journal)
    journal.append(records.Session(host="here", pid=1), records.End(outcome="interrupted", reason=reason))
    journal.close()
    moved = tmp_path / "moved"
    shutil.copytree(run.path, moved)
    for path in (run.path, moved):
        told = steersman.open_run(path).state["reason"]
        assert f"resume {path.resolve()}`" in told
        assert told.startswith("by a signal; ")
        assert "elsewhere" not in told


def test_the_tree_shows_all_walkers_lazily_and_as_zarr_itself_reads_them(run: RunDirectory) -> None:
    tree = steersman.open_run(run.path).frames
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = xarray.open_datatree(run.path / "frames.zarr", engine="zarr", consolidated=False)
    assert list(tree.children) == ["w0", "w1"]
    for walker in tree.children:
        ours, theirs = tree[walker].to_dataset(), plain[walker].to_dataset()
        assert not ours["positions"].variable._in_memory
        assert ours.attrs.keys() == theirs.attrs.keys()
        for at in (slice(None), slice(1, 7, 3), slice(6, 1, -2), 2, [5, 0], slice(3, 3)):
            part = {"frame": at}
            xarray.testing.assert_identical(
                ours[["positions", "contacts"]].isel(part).load(), theirs[["positions", "contacts"]].isel(part).load()
            )
    with plain:
        assert tree["w0"].to_dataset().groupby("segment").count().sizes["segment"] == 3


def test_a_damaged_group_costs_its_own_part(run: RunDirectory) -> None:
    (run.path / "frames.zarr" / "w0" / "zarr.json").write_text("{")
    (run.path / "scores.zarr" / "0001" / "zarr.json").write_text("{")
    text = run.decisions.read_text()
    run.decisions.write_text("{half\n" + text)
    opened = steersman.open_run(run.path)
    with pytest.warns(DamagedPart, match="decisions"):
        assert len(opened.decisions) == len(STORY)
    with pytest.warns(DamagedPart, match=r"frames\.zarr/w0"):
        assert list(opened.frames.children) == ["w1"]
    with pytest.warns(DamagedPart) as told:
        scores = opened.scores
    assert {str(each.message).split()[0] for each in told} == {"frames.zarr/w0", "scores.zarr"}
    assert scores.loc[scores["segment"] == "w1.0", "time"].notna().all()
    assert scores.loc[scores["walker"] == 0, "time"].isna().all()


def test_a_run_that_was_copied_or_may_only_be_read_is_opened(run: RunDirectory, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", run.path, copy], check=True)
    assert steersman.open_run(str(copy)).lineage("w1.1").sizes["frame"] == len(W1_1)


def test_rows_of_another_run_are_refused(opened: steersman.Run) -> None:
    """They would be read as other frames of this one, without a word."""
    rows = opened.scores.query("row > 0").nlargest(2, "row")
    assert opened.dataset(rows).sizes["frame"] == 2
    rows.attrs["run"] = "/elsewhere"
    with pytest.raises(BadInput):
        opened.dataset(rows)
    with pytest.raises(BadInput):
        opened.export("never.nc", rows)


def test_what_is_not_there_is_said_in_one_line(opened: steersman.Run, tmp_path: Path) -> None:
    with pytest.raises(BadDirectory):
        steersman.open_run(tmp_path)
    with pytest.raises(UnknownName):
        opened.lineage("w7.0")
    for ask in (opened.why, opened.lineage):
        with pytest.raises(UnknownName):
            ask("w0.1:9")
    for index in (99, -1, 2.5, "w0.1:9", "w0.1", "7"):
        with pytest.raises(UnknownName):
            opened.frame(index)  # type: ignore[arg-type]
    with pytest.raises(UnknownName):
        steersman.open_run(opened.path, trust=True).plot.sample()


def test_a_run_of_a_newer_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(records.Note, "format", file.VERSION + 1)
        file.rewrite(tmp_path / "journal.jsonl", [records.Note(text="from the future")])
    with pytest.raises(JournalTooNew):
        steersman.open_run(tmp_path)


def test_figures_of_the_report_are_given_as_figures(opened: steersman.Run) -> None:
    figure = opened.plot.sampled()
    assert figure.axes
    assert figure.get_label()
    assert vars(figure)["_repr_png_"]().startswith(b"\x89PNG")  # a notebook asks for it
    assert {"sampled", "contacts", "bias"} <= set(dir(opened.plot))


def test_a_figure_of_the_workflow_file_is_listed_with_the_others(run: RunDirectory) -> None:
    before = dir(steersman.open_run(run.path).plot)
    drawn = "\n\n@wf.figure('Mine')\ndef mine(p, results):\n    return None\n"
    run.workflow.write_text(run.workflow.read_text() + drawn)
    opened = steersman.open_run(run.path)
    assert "mine" not in dir(opened.plot), "it may be a stranger's"
    opened = steersman.open_run(run.path, trust=True)
    assert set(dir(opened.plot)) == {*before, "yardsticks", "mine"}
    run.workflow.write_text("raise ValueError")
    assert {"sampled", "contacts", "bias"} <= set(dir(opened.plot))


def test_it_says_of_itself_what_status_says(opened: steersman.Run) -> None:
    for text in (repr(opened), opened._repr_html_()):
        for word in ("goal: there", "20 (0.4 ps simulated)", "coverage", "slots idle"):
            assert word in text
    assert opened.why("w0.2") == opened.why("0.2") == opened.why("w0.2:1"), "whichever of its names is given"
    assert (opened.why("w0.2")["segment"], opened.why("w0.2")["cause"]) == ("w0.2", "NaN")
    assert not any([*opened.difference(opened).values(), *opened.difference(opened.path).values()])
    assert all(each.where != "decisions.jsonl" for each in opened.verify())


def test_following_gives_what_is_new_until_nobody_drives_the_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    journal = Journal(path / "journal.jsonl")
    journal.append(records.Run(workflow="x", slots=1))
    opened = steersman.open_run(path)
    with Lock(path).held():
        new = opened.follow(every_s=0.0)
        journal.append(records.Session(host="here", pid=os.getpid()))
        assert isinstance(next(new), records.Session)
        journal.append(records.Hired(walker=0, slot=0))
        assert opened.state["walkers"] == 1  # to look does not take anything away
        assert isinstance(next(new), records.Hired)
        journal.append(records.End(outcome="goal", reason="there"))
    assert [record.kind for record in new] == ["end"]
    assert list(opened.follow()) == []


def test_a_run_that_goes_on_is_seen_as_far_as_it_is(run: RunDirectory, tmp_path: Path) -> None:
    """Each look reads what is new."""
    path = tmp_path / "new"
    (path / "frames.zarr").mkdir(parents=True)
    journal = Journal(path / "journal.jsonl")
    journal.append(records.Run(workflow="x", slots=1), records.Session(host="here", pid=1))
    opened = steersman.open_run(path)
    for table in (opened.segments, opened.decisions, opened.models, opened.failures, opened.metrics, opened.scores):
        assert len(table) == 0
    assert "not driven" in repr(opened)
    journal.append(records.Hired(walker=0, slot=0))
    journal.append(records.Start(start=0, seed=1))
    journal.append(records.Began(walker=0, segment=0, start=0, first_row=0))
    with pytest.raises(BadInput):
        opened.lineage("w0.0")
    writer = GroupWriter(path / "frames.zarr" / "w0")
    for seen in (1, 2):
        writer.append(FRAME, {"x": np.float32(seen), "segment": np.int32(0)})
        writer.publish()
        journal.append(records.Published(walker=0, frames=seen, segments=0))
        assert opened.lineage("w0.0")["x"].values.tolist() == list(range(1, seen + 1))
        assert opened.frames["w0"].sizes["frame"] == len(opened.scores) == seen
    assert "time" not in opened.lineage("w0.0")
    assert opened.segments.loc["w0.0", "how"] == "unknown", "nobody drives it"


def test_a_result_is_plain_values_and_arrays_and_no_code_of_it_runs(tmp_path: Path) -> None:
    """A run directory may be a stranger's, hash and all."""
    directory = RunDirectory(tmp_path)
    kept = {"x": [1, 2.5, "a", None], "y": np.arange(3.0), "z": {np.float64(1.5)}, "b": np.array([True])}
    records_ = [records.Run(workflow="mine"), records.Session(host="here", pid=1)]
    for name, value in (("plain", kept), ("odd", Odd()), ("odd", [tmp_path])):
        pickled, key = pickle.dumps(value), f"{name}{len(records_)}"
        directory.task(key).mkdir(parents=True)
        (directory.task(key) / "result.pkl").write_bytes(pickled)
        sha256 = hashlib.sha256(pickled).hexdigest()
        records_ += [records.Called(call=key, task=name), records.Task(call=key, sha256=sha256)]
    Journal(directory.journal).append(*records_, records.Called(call="ab", task="waits"))
    opened = steersman.open_run(tmp_path)
    found = opened.result("plain")
    assert (found["x"], found["y"].tolist(), found["z"]) == (kept["x"], [0.0, 1.0, 2.0], {1.5})
    for key in opened.tasks.index[1:3]:
        with pytest.raises(BadInput):
            opened.result(key)
    assert [call["call"] for call in opened.why("odd")] == opened.tasks.index[1:3].tolist()
    with pytest.raises(UnknownName):
        opened.result("nobody")
    with pytest.raises(BadInput):
        opened.result("waits")
    (directory.task("plain2") / "result.pkl").write_bytes(pickle.dumps(2))
    with pytest.raises(DamagedFile):
        opened.result("plain")


class Odd:
    def __reduce__(self) -> tuple[object, ...]:
        return exit, (3,)
