"""A run is said to run while somebody drives it, by every view alike, and a frame has one name."""

import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from steersman import budget, reached
from steersman.calls.opened import open_run
from steersman.cli import runs
from steersman.cli.display import view
from steersman.dashboard.live import overview, prometheus
from steersman.dashboard.live.gallery import line
from steersman.dashboard.live.views import starts
from steersman.dashboard.live.watched import Watched
from steersman.data.facts import digits, facts, missed, percent
from steersman.data.history import History
from steersman.data.listing import listed
from steersman.data.why import why
from steersman.executors import site_files
from steersman.journal import copies, run_directory
from steersman.journal.file import Journal
from steersman.journal.lock import Lock
from steersman.journal.records import (
    Began,
    End,
    Ended,
    FrameId,
    Hired,
    Metrics,
    Note,
    Published,
    Record,
    Run,
    Scored,
    Session,
    Stage,
    Start,
    Tell,
)
from steersman.journal.run_directory import RunDirectory, create
from steersman.stages import loading


def outcome(directory: RunDirectory) -> tuple[str, list[str]]:
    opened = open_run(directory.path)
    found = History(directory).overview().outcome
    assert opened.state["outcome"] == found
    return found, opened.segments["how"].tolist()


def test_a_run_that_nobody_drives_is_not_running(tmp_path: Path) -> None:
    directory = create(tmp_path, "run")

    def add(*records: Record) -> None:
        journal = Journal(directory.journal)
        journal.append(*records)
        journal.close()

    add(Run(workflow="w", seed=0), Start(start=0, seed=0), Hired(walker=0, slot=0))
    add(Began(walker=0, segment=0, start=0, first_row=0))
    with Lock(directory.path).held():
        assert outcome(directory) == ("running", ["running"])
        seen = History(directory).overview(now=time.time() + 540)
        assert seen.silent_s == pytest.approx(540, abs=5)
        assert facts(seen)["no frame"].startswith("for ")
        add(Tell(id="a", who="me", verb="pause", text=""))
        assert outcome(directory) == ("paused", ["running"])
    assert outcome(directory) == ("not driven", ["unknown"])
    assert History(directory).overview().silent_s == 0
    add(End(outcome="goal", reason="there"))
    assert outcome(directory)[0] == "goal"


def test_a_metric_that_has_no_value_is_not_shown_and_is_the_last_note_while_it_is_so(tmp_path: Path) -> None:
    directory = create(tmp_path, "run")
    lost, fails = "a server was lost", Stage(stage="metric m", ok=False, cause="it breaks")
    story: list[tuple[Record, str, float | None]] = [
        (Run(workflow="w", seed=0), "", None), (Note(text=lost), lost, None), (Scored(model=0, frames=5), lost, None),
        (Note(text="m is nan", metric="m"), "m is nan", None), (Scored(model=0, frames=9), "m is nan", None),
        (Metrics(values={"other": 1.0}), "m is nan", None), (Metrics(values={"m": 1.0}), lost, 1.0),
        (Scored(model=0, frames=12), lost, 1.0), (Note(text="m is inf", metric="m"), "m is inf", None),
        (Metrics(values={"m": 2.0}), lost, 2.0), (fails, "", None),
    ]  # fmt: skip
    for record, said, value in story:
        journal = Journal(directory.journal)
        journal.append(record)
        journal.close()
        seen = History(directory).overview()
        assert (seen.last_note, seen.metrics.get("m")) == (said, value)


def test_a_metric_that_is_named_like_a_fact_replaces_none(tmp_path: Path) -> None:
    directory = create(tmp_path, "run")
    journal = Journal(directory.journal)
    journal.append(Run(workflow="w", seed=0))
    plain = facts(History(directory).overview())
    journal.append(Metrics(values=dict.fromkeys(plain, 7.0)))
    journal.close()
    both = facts(History(directory).overview())
    assert {name: both[name] for name in plain} == plain
    assert list(both.values()).count("7") == len(plain)


def test_every_view_says_the_same_of_a_run_whose_driver_was_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words and in keys, which are those that docs/data.md lists; its wall time stands still."""
    directory = create(tmp_path, "run", tmp_path / "run")
    site = site_files.load_site("laptop").model_dump(mode="json")
    settings = {"workflow": "w", "seed": 0, "rounds": False, "params": {}, "site": site}
    run_directory.write_settings(directory, settings, loading.find("double_well"))
    journal = Journal(directory.journal, clock=lambda: 1000.0)
    journal.append(Run(workflow="w", seed=0, slots=1), Session(host="here", pid=1), Hired(walker=0, slot=0))
    journal.append(Start(start=0, seed=0), Began(walker=0, segment=0, start=0, first_row=0))
    journal.close()
    history, opened = History(directory), open_run(directory.path)
    runs.status(directory.path, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    page = json.loads(json.dumps(overview.state(Watched.of(history), 9000.0)))
    kept = json.loads(json.dumps(opened.state.to_dict()))
    assert kept == {key: printed[key] for key in printed if key not in ("files", "jobs")}
    assert kept == {key: page.get(key, []) for key in kept}, "but for the models, of which it has none"
    assert printed["hours"] == 0.0
    words = {printed["outcome"], page["status"], listed(tmp_path)[0].state, line(directory)["status"]}
    assert words == {"not driven"}
    assert "not driven" in repr(opened)
    assert 'steersman_up{run="run",workflow="w"} 0\n' in prometheus.exposition([history.overview()])
    docs = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
    listed_there = docs.partition("## The run at a glance")[2].partition("## The tables")[0]
    assert kept.keys() <= set(re.findall(r"`(\w+)`", listed_there))
    code = f"import sys, pathlib; from steersman.cli import runs; runs.status(pathlib.Path({str(directory.path)!r}))"
    code += "; assert not {'pandas', 'xarray', 'matplotlib', 'torch', 'parsl'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_copy_shows_the_moment_at_which_it_was_fetched(tmp_path: Path) -> None:
    directory = create(tmp_path, "run", tmp_path / "run")
    journal = Journal(directory.journal, clock=lambda: 1000.0)
    journal.append(Run(workflow="w", seed=0, slots=1), Session(host="there", pid=1), Hired(walker=0, slot=0))
    journal.close()
    for state, outcome, hours, driver in (
        ("running", "running", 1.0, ""),
        ("lost", "not driven", 0.0, "it has no driver"),
    ):
        copies.mark(directory.path, copies.Origin("far", "site", "/far", 4600.0, state))
        seen = History(directory).overview()
        assert (seen.outcome, seen.hours, seen.driver) == (outcome, hours, driver)
        assert "far at site" in seen.copy


def test_a_frame_has_one_name_wherever_it_is_shown(tmp_path: Path) -> None:
    """That which `tell RUN pin` takes: in the display, the report, `why` and on the page."""
    directory = create(tmp_path, "run")
    journal = Journal(directory.journal)
    first: dict[str, Any] = {"walker": 0, "segment": 0, "start": 0, "first_row": 0}
    second: dict[str, Any] = {"walker": 0, "segment": 1, "start": 1, "first_row": 20}
    parent = FrameId(0, 27, 1)
    journal.append(
        Run(workflow="w", seed=0), Start(start=0, seed=0), Start(start=1, seed=0), Hired(walker=0, slot=0),
        Began(**first), Ended(**first, end_row=20, how="finished"), Began(**second),
        Ended(**second, end_row=40, how="finished"), Published(walker=0, frames=40, segments=2),
        Start(start=2, seed=0, parent=parent), Began(walker=0, segment=2, start=2, first_row=40),
        Ended(walker=0, segment=2, start=2, first_row=40, end_row=60, how="finished"),
        Published(walker=0, frames=60, segments=3),
        Start(start=3, seed=0, parent=FrameId(7, 1, 0)), Start(start=4, seed=0, parent=FrameId(0, 45, 2)),
        Began(walker=0, segment=3, start=4, first_row=60),
    )  # fmt: skip
    journal.close()
    history = History(directory)
    console = Console(file=io.StringIO(), width=200)
    console.print(view(history.state, history.overview(), "x"))
    assert history.state.name_of(parent) == "w0.1:7"
    assert "from w0.1:7" in console.file.getvalue()  # type: ignore[attr-defined]
    assert [row[2] for row in starts.answer(Watched.of(history))["rows"]] == ["", "w0.1:7"]
    assert why(history, "w0.2")["parent"]["name"] == "w0.1:7"
    assert overview._decision(history.state, history.start(2))["origin"] == "from w0.1:7"
    assert "w7" in history.state.origin(history.start(3)), "of which the journal knows nothing more"


def test_numbers_are_told_apart_and_what_is_there_is_not_none() -> None:
    numbers = [
        (-1.0602, -1.0623, -1.0578),
        (136.2, 132.4, 139.1),
        (1.25, 1.25),
        (0.2, 0.1, float("inf")),
        (float("nan"),),
    ]
    assert [digits(*each) for each in numbers] == [4, 3, 3, 3, 3]
    shares = [0.0, 0.001, 0.005, 0.62, 0.999, 1.0]
    assert [percent(share) for share in shares] == ["0 %", "<1 %", "<1 %", "62 %", ">99 %", "100 %"]


def test_a_run_that_spent_its_budget_says_which_goal_it_missed(tmp_path: Path) -> None:
    rule, directory = budget(frames=10) | reached("far", 1.0), create(tmp_path, "run")
    journal = Journal(directory.journal)
    journal.append(Run(workflow="w", seed=0), Session(host="here", pid=1), Metrics(values={"far": -0.7}))
    journal.append(End(outcome="budget", reason="it is spent"))
    seen = History(directory).overview(rule)
    assert [part.rule in missed(seen) for part in seen.budget.parts] == [False, True]
    journal.append(Metrics(values={"far": 1.5}))
    journal.close()
    assert missed(History(directory).overview(rule)) == missed(History(directory).overview()) == ""
