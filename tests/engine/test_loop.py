"""The whole loop on two wells: walkers, bus, store, training, scoring, steering, journal, all real."""

import json
import os
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]

from steersman.journal import file as journal
from steersman.journal import published
from steersman.journal.crate import PROFILE
from steersman.journal.records import Began, Ended, Note, Stage, Start, Stop, words
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.store import FRAME, SEGMENT_FIELDS, Window
from tests.dashboard.kept import kept
from tests.engine.conftest import WriteWorkflow, completed, finished, opened, started, steersman

pytestmark = pytest.mark.slow
Whole = tuple[RunDirectory, State, dict[str, Any]]


@pytest.fixture(scope="module")
def two_wells(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A steered run until the second well is found, barrier 12 kT, from the first."""
    return completed("double_well", "--report", "--seed", 1, cwd=tmp_path_factory.mktemp("wells"))


def test_steering_finds_the_second_well(two_wells: Whole) -> None:
    """Unsteered it takes 15,000 time units on average (Kramers: 2 pi exp(12) / sqrt(96 * 48)); the budget is 250."""
    _, state, summary = two_wells
    assert summary["outcome"] == "goal"
    assert summary["metrics"]["right"] >= 1.0
    assert summary["models"][0]["accepted"]
    assert state.frames < 50_000


def test_every_start_is_accounted_for(two_wells: Whole) -> None:
    directory, state, _ = two_wells
    kinds = Counter(record.kind for record in journal.read(directory.journal))
    assert kinds["start"] == kinds["ended"] + state.waiting_starts
    assert kinds["began"] == kinds["ended"] == state.ended.total()
    assert len(directory.decisions.read_text().splitlines()) == kinds["start"]


def test_journal_and_store_agree_on_every_segment(two_wells: Whole) -> None:
    directory, state, _ = two_wells
    for walker in state.walkers.values():
        if not walker.segments:  # on a busy machine it may come when the run is over
            continue
        table = directory.frames.read_table(f"w{walker.number}")
        assert len(table) == len(walker.segments)
        for segment, row in zip(walker.segments, table.tolist(), strict=True):
            told = dict(zip(SEGMENT_FIELDS, row, strict=True))
            assert (told["number"], told["start"]) == (segment.number, segment.start)
            assert (told["first_row"], told["end_row"]) == (segment.first, segment.end)
        assert (
            directory.frames.count(f"w{walker.number}") == table[-1][SEGMENT_FIELDS.index("end_row")] == walker.frames
        )


def test_a_segment_begins_where_its_start_says(two_wells: Whole) -> None:
    """The first frame lies 5 small steps from the parent frame: within 6 standard deviations of noise, and drift."""
    directory, state, _ = two_wells
    starts = {record.start: record for record in journal.read(directory.journal, Start)}
    step = 6 * np.sqrt(2 * 1e-3 * 5) + 5 * 1e-3 * 40
    begun = [(segment, parent) for segment in state.segments if (parent := starts[segment.start].parent)]
    assert len(begun) > 20
    for segment, parent in begun[:: len(begun) // 20]:
        row = directory.frames.row(f"w{parent[0]}", parent[1])
        first = directory.frames.row(f"w{segment.walker}", segment.first)
        assert np.abs(row["position"] - first["position"]).max() < step


def test_the_frames_open_in_xarray(two_wells: Whole) -> None:
    directory, state, _ = two_wells
    with xarray.open_zarr(directory.frames.path / "w0") as data:
        assert data["position"].dims == (FRAME, "xy")
        assert data.sizes[FRAME] == state.walkers[0].frames


def test_scores_cover_what_was_published(two_wells: Whole) -> None:
    directory, state, _ = two_wells
    assert state.scored == sum(span.rows for span in published.spans(state)) == state.frames
    assert state.models.newest >= 1
    assert (directory.model(1) / "weights.safetensors").exists()
    card = directory.cards()[0]
    assert card["accepted"]
    assert sum(end - first for _, first, end in card["window"]) == card["frames"]


def test_why_tells_start_model_alternatives_and_end(two_wells: Whole) -> None:
    directory, state, _ = two_wells
    steered = next(r for r in journal.read(directory.journal, Start) if r.policy == "Novelty")
    segment = next(s for s in state.segments if s.start == steered.start)
    done = steersman("why", directory.path, segment.name, "--json", cwd=directory.path)
    told = json.loads(done.stdout)
    assert told["policy"] == "Novelty"
    assert told["model"] == steered.model >= 1
    assert steered.parent is not None
    assert told["parent"]["row"] == steered.parent.row
    assert len(told["refused"]) == 3
    assert told["ended"] == segment.how
    text = steersman("why", directory.path, segment.name, cwd=directory.path).stdout
    assert steered.reason in text
    assert text.count("passed over") == 3
    assert f"by      Novelty among {told['candidates']:,} frames, with model {told['model']}" in text


def test_status_and_watch_tell_the_same_end(two_wells: Whole) -> None:
    directory, state, summary = two_wells
    status = json.loads(steersman("status", directory.path, "--json", cwd=directory.path).stdout)
    assert status.pop("jobs") == []
    assert status == {key: value for key, value in summary.items() if key != "run"}
    assert state.end is not None
    assert state.end.reason in steersman("watch", directory.path, cwd=directory.path).stdout


def test_who_looks_for_the_bus_of_a_run_that_is_over_is_told_how_it_ended(two_wells: Whole) -> None:
    directory, state, _ = two_wells
    assert state.end is not None
    for command in (["bus", directory.path], ["tell", directory.path, "pause"]):
        done = steersman(*command, cwd=directory.path)
        assert (done.returncode, done.stdout) == (2, "")
        assert " ".join(done.stderr.split()) == f"error: {directory.path} is over (goal): {state.end.reason}"


def test_nothing_is_left_running_or_readable_by_others(two_wells: Whole) -> None:
    directory, _, _ = two_wells
    bus = directory.bus / "bus.json"
    assert not bus.exists() or bus.stat().st_mode & 0o077 == 0
    assert not steersman("workflows", cwd=directory.path).stderr


def test_parsl_keeps_what_happened_and_not_each_look_at_its_blocks(two_wells: Whole) -> None:
    """Over days it would be gigabytes."""
    directory = two_wells[0]
    lines = (directory.parsl / "000" / "parsl.log").read_text().splitlines()
    assert any("Scaling out" in line for line in lines)
    began = next(record.t for record in journal.read(directory.journal, Began))
    assert max(float(line.split()[0]) for line in lines if " DEBUG: " in line) < began, "only while Parsl starts"


def test_a_run_describes_itself_as_a_process_run_crate(two_wells: Whole) -> None:
    """What the profile says that a crate MUST: conformsTo, and an action whose instrument is an application."""
    crate = ROCrate(two_wells[0].path)
    assert crate.root_dataset["conformsTo"].id == PROFILE
    assert crate.dereference(PROFILE).type == "CreativeWork"
    assert crate.metadata["conformsTo"] == "https://w3id.org/ro/crate/1.1"
    assert crate.root_dataset["name"]
    assert crate.root_dataset["datePublished"]
    assert crate.root_dataset["license"]["description"]
    (action,) = crate.get_by_type("CreateAction")
    assert crate.root_dataset["mentions"] == [action] or crate.root_dataset["mentions"] == action
    assert action["instrument"].id == "workflow.py"
    assert "SoftwareSourceCode" in action["instrument"].type
    assert action["agent"].type == "Person"


def test_its_crate_tells_parameters_results_times_and_environment(two_wells: Whole) -> None:
    directory, state, _ = two_wells
    crate = ROCrate(directory.path)
    (action,) = crate.get_by_type("CreateAction")
    given = {each["name"]: each["value"] for each in action["object"]}
    assert given == {"seed": 1, "rounds": False, **directory.settings()["params"]}
    began, ended = (datetime.fromisoformat(action[key]) for key in ("startTime", "endTime"))
    assert began.timestamp() == pytest.approx(state.sessions[0].t, abs=1)
    assert state.end is not None
    assert ended.timestamp() == pytest.approx(state.end.t, abs=1)
    assert action["actionStatus"] == "http://schema.org/CompletedActionStatus"
    results = {each.id for each in action["result"]}
    assert {"frames.zarr/", "models/", "report.html"} <= results
    assert all((directory.path / name).exists() for name in results)
    environment = {each["name"]: each["value"] for each in action["environment"]}
    assert {"python", "numpy", "torch", "git_commit"} <= set(environment)


def test_nothing_in_its_crate_hangs_in_the_air(two_wells: Whole) -> None:
    """Every entity that is referred to is there, and every file that is described exists."""
    directory = two_wells[0]
    crate = ROCrate(directory.path)
    known = {entity.id for entity in crate.get_entities()}
    for entity in crate.get_entities():
        for value in entity.properties().values():
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict) and "@id" in each and not each["@id"].startswith("http"):
                    assert each["@id"] in known
    for entity in crate.data_entities:
        assert (Path(directory.path) / entity.id).exists()


def test_a_redundant_segment_is_stopped_and_its_slot_used_again_at_once(
    write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    """Segments of two minutes that stay where they are: each is stopped within seconds and another begins."""
    path = write_workflow("""
        import time
        wf = Workflow("long", P, stop=lambda p: budget(frames=p.frames))

        @wf.simulate()
        def stay(p, start, out):
            for i in range(6_000):
                time.sleep(0.02)
                out.append(x=np.float64(0.0))
                if out.stopped:
                    return

        @wf.score()
        def place(p, model, frames): return {"x": frames["x"]}

        wf.steer(Novelty("x"), prune=Redundant("x", patience=30, crowd=30))
        """)
    run = tmp_path / "run"
    driver = started("run", path, "--set", "frames=100000", "--run-dir", run, cwd=tmp_path)
    finished(driver, run, until=lambda state: state.ended["stopped"] >= 4)
    directory, state = opened(run)
    assert state.stages["prune"].worked
    stopped = [s for s in state.segments if s.how == "stopped"]
    stops = list(journal.read(directory.journal, Stop))
    assert all("redundant" in record.reason for record in stops if record.by == "Redundant")
    ends = {r.walker: r.t for r in journal.read(directory.journal, Ended) if r.segment == 0}
    begins = {r.walker: r.t for r in journal.read(directory.journal, Began) if r.segment == 1}
    assert all(begins[walker] - ends[walker] < 1.0 for walker in begins)
    told = json.loads(steersman("why", directory.path, stopped[0].name, "--json", cwd=tmp_path).stdout)
    assert told["stopped_by"]["by"] == "Redundant"


def test_a_simulation_that_raises_is_told_and_the_run_goes_on(write_workflow: WriteWorkflow, tmp_path: Path) -> None:
    """Each walker stays on a core of its own meanwhile, and makes way there as its site says."""
    (tmp_path / "polite.yaml").write_text("simulation: {workers: cores}\ntraining: {workers: 2}\nnice: 5\n")
    path = write_workflow("""
        import os
        wf = Workflow("fragile", P, stop=lambda p: budget(frames=p.frames))

        @wf.simulate(retries=1)
        def fragile(p, start, out):
            rng = np.random.default_rng(out.seed)
            for i in range(p.steps):
                cores = os.sched_getaffinity(0)
                out.append(x=rng.normal(), cores=len(cores), core=max(cores), nice=os.nice(0))
                if rng.random() < 0.02:
                    os.write(2, b"the integrator said: step too large\\n")
                    raise FloatingPointError("energy is NaN at step %d" % i)

        wf.steer(Random())
        """)
    directory, state, summary = completed(path, "--seed", 5, "--site", "polite.yaml", cwd=tmp_path)
    assert state.ended["failed"] >= 1
    assert state.ended["finished"] >= 5
    assert summary["outcome"] == "budget"
    failed = next(segment for segment in state.segments if segment.how == "failed")
    cause = (directory.errors / f"{failed.name}.txt").read_text()
    assert "energy is NaN" in cause
    assert "the integrator said" in cause
    retried = [record for record in journal.read(directory.journal, Start) if record.attempt]
    assert retried
    windows = [Window(directory.frames, [span]) for span in directory.frames.spans()]
    cores = [set(window["core"].tolist()) for window in windows]
    assert all((window["cores"] == 1).all() for window in windows)
    assert all((window["nice"] == min(os.nice(0) + 5, 19)).all() for window in windows)
    assert len(set().union(*cores)) == len(windows)


@pytest.mark.parametrize(
    ("does", "told"),
    [
        ('raise RuntimeError("no force field for residue XYZ")', "no force field for residue XYZ"),
        ("return", "none produced a frame: does simulate() call out.append?"),
    ],
)
def test_a_run_that_makes_no_frame_ends_and_says_why(
    does: str, told: str, write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    path = write_workflow(f"""
        wf = Workflow("hopeless", stop=budget(frames=400))

        @wf.simulate()
        def broken(p, start, out):
            {does}
        """)
    directory, state, summary = completed(path, "--report", cwd=tmp_path, code=5)
    assert told in summary["reason"]
    assert state.frames == 0
    assert told in kept(directory)["state"]["sentences"][0]


def test_a_worker_that_dies_costs_its_segment_only(write_workflow: WriteWorkflow, tmp_path: Path) -> None:
    """The process of one walker kills itself once: its start comes back by its lease and the run reaches its end.

    So did the one that prepared the first start: it was prepared again.
    """
    path = write_workflow(f"""
        import os, pathlib, signal
        wf = Workflow("mortal", P, stop=lambda p: budget(frames=p.frames))
        once = pathlib.Path({str(tmp_path / "died")!r})
        prepared = pathlib.Path({str(tmp_path / "prepared")!r})

        @wf.prepare
        def first(p):
            if not prepared.exists():
                prepared.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        @wf.simulate()
        def mortal(p, start, out):
            for i in range(p.steps):
                out.append(x=float(i))
                if out.name == "w0.2" and i == 10 and not once.exists():
                    once.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
        """)
    (tmp_path / "site.yaml").write_text("lease_s: 3\nsimulation: {workers: 2}\n")
    run = tmp_path / "run"
    driver = started("run", path, "--set", f"frames={10**8}", "--site", "site.yaml", "--run-dir", run, cwd=tmp_path)

    def ran_again(state: State) -> bool:
        lost = {segment.start for segment in state.segments if segment.how == "lost"}
        return bool(lost) and lost <= {segment.start for segment in state.segments if segment.walker != 0}

    state = finished(driver, run, until=ran_again)
    assert (tmp_path / "died").exists()
    assert any("preparing the start begins again" in words(note) for note in state.notes)
    assert len(state.walkers) == 3
    of_the_dead = state.walkers[0].segments
    lost = {segment.start for segment in of_the_dead if segment.how == "lost"}
    assert lost
    runs = Counter(segment.start for segment in state.segments)
    counted = Counter(segment.start for segment in state.segments if segment.counts)
    again = {start for start, times in runs.items() if times > 1}
    assert again >= lost, "what was lost was run again"
    assert again - lost <= {segment.start for segment in of_the_dead}, "nor else than what it had not acknowledged yet"
    assert set(counted.values()) == {1}
    assert counted.keys() == runs.keys(), "every start counts once"


def test_a_new_workflow_file_runs(tmp_path: Path) -> None:
    assert steersman("new", "mine", cwd=tmp_path).returncode == 0
    _, state, summary = completed("mine.py", cwd=tmp_path)
    assert summary["outcome"] == "budget"
    assert state.metrics["spread"][-1] > 0


def test_what_a_users_functions_do_wrong_is_told_and_ends_no_run(write_workflow: WriteWorkflow, tmp_path: Path) -> None:
    """A prune rule that raises, a metric that is no number, scores that come as integers and once as floats."""
    path = write_workflow("""
        wf = Workflow("wrong", P, stop=budget(frames=6000))
        calls = []

        @wf.simulate()
        def go(p, start, out):
            rng = np.random.default_rng(out.seed)
            while not out.stopped:
                out.append(x=float(np.linalg.svd(rng.random((60, 60)))[1][0]))  # a millisecond

        @wf.score()
        def place(p, model, frames):
            calls.append(1)
            return {"x": np.zeros(len(frames["x"]), float if len(calls) == 3 else int)}

        class Failing(SegmentRule):
            needs = ("x",)

            def reason(self, scores, rows): raise RuntimeError("no idea" if len(rows) else "asked of nothing")

        wf.steer(Novelty("x"), prune=Failing())

        @wf.metric
        def badness(scores): return np.nan

        @wf.metric
        def missing(scores): return scores.values["y"].max()
        """)
    directory, state, summary = completed(path, cwd=tmp_path)
    assert summary["outcome"] == "budget"
    assert "badness" not in state.metrics
    assert any("badness" in record.text for record in journal.read(directory.journal, Note))
    failures = [record for record in journal.read(directory.journal, Stage) if not record.ok]
    told = " ".join(words(record) for record in failures)
    for part in (
        "the prune stage failed",
        "no idea",
        "(see errors/prune.txt)",
        "(see errors/metric-missing.txt)",
        "'x': a row of int64 ()",
    ):
        assert part in told
    assert "asked of nothing" not in told
    assert "in reason" in directory.traceback("prune").read_text()
    assert "in missing" in directory.traceback("metric-missing").read_text()
