"""A power failure costs the decisions of a second, each of which the disk has with its explanation or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from steersman.engine import campaign, run
from steersman.engine.bag import Bag
from steersman.engine.driver import Driver
from steersman.journal.file import Journal, read
from steersman.journal.recorder import Recorder
from steersman.journal.records import End, Note, Session, Start
from steersman.journal.run_directory import RunDirectory
from steersman.journal.scoreboard import unscored
from steersman.journal.state import State
from steersman.steering import Steering
from tests.power import Disk

STEP_S = 0.4


def test_the_beginning_and_the_end_of_a_session_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what a new run is."""
    (tmp_path / "runs").mkdir()
    disk = Disk(tmp_path / "runs", monkeypatch)
    plan = campaign.plan("double_well", seed=1)
    made = campaign.begin(plan, run_dir=tmp_path / "runs" / "run")
    directory = made.directory
    monkeypatch.setattr(run, "RunServers", MagicMock())
    monkeypatch.setattr(run, "TupleSpace", MagicMock())
    left = list[RunDirectory]()

    def work() -> End:
        left.append(RunDirectory(disk.after_power_failure(tmp_path / "first") / "run"))
        return End(outcome="budget", reason="spent")

    monkeypatch.setattr(made, "_work", work)
    made._execute()
    left.append(RunDirectory(disk.after_power_failure(tmp_path / "last") / "run"))
    for each, last in zip(left, (Session, End), strict=True):
        *_, record = read(each.journal)
        assert isinstance(record, last)
        assert each.workflow.read_bytes() == directory.workflow.read_bytes()
        assert each.settings() == directory.settings()


def test_a_power_failure_costs_a_second_of_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any moment of a driver whose steps take less than half a second; the other parts of it are not looked at."""
    (tmp_path / "run").mkdir()
    disk, now = Disk(tmp_path / "run", monkeypatch), [100.0]
    recorder = Recorder(Journal(tmp_path / "run" / "journal.jsonl", clock=lambda: now[0]), State())
    bag = Bag(recorder, MagicMock(), Steering(), tmp_path / "run" / "decisions.jsonl", seed=1, rounds=False)
    driven = MagicMock(recorder=recorder, rules=MagicMock(steering=Steering()))
    driver = MagicMock(_clock=lambda: now[0], _synced=0.0, _listened=0.0, _bag=bag, _run=driven)

    def act() -> None:
        for text in ("a", "b"):
            recorder.record(Note(text=text))
            bag.fill(lambda: unscored(recorder.state), recorder.state.waiting_starts + 1)

    for number in range(12):
        Driver._step(driver, act)
        now[0] += STEP_S
        left = RunDirectory(disk.after_power_failure(tmp_path / str(number)))
        story = list(read(left.journal))
        written = [record for record in read(recorder.journal.path) if record.t <= now[0] - 1.0]
        assert story[: len(written)] == written
        explained = [json.loads(line)["start"] for line in left.decisions.read_bytes().splitlines()]
        assert {record.start for record in story if isinstance(record, Start)} <= {*explained}
    assert written
    recorder.journal.close()
    bag.close()
