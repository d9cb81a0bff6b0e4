"""`bench track` from the command line: a history grows, a planted slowdown ends with 1, a bad input with 2."""

import json
from pathlib import Path
from typing import Any

import pytest

from steersman.benchmarks import track
from steersman.benchmarks.history import read
from steersman.system.errors import BadInput, UnknownName


class Tracked:
    """`bench track` with a history of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.history, self.result, self._capsys = folder / "history.jsonl", folder / "result.json", capsys

    def __call__(self, name: str, *options: str) -> tuple[dict[str, Any], int]:
        """What it printed, and its exit code."""
        code = 0
        try:
            track.main([name, "--history", str(self.history), *options])
        except SystemExit as end:
            code = int(end.code or 0)
        return json.loads(self._capsys.readouterr().out), code

    def told(self, **figures: float) -> tuple[dict[str, Any], int]:
        """The same of what a benchmark printed."""
        self.result.write_text(json.dumps({"kernels": figures}))
        return self("kernels", "--from", str(self.result))


@pytest.fixture
def tracked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tracked:
    return Tracked(tmp_path, capsys)


def test_a_planted_slowdown_is_told_and_ends_with_1(tracked: Tracked) -> None:
    for number in range(5):
        found, code = tracked.told(took_s=1 + 0.02 * number, flops_per_s=1e9)
        assert (found["slower"], code) == ({}, 0)
    found, code = tracked.told(took_s=1.56, flops_per_s=1e9)
    assert found["slower"] == {"kernels.took_s": {"times": 1.5, "limit": 1.25, "now": 1.56, "before": 1.04}}
    assert (found["earlier"], code) == (5, 1)
    assert len(read(tracked.history)[0]) == 6


def test_a_benchmark_is_run_and_its_run_described(tracked: Tracked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(track, "PRODUCTS", 1)
    found, code = tracked("networks", "--only", "cosmoflow", "--count")
    (run,) = read(tracked.history)[0]
    assert (code, found["earlier"], found["machine"]) == (0, 0, run.machine)
    assert run.benchmark == "networks"
    assert run.options == ("--only", "cosmoflow", "--count")
    assert run.figures["networks.cosmoflow.parameters"] == 8_907_556
    assert run.reference_s is not None
    assert run.reference_s > 0
    assert run.versions["torch"]


def test_a_damaged_line_is_named(tracked: Tracked, capsys: pytest.CaptureFixture[str]) -> None:
    tracked.told(took_s=1.0)
    tracked.history.write_text("{}\n" + tracked.history.read_text())
    tracked.result.write_text('{"took_s": 1}')
    track.main(["kernels", "--history", str(tracked.history), "--from", str(tracked.result)])
    out, err = capsys.readouterr()
    assert json.loads(out)["earlier"] == 1
    assert f"{tracked.history}:1:" in err


def test_bad_input_is_refused(tracked: Tracked, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="kernels"):
        tracked("kernel")
    with pytest.raises(UnknownName):
        tracked("track")
    for content in ("[1]", "no JSON"):
        tracked.result.write_text(content)
        with pytest.raises(BadInput):
            tracked("kernels", "--from", str(tracked.result))
    with pytest.raises(BadInput):
        tracked("kernels", "--from", str(tmp_path / "none.json"))
    assert not tracked.history.exists()
