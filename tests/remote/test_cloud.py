"""A short run through the real Globus Compute: `GLOBUS_E2E_ENDPOINT=UUID make test-globus`, for who is logged in.

GLOBUS_E2E_PYTHON names the Python at the endpoint that has Steersman, where it is not the endpoint's own.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from steersman.data.history import History
from steersman.data.verify import verify
from steersman.journal.run_directory import open_run
from tests.conftest import WITHOUT_SDK

WORKFLOW = str(Path(__file__).with_name("workflow.py"))
ENDPOINT = os.environ.get("GLOBUS_E2E_ENDPOINT", "")

pytestmark = pytest.mark.skipif(not ENDPOINT, reason="GLOBUS_E2E_ENDPOINT names no endpoint")


@pytest.mark.timeout(1800)
def test_a_run_goes_there_and_comes_back(tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    environment["PYTHONPATH"] = environment["PYTHONPATH"].removeprefix(WITHOUT_SDK + os.pathsep)

    def steersman(*words: str, code: int = 0) -> str:
        command = [sys.executable, "-m", "steersman.cli", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    python = os.environ.get("GLOBUS_E2E_PYTHON", "")
    steersman("endpoints", "add", "e2e", ENDPOINT, "--python", python, "--folder", "~/steersman-e2e")
    found = json.loads(steersman("remote", "check", "--at", "e2e", "--json"))
    assert all(each["ok"] for each in found), found
    name = f"e2e-{secrets.token_hex(4)}"
    for _ in range(2):
        steersman("submit", WORKFLOW, "--at", "e2e", "--workers", "1", "--set", "frames=300", "--name", name)
    steersman("remote", "watch", name)
    assert "finished" in steersman("remote", "why", name, "w0.0")
    steersman("remote", "fetch", name, "--what", "all")
    copy = open_run(tmp_path / "runs" / name)
    assert verify(copy) == []
    assert History(copy).state.frames >= 300
