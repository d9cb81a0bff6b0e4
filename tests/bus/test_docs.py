"""The page that teaches the space is true: its examples run, in order, as they stand."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "bus.md"


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 6, "how to begin, and five examples"
    together: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{PAGE.name}, example {number}", "exec"), together)


def test_the_space_needs_nothing_else_of_steersman() -> None:
    """A stranger may use it by itself: only the ground floor is imported, and torch is not."""
    code = "import sys, steersman.bus; print(*sorted(m for m in sys.modules if m.startswith(('steersman.', 'torch'))))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {m.split(".")[1] for m in ran.stdout.split()} == {"bus", "system"}


@pytest.mark.slow
def test_the_benchmark_prints_one_json_object() -> None:
    words = [sys.executable, "-m", "steersman.cli", "bench", "bus", "--json", "--quick", "--tuples", "500"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    told = json.loads(ran.stdout)
    ratios = {"put_ratio", "take_ratio", "bulk_ratio", "handover_ratio", "clients64_ratio", "take_growth"}
    assert ratios | {"put_per_s", "take_per_s", "queue_per_s", "dragon"} <= told.keys()
    assert all(told[key] > 0 for key in ratios)
