"""`steersman journal` shows what was asked for."""

import json
from pathlib import Path

import pytest

from steersman.cli.records import choose, moment
from steersman.journal.file import Journal
from steersman.journal.records import Began, Ended, FrameId, Note, Record, Start, Stop
from steersman.system.errors import BadInput
from tests.engine.conftest import steersman

RECORDS: list[Record] = [
    Start(t=10.0, start=0, seed=0),
    Began(t=20.0, walker=3, segment=17, start=0, first_row=0),
    Stop(t=30.0, segment="w3.17", reason="", by=""),
    Ended(t=40.0, walker=3, segment=18, start=1, first_row=0, end_row=5, how="finished"),
    Start(t=50.0, start=1, seed=0, parent=FrameId(3, 5, 17)),
]


@pytest.mark.parametrize(
    ("kinds", "sim", "since", "chosen"),
    [
        ([], "", "", [10, 20, 30, 40, 50]),
        (["start", "ended"], "", "", [10, 40, 50]),
        ([], "w3.17", "", [20, 30, 50]),
        ([], "w3", "", [20, 30, 40, 50]),
        ([], "w4", "", []),
        ([], "", "25s", [40, 50]),
        (["start"], "", "1m", [10, 50]),
    ],
)
def test_records_are_chosen_by_kind_simulation_and_time(
    kinds: list[str], sim: str, since: str, chosen: list[int]
) -> None:
    wanted = choose(kinds, sim, since, now=60.0)
    assert [record.t for record in RECORDS if wanted(record)] == chosen


@pytest.mark.parametrize(("kinds", "sim", "since"), [(["stat"], "", ""), ([], "walker 3", ""), ([], "", "yesterday")])
def test_what_cannot_be_meant_is_refused(kinds: list[str], sim: str, since: str) -> None:
    with pytest.raises(BadInput, match=r"start|write"):
        choose(kinds, sim, since, now=60.0)


def test_a_time_of_day_is_local() -> None:
    assert moment("1970-01-02T00:00:00+00:00", 0.0) == 86400.0


@pytest.mark.slow
def test_the_torn_end_is_told_and_the_rest_printed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    for text in ("one", "two"):
        journal.append(Note(text=text))
    journal.close()
    path.write_bytes(path.read_bytes()[:-5])
    done = steersman("journal", tmp_path, "--json", cwd=tmp_path)
    assert [record["text"] for record in json.loads(done.stdout)["records"]] == ["one"]
    none = steersman("journal", tmp_path, "--json", "--kind", "start", cwd=tmp_path)
    assert json.loads(none.stdout) == {"records": []}
    none = steersman("journal", tmp_path, "--sim", "w0.9", cwd=tmp_path)
    assert (none.stdout == "", none.stderr == "") == (True, False)
    assert "`resume` removes them" in done.stderr
