"""The Steersman of here as a wheel: pip takes it, and what it installs answers questions."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steersman.remote import facts, install, install_there
from steersman.remote.site import RemoteSite
from steersman.remote.wire import decode, encode


@pytest.mark.slow
def test_the_wheel_is_this_steersman(tmp_path: Path) -> None:
    name, content = install.wheel()
    (tmp_path / name).write_bytes(content)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target"]
    subprocess.run([*command, str(tmp_path / "there"), str(tmp_path / name)], check=True, capture_output=True)
    asked = {"protocol": 1, "folder": str(tmp_path), "run": "x", "questions": [("look", {"log": None})]}
    run = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'there')!r})\n"]
    run[-1] += "from steersman.remote import there; print(there.__file__, file=sys.stderr); there.main()"
    done = subprocess.run(run, input=encode(asked), capture_output=True, text=True, check=True)
    assert str(tmp_path / "there") in done.stderr
    assert decode(done.stdout)["answers"][0]["state"] == "unknown"


@pytest.mark.slow
def test_what_was_installed_there_answers(site: Callable[..., RemoteSite], monkeypatch: pytest.MonkeyPatch) -> None:
    """Sent by the real SDK; pip takes the wheel alone, for the rest it would need minutes."""
    monkeypatch.setenv("PIP_NO_DEPS", "1")
    found = install.install(site())
    there = site(python=found["python"]).facts()
    assert there["executable"] == found["python"]
    assert there["steersman"] == facts.versions()["steersman"]
    assert not there["parsl"], "an environment of its own"


@pytest.mark.slow
def test_what_pip_says_comes_back(tmp_path: Path) -> None:
    given = {
        "folder": str(tmp_path),
        "wheel": "steersman-0.1.0-py3-none-any.whl",
        "extras": "",
        "content": "bm90IG9uZQ==",
    }
    program = [sys.executable, install_there.__file__]
    done = subprocess.run(program, input=json.dumps(given), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["python"] == str(tmp_path / "venv" / "bin" / "python")
    assert "wheel" in found["problem"].lower()
