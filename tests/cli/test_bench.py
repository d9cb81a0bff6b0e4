"""What a benchmark leaves behind when it is ended."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from steersman.cli.__main__ import app
from steersman.cli.shipped import BENCHMARKS


@pytest.mark.slow
def test_a_benchmark_that_is_ended_leaves_no_server() -> None:
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "steersman.cli", "bench", "bus"]
    bench = subprocess.Popen(command, stdout=quiet, stderr=quiet)
    deadline = time.monotonic() + 120
    servers: list[psutil.Process] = []
    while not servers and time.monotonic() < deadline and bench.poll() is None:
        children = psutil.Process(bench.pid).children(recursive=True)
        servers = [each for each in children if "server" in each.name()]
    bench.send_signal(signal.SIGTERM)
    assert bench.wait(120) == 128 + signal.SIGTERM
    assert servers
    assert psutil.wait_procs(servers, timeout=120)[1] == []


@pytest.mark.parametrize("name", BENCHMARKS)
def test_each_benchmark_shows_its_own_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        app(["bench", name, "--help"], standalone_mode=False)
    assert not end.value.code
    assert f"usage: steersman bench {name}" in capsys.readouterr().out
