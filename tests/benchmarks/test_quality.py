"""Time to quality: it ends when the quality is reached, and its log is in mllog's format and order."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.benchmarks import quality
from steersman.benchmarks.three_figures import rounded

BEFORE = ["init_start", "init_stop", "run_start"]
EPOCH = ["epoch_start", "epoch_stop", "eval_start", "eval_error", "eval_stop"]


@pytest.fixture(scope="module", autouse=True)
def few_maps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quality, "TRAIN", 1024)
        patch.setattr(quality, "EVAL", 128)
        yield


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a network that is good enough after some epochs."""
    path = tmp_path_factory.mktemp("quality") / "log"
    quality.main(["--target", "0.12", "--log", str(path)])
    return path


def events(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text().splitlines()
    assert all(line.startswith(":::MLLOG {") for line in lines)
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in lines]


@pytest.mark.slow
def test_the_log_is_in_order(log: Path) -> None:
    """Facts, initialisation, then epochs of training and judgement until the error is at most the target."""
    found = events(log)
    assert all(list(each) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"] for each in found)
    assert [each["time_ms"] for each in found] == sorted(each["time_ms"] for each in found)
    for each in found:
        ending = each["key"].rpartition("_")[2]
        kind = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}.get(ending, "POINT_IN_TIME")
        assert each["event_type"] == kind
    keys = [each["key"] for each in found]
    begin = keys.index("init_start")
    errors = [each["value"] for each in found if each["key"] == "eval_error"]
    assert keys[0] == "submission_benchmark"
    assert keys[begin:] == BEFORE + len(errors) * EPOCH + ["run_stop"]
    assert found[-1]["metadata"] == {"status": "success"}
    assert errors[-1] <= 0.12 < min(errors[:-1], default=1.0)
    assert [each["metadata"]["epoch_num"] for each in found if each["key"] == "epoch_stop"] == [
        number + 1 for number in range(len(errors))
    ]


@pytest.mark.slow
def test_the_time_is_that_of_the_run_and_none_where_the_quality_was_not_reached(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for target, status in (("1", "success"), ("1e-9", "aborted")):
        quality.main(["--target", target, "--epochs", "1", "--log", str(tmp_path / "log")])
        told = json.loads(capsys.readouterr().out)
        found = {each["key"]: each for each in events(tmp_path / "log")}
        assert found["run_stop"]["metadata"]["status"] == status
        took_s = (found["run_stop"]["time_ms"] - found["run_start"]["time_ms"]) / 1e3
        assert told["time_to_quality_s"] == (rounded(took_s) if target == "1" else None)


@pytest.mark.skipif(not importlib.util.find_spec("mlperf_logging"), reason="needs mlperf-logging")
def test_mlperfs_own_checker_has_nothing_to_say(log: Path, tmp_path: Path) -> None:
    """By the rules for HPC 3.0, open division, under the name of a benchmark that these know."""
    renamed = tmp_path / "renamed"
    renamed.write_text(log.read_text().replace('"cvae_28"', '"cosmoflow"'))
    command = [sys.executable, "-m", "mlperf_logging.compliance_checker", "--usage", "hpc", "--ruleset", "3.0.0"]
    checked = subprocess.run([*command, str(renamed)], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
