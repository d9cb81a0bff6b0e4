"""`make gpu`: each part is bounded, says what it skipped, and goes on where it was stopped."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lab import gpu


def lacking(within_s: float) -> gpu.Figures:
    raise FileNotFoundError("no daemon")


def test_a_part_goes_on_where_it_was_stopped_and_says_what_it_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, asked = tmp_path / "part.json", list[str]()

    def row(name: str) -> gpu.Row:
        return lambda within_s: asked.append(name) or {"steps": 1}  # type: ignore[func-returns-value]

    monkeypatch.setattr(gpu, "PARTS", {"part": {"a": row("a"), "b": lacking, "c": row("c")}})
    gpu.measure("part", file, 0.0)
    assert asked == []
    assert json.loads(file.read_text())["skipped"].keys() == {"a", "b", "c"}
    gpu.write(file, {"rows": {"a": {"steps": 7}}})
    gpu.measure("part", file, 60.0)
    known = json.loads(file.read_text())
    assert (asked, known["rows"]) == (["c"], {"a": {"steps": 7}, "c": {"steps": 1}})
    assert known["skipped"] == {"b": "FileNotFoundError: no daemon"}


def test_a_part_that_hangs_is_ended_and_its_row_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, file = tmp_path / "python", tmp_path / "part.json"
    program.write_text(f'#!/bin/sh\necho \'{{"running": "c"}}\' > {file}\nexec sleep 600\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(gpu, "ENDS_S", 1.0)
    gpu.bounded("part", file, 0.5)
    assert json.loads(file.read_text())["skipped"] == {"c": "ended, for the part took longer than 2 s"}


def test_the_table_of_the_docs_has_every_row_of_a_gpu() -> None:
    """On a CPU there are fewer of them."""
    shown = json.loads(gpu.KEPT.read_text())
    assert shown.keys() == gpu.PARTS.keys()
