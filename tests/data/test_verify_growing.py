"""A run that goes on while it is verified is whole at every moment, also at those between two of the reads."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from steersman.data.verify import verify
from steersman.executors import site_files
from steersman.journal import copies, file, run_directory
from steersman.journal.copies import Origin
from steersman.journal.file import Journal
from steersman.journal.lock import Lock
from steersman.journal.records import End, Record, Run, Session, Start
from steersman.stages import loading

MOMENTS = itertools.count(1.0)


class Growing:
    """A run that chooses starts: each is explained, then in the journal."""

    def __init__(self, path: Path) -> None:
        self.directory = run_directory.create(path.parent, "run", path)
        site = site_files.load_site("laptop").model_dump(mode="json")
        settings = {"workflow": "double_well", "params": {}, "site": site, "seed": 1, "rounds": False}
        run_directory.write_settings(self.directory, settings, loading.find("double_well"))
        self.journal = Journal(self.directory.journal)
        files = run_directory.digests(self.directory)
        self.journal.append(Run(workflow="double_well", seed=1, slots=1, files=files), Session(host="here", pid=1))
        self.chosen = itertools.count()

    def explain(self, number: int, t: float) -> list[Start]:
        starts = [Start(start=next(self.chosen), seed=7, policy="prepared", reason="first") for _ in range(number)]
        facts = {
            "t": t,
            "model": 0,
            "policy": "prepared",
            "reason": "first",
            "frame": None,
            "candidates": 0,
            "refused": [],
        }
        with self.directory.decisions.open("a") as decisions:
            decisions.writelines(json.dumps(facts | {"start": each.start}) + "\n" for each in starts)
        return starts

    def go_on(self) -> None:
        for _ in range(5):
            self.journal.append(*self.explain(1, next(MOMENTS)))

    @property
    def problems(self) -> list[str]:
        return [each.what for each in verify(self.directory)]


@pytest.fixture
def run(tmp_path: Path) -> Growing:
    return Growing(tmp_path / "run")


def test_a_run_that_chooses_between_two_reads_is_whole(run: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    read = file.read

    def and_go_on(path: Path, *kinds: type[Record]) -> Iterator[Record]:
        found = list(read(path, *kinds))
        run.go_on()
        return iter(found)

    monkeypatch.setattr(file, "read", and_go_on)
    with Lock(run.directory.path).held():
        assert run.problems == []
    assert next(run.chosen) > 5


def test_a_copy_that_was_made_meanwhile_is_whole(run: Growing) -> None:
    """Its journal was read once, and its decisions behind it."""
    for _ in range(4):
        run.explain(1, next(MOMENTS))
    assert run.problems == ["decisions"]
    copies.mark(run.directory.path, Origin("run", "here", "", 0.0, "running"))
    assert run.problems == []


def test_a_driver_that_is_killed_before_it_records_a_round_leaves_a_whole_run(run: Growing) -> None:
    """More starts than slots, chosen at one moment."""
    run.explain(4, next(MOMENTS))
    assert run.problems == []
    run.explain(1, next(MOMENTS))
    assert run.problems == ["decisions"]


@pytest.mark.parametrize("name", ["journal", "decisions"])
def test_a_line_that_is_being_written_is_no_damage_until_its_driver_is_gone(run: Growing, name: str) -> None:
    with Lock(run.directory.path).held(), (run.directory.path / f"{name}.jsonl").open("a") as half:
        half.write('{"start":')
        half.flush()
        assert run.problems == []
    assert run.problems == [name]


def test_a_decision_without_the_end_of_its_line_is_found(run: Growing) -> None:
    """Who goes on takes it for one that was being written."""
    run.explain(1, next(MOMENTS))
    file = run.directory.decisions
    before = run.problems
    file.write_bytes(file.read_bytes()[:-1])
    assert len(run.problems) == len(before) + 1


def test_a_run_that_ends_meanwhile_is_not_yet_sealed(run: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    run.journal.append(End(outcome="goal", reason="there"))
    with Lock(run.directory.path).held():
        assert run.problems == []
    assert run.problems == ["manifest"]
