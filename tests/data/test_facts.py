"""A run is said to run while somebody drives it, and a frame has one name."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from steersman.calls.opened import open_run
from steersman.cli.display import view
from steersman.dashboard import tables
from steersman.dashboard.live import overview
from steersman.data.facts import summary
from steersman.data.history import History
from steersman.data.why import why
from steersman.journal.file import Journal
from steersman.journal.lock import Lock
from steersman.journal.records import Began, End, Ended, FrameId, Hired, Published, Record, Run, Start, Tell
from steersman.journal.run_directory import RunDirectory, create
from steersman.steering import budget


def outcome(directory: RunDirectory) -> tuple[str, list[str]]:
    opened = open_run(directory.path)
    found = summary(History(directory).state, directory.path)["outcome"]
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
        add(Tell(id="a", who="me", verb="pause", text=""))
        assert outcome(directory) == ("paused", ["running"])
    assert outcome(directory) == ("not driven", ["unknown"])
    add(End(outcome="goal", reason="there"))
    assert outcome(directory)[0] == "goal"


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
    console.print(view(history.state, budget(frames=100), "x", 5.0))
    assert history.state.name_of(parent) == "w0.1:7"
    assert "from w0.1:7" in console.file.getvalue()  # type: ignore[attr-defined]
    assert [row[2] for row in tables.influential(history)] == ["prepared start", "w0.1:7"]
    assert why(history, "w0.2")["parent"]["name"] == "w0.1:7"
    assert overview._decision(history.state, history.start(2))["origin"] == "from w0.1:7"
    assert "w7" in history.state.origin(history.start(3)), "of which the journal knows nothing more"
