"""A damaged line of decisions.jsonl: every reader leaves it out and nothing else, and `verify` names it."""

import json
from pathlib import Path
from typing import Any

import pytest

from steersman.data import tables
from steersman.data.errors import DamagedPart
from steersman.data.history import History
from steersman.data.verify import verify
from steersman.data.why import why
from steersman.engine.bag import _cut_decisions
from steersman.journal.decisions import ranking_seconds
from steersman.journal.file import Journal
from steersman.journal.records import Began, Hired, Run, Start
from steersman.journal.run_directory import RunDirectory, create

STARTS = 4
DAMAGES = [
    b"{half", b"\xff\xfe", b"\0" * 40, b"[]", b"3", b"null", b'{"start": 1}', b'{"start": "1", "t": 0}', b"[" * 9999,
    b'{"t": 0.0, "start": 1, "candidates": 7, "refused": [3], "policy": "p", "reason": "r", "model": 0, "frame": null}',
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    directory = create(tmp_path, "run")
    journal, lines = Journal(directory.journal), []
    journal.append(Run(workflow="w", seed=0), Hired(walker=0, slot=0))
    for number in range(STARTS):
        (start,) = journal.append(Start(start=number, seed=0, policy="p", reason="r"))
        journal.append(Began(walker=0, segment=number, start=number, first_row=0))
        line: dict[str, Any] = {
            "t": start.t,
            "candidates": 7,
            "frame": None,
            "refused": [],
            "start": number,
            "model": 0,
        }
        lines.append(json.dumps(line | {"policy": "p", "reason": "r", "ranked_s": 1.0}))
    journal.close()
    directory.decisions.write_text("\n".join(lines) + "\n")
    return directory


@pytest.mark.parametrize("damaged", DAMAGES, ids=lambda line: line[:30])
def test_a_damaged_line_costs_itself_whoever_reads_it(run: RunDirectory, damaged: bytes) -> None:
    lines = run.decisions.read_bytes().splitlines()
    lines[1] = damaged
    run.decisions.write_bytes(b"\n".join(lines) + b"\n")
    history, left = History(run), [0, 2, 3]
    with pytest.warns(DamagedPart, match="line 2"):
        assert tables.decisions(history).index.tolist() == left
    assert [why(history, f"w0.{number}")["candidates"] for number in range(STARTS)] == [7, 0, 7, 7]
    assert ranking_seconds(run) == len(left)
    assert next(each.problem for each in verify(run) if each.what == "decisions") == "line 2 is damaged"
    _cut_decisions(run.decisions, next_start=3)
    assert run.decisions.read_bytes().splitlines() == lines[:3]
