"""The benchmark of scale runs real walkers under a real driver, and loses none."""

import json
import re
from pathlib import Path

import pytest

from steersman.benchmarks import events
from tests.engine.conftest import steersman

pytestmark = pytest.mark.slow


def test_a_few_walkers_are_kept_busy(tmp_path: Path) -> None:
    words = ("--walkers", 6, "--seconds", 5, "--segment-s", 0.5, "--processes", 2)
    done = steersman("bench", "scale", "--json", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["walkers"] == 6
    assert told["lost"] == 0
    assert told["refills"] > 6
    assert 0 <= told["idle_share"] < 1
    assert told["refill_p95_s"] >= told["refill_p50_s"] >= 0
    assert told["events_per_s"] > 0
    assert told["driver_rss_mb"] > 0


def test_a_run_too_short_for_its_segments_says_so_and_ends_in_time(tmp_path: Path) -> None:
    """Also with walkers whose turn to begin never comes."""
    words = ("--walkers", 500, "--seconds", 1, "--segment-s", 5, "--processes", 1)
    done = steersman("bench", "scale", "--json", *words, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert not done.stdout
    assert re.search(
        r"error: \d+ of 500 walkers made a frame in 1 s, and none began a second segment: give", done.stderr
    )


def test_the_driver_forgets_what_it_need_not_know(tmp_path: Path) -> None:
    """Of an event it remembers less than 400 bytes, beside what it holds anyway; the figures are in the documents."""
    told = events.measure(tmp_path, events=8_000, walkers=10)
    assert len(told["grown_mb"]) == 10
    assert told["grown_mb"][-1] - told["grown_mb"][4] < 4_000 * 400e-6
