"""A run is said to run while somebody drives it, and not else."""

from pathlib import Path

from steersman.data.run import open_run
from steersman.journal.facts import summary
from steersman.journal.file import Journal
from steersman.journal.history import History
from steersman.journal.lock import Lock
from steersman.journal.records import Began, End, Hired, Record, Run, Start, Tell
from steersman.journal.run_directory import RunDirectory, create


def outcome(directory: RunDirectory) -> object:
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
