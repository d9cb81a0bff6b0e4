"""The benchmark of molecular dynamics: what it prints, not how fast the machine is today."""

from __future__ import annotations

import json

import pytest

from steersman.benchmarks.molecular_dynamics import main


def test_the_benchmark_prints_one_json_object_and_its_progress_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    """Two tiny segments."""
    main(["--json", "--pairs", "2", "--sequence", "AYG", "--segment-ps", "0.4"])
    told = capsys.readouterr()
    result = json.loads(told.out)
    assert {"ratio_to_bare", "ns_per_day", "bare_ns_per_day", "atoms", "platform"} <= set(result)
    assert (result["atoms"], result["pairs"]) == (41, 2)
    assert result["ratio_to_bare"] > 0
    assert "pair 2/2" in told.err
