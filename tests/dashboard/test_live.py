"""The views of the page: what each says, and that it follows the journal."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas
import pytest
import yaml

from steersman.calls.opened import open_run
from steersman.dashboard.errors import PanelFails
from steersman.dashboard.figures import FIGURES
from steersman.dashboard.live import answers, frame, latent_map, offline, overview, server
from steersman.dashboard.live.gallery import Gallery
from steersman.dashboard.live.views import equilibrium, failures
from steersman.dashboard.live.watched import Watched
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.journal.errors import BadDirectory
from steersman.journal.file import Journal
from steersman.journal.lock import Lock
from steersman.journal.records import Scored, Training
from steersman.journal.run_directory import RunDirectory
from steersman.stages import modules, trust
from steersman.store import FRAME, Frames, GroupWriter
from steersman.system.errors import BadInput, EngineError
from tests.dashboard.conftest import FRAMES, SEGMENT_S, SLOTS
from tests.dashboard.serving import TOKENS, serving, unpacked

PEPTIDE = "ATOM  {:5d}  CA  GLY A{:4d}       0.000   0.000   0.000  1.00  0.00           C\n"
OWN = """
from matplotlib.figure import Figure
import numpy as np
from steersman import Params, Workflow, budget

wf = Workflow("own", Params, stop=budget(frames=1000))

@wf.simulate()
def simulate(p, start, out): pass

@wf.figure("How many")
def counted(p, results): return Figure(), f"{len(results.scores)} frames <b>"

@wf.panel("A field")
def field(p, results): return np.ones((4, 8)), "of ones"

@wf.panel("Broken")
def broken(p, results): raise ZeroDivisionError("nothing")

@wf.panel("Later")
def later(p, results): return None

@wf.panel("Cube")
def cube(p, results): return np.ones((2, 2, 2))
"""


# What the views say


def test_every_segment_has_its_place_and_only_what_changed_is_sent_again(watched: Watched) -> None:
    meta, columns = unpacked(answers.answer(watched, "segments", {}))  # type: ignore[arg-type]
    assert len(columns["at"]) == SLOTS * 12
    assert meta["policies"] == watched.history.policies
    children = columns["parent"] >= 0
    assert (columns["parent"][children] < columns["at"][children]).all()
    assert {meta["how"][code] for code in columns["how"]} == {"finished", "failed", "stopped"}
    _, later = unpacked(answers.answer(watched, "segments", {"change": str(watched.change)}))  # type: ignore[arg-type]
    assert not len(later["at"])


def test_the_map_holds_every_scored_frame_and_a_click_finds_it_again(watched: Watched) -> None:
    meta, points = unpacked(answers.answer(watched, "points", {}))  # type: ignore[arg-type]
    assert meta["total"] == len(points["x"]) == SLOTS * 12 * FRAMES
    assert np.isfinite(points["c"]).all()
    for at in (0, 57, 119):
        query = {"x": str(points["x"][at]), "y": str(points["y"][at]), "rx": "1e-6", "ry": "1e-6"}
        found = answers.answer(watched, "pick", query)
        assert isinstance(found, dict)
        assert found["number"] == 1
        cloud = watched.cloud
        assert found["frames"][0]["row"] == int(cloud.row[at])
        assert found["frames"][0]["segment"] == watched.table.name(int(cloud.segment[at]))


def test_a_place_on_the_map_of_another_model_is_refused(watched: Watched) -> None:
    """Its coordinates mean other frames now, and would show one that nobody clicked."""
    meta, _ = unpacked(latent_map.points(watched))
    here, before = str(meta["generation"]), str(meta["generation"] - 1)
    place, line = {"x": "0", "y": "0", "rx": "1", "ry": "1"}, {"corners": "-1,-1,1,-1,-1,1"}
    for view, query in (("pick", place), ("lasso", line)):
        assert answers.answer(watched, view, query | {"generation": here}) == answers.answer(watched, view, query)
        with pytest.raises(BadInput):
            answers.answer(watched, view, query | {"generation": before})


@pytest.mark.parametrize("colour", [*latent_map.COLOURS, "error"])
def test_the_map_is_coloured_by_what_is_known_of_a_frame(watched: Watched, colour: str) -> None:
    meta, points = unpacked(answers.answer(watched, "points", {"colour": colour}))  # type: ignore[arg-type]
    assert np.isfinite(points["c"]).all()
    assert meta["low"] <= meta["high"]


def test_a_part_of_the_map_holds_the_frames_within_and_is_thinned_evenly(watched: Watched) -> None:
    _, whole = unpacked(latent_map.points(watched))
    box = (-0.5, 0.5, -0.5, 0.5)
    inside = (abs(whole["x"]) <= 0.5) & (abs(whole["y"]) <= 0.5)
    meta, part = unpacked(latent_map.points(watched, "time", box))
    assert meta["inside"] == inside.sum()
    np.testing.assert_array_equal(part["x"], whole["x"][inside])
    meta, few = unpacked(latent_map.points(watched, most=10))
    assert len(few["x"]) <= 10
    assert meta["every"] == 12


def test_a_lasso_counts_the_frames_that_lie_within_it(watched: Watched) -> None:
    _, points = unpacked(latent_map.points(watched))
    triangle = [(-1.0, -1.0), (1.0, -1.0), (-1.0, 1.0)]
    within = (points["x"] > -1) & (points["y"] > -1) & (points["x"] + points["y"] < 0)
    found = latent_map.lasso(watched, triangle)
    assert found["number"] == within.sum()
    assert sum(n for _, n in found["policies"]) == found["number"]


def test_frames_of_segments_that_do_not_count_are_in_no_number_of_the_map(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of one that was lost, or run again."""
    meta, points = unpacked(latent_map.points(watched))
    segment = watched.cloud.segment.copy()
    lost = segment == segment[0]
    monkeypatch.setattr(type(watched.cloud), "segment", np.where(lost, -1, segment))
    around = [(-9.0, -9.0), (9.0, -9.0), (9.0, 9.0), (-9.0, 9.0)]
    meta, points = unpacked(latent_map.points(watched))
    assert meta["total"] == meta["inside"] == len(points["x"]) == (~lost).sum() > 0
    assert latent_map.lasso(watched, around)["share"] == 1


def test_an_analysis_of_before_the_run_went_on_says_so(finished: RunDirectory) -> None:
    watched = Watched.of(History(finished))
    assert equilibrium.answer(watched) == {}
    now = watched.history.state.frames
    said = {"problems": [], "report": {"rows": [], "caption": ""}}
    finished.analysis.mkdir()
    (finished.analysis / "figure.svg").write_text("<svg/>")
    for frames, problems in ((now, 0), (now - 1, 1)):
        (finished.analysis / "analysis.json").write_text(json.dumps(said | {"run_frames": [frames]}))
        assert len(equilibrium.answer(watched)["problems"]) == problems


def test_new_scores_come_onto_the_map_in_its_own_axes(finished: RunDirectory) -> None:
    """The coordinates of what is there stay, until the model is another."""
    watched = Watched.of(History(finished))
    _, before = unpacked(latent_map.points(watched))
    group = Frames(finished.scores)
    rows = group.count("0001")
    watched.history.state.scored = rows // 2
    watched._cloud = None
    _, half = unpacked(latent_map.points(watched))
    assert len(half["x"]) == rows // 2
    watched.history.state.scored = rows
    meta, whole = unpacked(latent_map.points(watched))
    np.testing.assert_array_equal(whole["x"][: rows // 2], half["x"])
    assert len(whole["x"]) == len(before["x"])
    assert meta["generation"] == 1


def test_a_frame_tells_who_chose_it_and_its_lineage_ends_at_the_frame(watched: Watched) -> None:
    table = watched.table
    at = len(table) - 1
    found = frame.frame(watched, int(table.walker[at]), int(table.end[at]) - 1)
    assert found["segment"] == table.name(at)
    assert found["lineage"][-1]["segment"] == table.name(at)
    for before, after in zip(found["lineage"], found["lineage"][1:], strict=False):
        child = next(i for i in range(len(table)) if table.name(i) == after["segment"])
        assert table.name(int(table.parent[child])) == before["segment"]
        assert int(table.parent_row[child]) == before["row"]
    assert all(each["place"] is not None for each in found["lineage"])
    with pytest.raises(NothingToDraw):
        frame.frame(watched, 0, 10_000)


def test_calibration_and_domain_are_those_of_the_scores_before_anybody_asked_for_the_map(
    finished: RunDirectory,
) -> None:
    """Twice the spread everywhere is twice the spread in each bin."""
    shutil.rmtree(finished.scores / "0001")
    rows, spread = 12 * FRAMES, np.random.default_rng(0).random(SLOTS * 12 * FRAMES)
    writer = GroupWriter(finished.scores / "0001", attributes={"model": 1})
    writer.extend(FRAME, {
        "walker": np.repeat(np.arange(SLOTS, dtype=np.int32), rows), "row": np.tile(np.arange(rows), SLOTS),
        "spread": np.where(spread > 0.9, np.nan, spread), "error": 2 * spread, "inside": spread < 0.25,
    })  # fmt: skip
    writer.close()
    found = answers.answer(Watched.of(History(finished)), "models", {})
    assert isinstance(found, dict)
    shown = np.array(found["calibration"]["spread"])
    np.testing.assert_allclose(found["calibration"]["error"], 2 * shown, rtol=1e-6)
    assert 0.8 < shown.max() < 0.9, "of those that have both"
    assert found["inside"]["all"] == pytest.approx((spread < 0.25).mean())
    assert found["audits"] is None, "scores without audits"


@pytest.mark.parametrize("counted", [True, False])
def test_audits_of_a_surrogate_are_judged_in_double_precision(finished: RunDirectory, counted: bool) -> None:
    """Errors of 1 meV of energies of 10^5 eV; what they cost is said where it was counted."""
    shutil.rmtree(finished.scores / "0001")
    rows, n = 12 * FRAMES, SLOTS * 12 * FRAMES
    rng, said = np.random.default_rng(0), -1e5 + np.random.default_rng(1).random(n)
    truth = said + rng.normal(0, 1e-3, n)
    writer = GroupWriter(finished.scores / "0001", attributes={"model": 1})
    cost = {"steps": np.full(n, 10), "trained_steps": np.repeat([500, 700], [30, n - 30])} if counted else {}
    writer.extend(FRAME, {
        "walker": np.repeat(np.arange(SLOTS, dtype=np.int32), rows), "row": np.tile(np.arange(rows), SLOTS),
        "said": said, "truth": truth, "version": np.repeat([1, 2], [30, n - 30]), **cost,
    })  # fmt: skip
    writer.close()
    answer = answers.answer(Watched.of(History(finished)), "models", {})
    assert isinstance(answer, dict)
    found = answer["audits"]
    assert [each["version"] for each in found["versions"]] == [1, 2]
    newest = found["versions"][1]
    assert newest["judged"] == n - 30 - 19
    assert newest["low"] <= 0.95 <= newest["high"]
    assert newest["bound"] == pytest.approx(1.96e-3, rel=0.4)
    assert (f"{n:,}" in found["saved"]) == bool(found["saved"]) == counted
    for each, errors in zip(found["versions"], np.split(np.abs(truth - said), [30]), strict=True):
        np.testing.assert_array_equal(each["errors"], errors[19:])
        held = errors[19:] <= np.array(each["bounds"])
        assert held.sum() == each["inside"]
        so_far = np.cumsum(held) / np.arange(1, len(held) + 1)
        np.testing.assert_allclose(each["share"]["inside"], so_far[9:])
        assert (each["share"]["low"][-1], each["share"]["high"][-1]) == (each["low"], each["high"])
        assert each["share"]["hours"] == each["hours"][9:]
    came = SEGMENT_S / FRAMES * np.arange(20, 31)  # walker 0 had come after a second
    np.testing.assert_allclose(found["versions"][0]["hours"], (1 + came) / 3600)
    assert (np.diff(newest["hours"]) >= 0).all()
    assert found["error"] == "error"  # frames do not say in which unit


def test_failures_are_grouped_by_their_cause_whatever_numbers_it_holds(
    finished: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of a group is of those that are shown of it, the newest."""
    watched = Watched.of(History(finished))
    watched.history.causes.update({"w0.1": "NaN at step 17", "w0.2": "NaN at step 918", "w1.3": "no memory"})
    found = answers.answer(watched, "failures", {})
    assert isinstance(found, dict)
    assert [group["times"] for group in found["groups"]] == [2, 1, 1]
    monkeypatch.setattr(failures, "MOST_SEGMENTS", 1)
    (shown, *_) = answers.answer(watched, "failures", {})["groups"]  # type: ignore[index, call-overload]
    segments = watched.history.segments
    (at,) = np.flatnonzero((segments.walker == 0) & (segments.number == 2))
    assert (shown["segments"], shown["policies"]) == (["w0.2"], [(segments.policy[at], 1)])
    assert "<script>" in answers.answer(watched, "stderr", {"segment": "w0.10"})["text"]  # type: ignore[index, call-overload]


@pytest.mark.parametrize("query", [{"x": "one"}, {"x": "1", "y": "inf", "rx": "1", "ry": "1"}, {}])
def test_numbers_that_are_none_are_refused(made: RunDirectory, query: dict[str, str]) -> None:
    with serving(made) as served:
        assert served.ask("/run/fold-0001/pick?" + "&".join(f"{k}={v}" for k, v in query.items())).status == 409


def test_prometheus_reads_a_run_of_the_folder_that_began_after_the_server(made: RunDirectory, tmp_path: Path) -> None:
    later, bearer = tmp_path / made.path.name, f"Bearer {TOKENS.look}"
    with serving(folder=tmp_path) as served:
        assert b"steersman_frames" not in served.ask("/metrics", "", Authorization=bearer).body
        shutil.copytree(made.path, later)
        with Lock(later).held():
            assert b"steersman_frames{" in served.ask("/metrics", "", Authorization=bearer).body


def test_prometheus_tells_two_runs_of_one_name_apart(made: RunDirectory, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        shutil.copytree(made.path, tmp_path / folder / made.path.name)
    gallery = Gallery([tmp_path / folder / made.path.name for folder in ("one", "two")])
    for key in gallery.keys:
        watched = gallery.get(key)
        assert watched
        watched.look()
    text = bytes(server._metrics(gallery).body).decode()
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len({*series}) > 20


def test_prometheus_reads_the_figures_of_status(made: RunDirectory) -> None:
    with serving(made) as served:
        served.ask("/run/fold-0001/segments")
        text = served.ask("/metrics", "", Authorization=f"Bearer {TOKENS.look}").body.decode()
    state = History(made).state
    assert f'steersman_frames{{run="fold-0001",workflow="fold"}} {state.frames}' in text
    assert 'steersman_metric{run="fold-0001",workflow="fold",metric="coverage"} 40' in text
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(r'steersman_\w+\{(\w+="[^"]*",?)+\} [-+0-9.e]+', line), line


def test_sentences_say_what_is_so(watched: Watched) -> None:
    """And nothing of a model where none is trained."""
    seen = watched.history.overview()
    words = " ".join(overview.sentences(seen))
    assert "reached its goal" in words
    assert "Models: 1 accepted of" in words
    bare = replace(seen, models=(), versions={"model": 0}, training="", scored_with=0)
    for each in (bare, replace(bare, outcome="running", reason=None)):
        assert "model" not in " ".join(overview.sentences(each)).lower()


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadDirectory), serving(RunDirectory(tmp_path)):
        pass


# The workflow's own code


def own(finished: RunDirectory) -> RunDirectory:
    finished.workflow.write_text(OWN)
    finished.settings_file.write_text(yaml.safe_dump(finished.settings() | {"params": {}}))
    trust.trust(finished.workflow)
    return finished


OURS = [title for title, _ in FIGURES.values()]  # they run no code of the workflow's author


def test_panels_give_pictures_and_arrays_and_say_what_is_wrong(finished: RunDirectory) -> None:
    watched = Watched.of(History(own(finished)))
    listed = answers.answer(watched, "panels", {})
    assert isinstance(listed, dict)
    assert [each["title"] for each in listed["panels"]] == ["How many", "A field", "Broken", "Later", "Cube", *OURS]
    meta, drawn = unpacked(answers.answer(watched, "panel", {"name": "counted"}))  # type: ignore[arg-type]
    assert bytes(drawn["svg"]).startswith(b"<?xml")
    assert meta["caption"].endswith("frames <b>")
    meta, drawn = unpacked(answers.answer(watched, "panel", {"name": "field"}))  # type: ignore[arg-type]
    assert drawn["values"].shape == (4, 8)
    for name, error in {
        "broken": PanelFails,
        "cube": PanelFails,
        "later": NothingToDraw,
        "nothing": NothingToDraw,
    }.items():
        with pytest.raises(error):
            answers.answer(watched, "panel", {"name": name})
    assert [each["name"] for each in listed["panels"] if each["open"]] == ["bias"], "it is shown unasked"
    kept = dict(offline._panels(watched, [], ""))["panels"]
    assert [each["name"] for each in kept["panels"]] == ["field"]
    assert [title in kept["trouble"] for title in ("Broken: ", "Cube: ", "Later: ")] == [True, True, False]
    assert watched.stop_rule() is not None


def test_the_code_of_a_run_that_was_made_elsewhere_is_not_run(finished: RunDirectory) -> None:
    """It is somebody else's program; --trust says otherwise."""
    modules.keep(finished.workflow, own(finished).path)
    finished.workflow.write_text("raise SystemExit('run')\n" + OWN)
    with serving(finished, trusted=None) as served:
        served.ask("/run/fold-0001/segments")
        state = served.ask("/run/fold-0001/state").values
        assert (state["trusted"], state["budget"]["share"]) == (False, None)
        assert [each["title"] for each in served.ask("/run/fold-0001/panels").values["panels"]] == OURS
        assert served.ask("/run/fold-0001/panel?name=counted").status == 404
    with serving(finished, trusted=True) as served:
        assert served.ask("/run/fold-0001/panels").values["trouble"].endswith("SystemExit: run")


def test_a_training_without_a_model_stands_in_the_table_of_versions(finished: RunDirectory) -> None:
    """As in `run.models`; a card it has none."""
    journal = Journal(finished.journal)
    journal.append(Training(model=3, frames=60))
    journal.close()
    shown = answers.answer(Watched.of(History(finished)), "models", {})
    assert isinstance(shown, dict)
    assert len(shown["versions"]) == 2
    own = open_run(finished.path).models
    for name in ("accepted", "reason", "frames", "loss"):
        assert [None if pandas.isna(each) else each for each in own[name]] == shown["table"][name]
    assert shown["table"]["accepted"] == [True, False, None]


def test_missing_libraries_are_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(server, "LIBRARIES", tmp_path)
    with pytest.raises(EngineError, match="npm"):
        server.check_libraries()


def test_a_run_that_scored_nothing_has_an_empty_map(empty: RunDirectory) -> None:
    watched = Watched.of(History(empty))
    meta, _ = unpacked(latent_map.points(watched))
    assert meta["total"] == 0
    assert latent_map.pick(watched, 0.0, 0.0, (1.0, 1.0)) == {"frames": [], "number": 0}
    watched.history.state.apply(Scored(model=3, frames=5))
    assert unpacked(latent_map.points(watched))[0]["total"] == 0
