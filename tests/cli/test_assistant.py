"""An assistant asks about runs by the Model Context Protocol, as its clients do, and is told what the runs record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.cli.assistant import server
from steersman.journal import records, run_directory
from steersman.journal.file import Journal
from tests.data.conftest import molecule as molecule
from tests.data.conftest import simulated as simulated
from tests.data.conftest import written

protocol = pytest.importorskip("mcp", reason="pip install 'steersman[mcp]'")
FIRST, SECOND, THIRD = "fold-0001", "fold-0002", "fold-0003"


@pytest.fixture
def folder(tmp_path: Path, molecule: Molecule, simulated: Sequence[np.ndarray]) -> Path:
    """Three runs: one of tests/data, the same with an analysis, and one that a crash left at its beginning."""
    for name in (FIRST, SECOND):
        written(tmp_path / name, molecule, simulated)
    (tmp_path / SECOND / "analysis").mkdir()
    (tmp_path / SECOND / "analysis" / "analysis.json").write_text(json.dumps({"states": 4}))
    begun = run_directory.create(tmp_path, "fold", tmp_path / THIRD)
    settings = run_directory.open_run(tmp_path / FIRST).settings()
    run_directory.write_settings(begun, settings | {"seed": 77}, tmp_path / FIRST / "workflow.py")
    journal = Journal(begun.journal)
    journal.append(records.Run(workflow="fold", seed=77, slots=3), records.Hired(walker=0, slot=0))
    journal.close()
    return tmp_path


def asked(place: Path, questions: Sequence[tuple[str, dict[str, Any]]], *, tell: bool = False) -> list[Any]:
    """Answers in their order; None where the question was refused."""

    async def ask() -> list[Any]:
        found = []
        async with protocol.Client(server(place, tell=tell)) as client:
            for name, given in questions:
                answer = await client.call_tool(name, given)
                content = None if answer.is_error else answer.structured_content
                found.append(content["result"] if content and content.keys() == {"result"} else content)
        return found

    return asyncio.run(ask())


Check = Callable[[Any], Any]
QUESTIONS: list[tuple[str, dict[str, Any], Check, Any]] = [
    ("runs", {}, lambda found: sorted(each["name"] for each in found), [FIRST, SECOND, THIRD]),
    ("status", {"run": FIRST}, lambda found: (found["outcome"], found["frames"]), ("goal", 20)),
    ("status", {"run": FIRST}, lambda found: found["segments"], {"finished": 4, "failed": 1}),
    ("status", {"run": THIRD}, lambda found: (found["seed"], found["frames"], found["slots"]), (77, 0, 3)),
    ("why", {"run": FIRST, "of": "w1.1"}, lambda found: found["parent"]["name"], "w0.1:2"),
    ("why", {"run": FIRST, "of": "w0.2"}, lambda found: (found["ended"], found["cause"]), ("failed", "NaN")),
    ("why", {"run": FIRST, "of": "w1.0"}, lambda found: found["policy"], "prepared"),
    ("lineage", {"run": FIRST, "of": "w1.1"}, lambda found: [(each["segment"], each["frames"]) for each in found],
     [("w1.0", 2), ("w0.1", 3), ("w1.1", 4)]),
    ("lineage", {"run": FIRST, "of": "w0.1:0"}, lambda found: found[-1]["frames"], 1),
    ("decisions", {"run": FIRST}, lambda found: [each["segment"] for each in found[1:]],
     ["w0.2", "w1.1", "w0.1", "w1.0", "w0.0"]),
    ("segments", {"run": FIRST, "how": "failed"}, lambda found: [each["segment"] for each in found[1:]], ["w0.2"]),
    ("segments", {"run": FIRST, "most": 1}, lambda found: (found[0]["rows"], len(found)), (5, 2)),
    ("scores", {"run": FIRST, "by": "error", "most": 1}, lambda found: found[1]["error"], 7.0),
    ("scores", {"run": FIRST, "by": "error", "lowest": True, "most": 1}, lambda found: found[1]["row"], 0),
    ("scores", {"run": FIRST, "by": "z_1", "low": 6, "high": 7}, lambda found: found[0]["rows"], 4),
    ("metrics", {"run": FIRST}, lambda found: found[1]["coverage"], 5.0),
    ("models", {"run": FIRST}, lambda found: (found[1]["model"], found[1]["loss"]), (1, 2.0)),
    ("failures", {"run": FIRST}, lambda found: "NaN" in str(found[1]), True),
    ("results", {"run": SECOND}, lambda found: found["analysis.json"], {"states": 4}),
    ("results", {"run": FIRST}, lambda found: found, {}),
]  # fmt: skip


def test_twenty_questions_about_three_runs_are_answered_as_the_runs_record(folder: Path) -> None:
    answers = asked(folder, [(name, given) for name, given, _, _ in QUESTIONS])
    assert [check(found) for found, (_, _, check, _) in zip(answers, QUESTIONS, strict=True)] == [
        expected for _, _, _, expected in QUESTIONS
    ]


def test_nothing_outside_of_the_folder_is_read_and_nothing_is_written(folder: Path) -> None:
    """A name is that of a run there; what is wrong is refused, and no run has another byte."""

    def bytes_of() -> dict[str, bytes]:
        return {str(each): each.read_bytes() for each in sorted(folder.rglob("*")) if each.is_file()}

    before = bytes_of()
    outside = [f"../{folder.name}/{FIRST}", str(folder / FIRST), "", ".", "fold-0009"]
    refused = [("status", {"run": name}) for name in outside]
    refused += [("why", {"run": FIRST, "of": "w9.9"}), ("scores", {"run": FIRST, "by": "nope"})]
    assert asked(folder, refused) == [None] * len(refused)
    asked(folder, [(name, given) for name, given, _, _ in QUESTIONS])
    assert bytes_of() == before


def test_one_run_needs_no_name(folder: Path) -> None:
    (found,) = asked(folder / FIRST, [("status", {})])
    assert found["name"] == FIRST


def test_commands_are_given_only_where_that_was_allowed(folder: Path) -> None:
    """And go to the driver, which this run has not: it has ended."""
    command = [("tell", {"run": FIRST, "words": ["pause"]})]
    assert asked(folder, command) == [None]

    async def tools(tell: bool) -> set[str]:
        async with protocol.Client(server(folder, tell=tell)) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert asyncio.run(tools(True)) - asyncio.run(tools(False)) == {"tell"}
    assert asked(folder, command, tell=True) == [None]
