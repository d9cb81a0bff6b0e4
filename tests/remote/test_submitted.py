"""How a submitted run stands, at whatever moment it is asked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from steersman.journal.lock import FILE, Lock, Owner, owner
from steersman.remote import submitted, there
from steersman.remote.submitted import Submitted


@pytest.fixture
def run(tmp_path: Path) -> Submitted:
    made = Submitted(str(tmp_path), "run")
    made.path.mkdir(parents=True)
    made.run.mkdir()
    made.ask(["run"], "login")
    return made


@pytest.mark.parametrize("reads", range(3))
def test_a_run_that_ends_while_it_is_looked_at_runs_or_has_ended(
    run: Submitted, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    """Who looks after it writes down how it ended, and lets go, after so many locks were read."""
    keeper, seen = Lock(run.path).held(), 0

    def read(path: Path) -> Owner | None:
        nonlocal seen
        if seen == reads:
            run.ended.write_text(json.dumps({"code": 0}))
            keeper.__exit__(None, None, None)
        seen += 1
        return owner(path)

    keeper.__enter__()
    monkeypatch.setattr(submitted, "owner", read)
    assert run.state()["state"] in ("running", "ended")
    read(run.path)
    assert run.state() == {"state": "ended", "code": 0}


def test_of_a_run_that_has_ended_all_that_it_printed_is_there(run: Submitted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows its log asks no more."""
    look_at = Submitted.state

    def ends(this: Submitted) -> dict[str, object]:
        this.log.write_text("last words")
        this.ended.write_text(json.dumps({"code": 0}))
        return look_at(this)

    monkeypatch.setattr(Submitted, "state", ends)
    found = there.look(run)
    assert (found["state"], found["log"]) == ("ended", "last words")


def test_who_comes_when_it_has_ended_does_not_drive_it_again(run: Submitted) -> None:
    run.ended.write_text(json.dumps({"code": 3}))
    assert run.drive() == 3
    assert run.log.read_text() == ""
    assert run.state() == {"state": "ended", "code": 3}


def test_a_lost_run_that_is_to_go_on_waits_for_a_driver(run: Submitted) -> None:
    """Else nobody asks for a job for it."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    with Lock(run.path).held():
        held = json.loads((run.path / FILE).read_text())
    (run.path / FILE).write_text(json.dumps(held | {"pid": gone.pid}))
    assert run.state()["state"] == "lost"
    run.ask(["resume"], "allocation")
    assert run.state() == {"state": "waiting", "where": "allocation"}
