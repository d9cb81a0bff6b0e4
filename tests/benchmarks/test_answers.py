"""What `bench answers` measures, on fewer asks."""

import shutil
from pathlib import Path

import pytest

from steersman.benchmarks.answers import ASKS, measure


@pytest.mark.slow
def test_an_ask_costs_a_third_of_the_way_by_the_bus_at_most(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    found = measure(tmp_path, share=0.02)
    assert all(found[name].keys() == ASKS.keys() for name in ("ask_us", "bus_us", "file_us"))
    assert found["ask_us"][1024]["both_ways"]["p50"] <= found["bus_us"][1024]["p50"] / 3
    assert min(found["frames_per_s"].values()) > 0
