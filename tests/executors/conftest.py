"""Commands of schedulers, which nothing but their answers can be had of."""

from __future__ import annotations

from pathlib import Path

import pytest


class Commands:
    """Commands on PATH that print what a scheduler's documentation shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def says(self, command: str, out: str = "", err: str = "", code: int = 0) -> None:
        (self.folder / "out").mkdir(exist_ok=True)
        (self.folder / "out" / command).write_text(out)
        (self.folder / "out" / f"{command}.err").write_text(err)
        at = self.folder / "out" / command
        script = f'#!/bin/sh\necho "$@" >> {at}.asked\n/bin/cat {at}\n/bin/cat {at}.err >&2\nexit {code}\n'
        (self.folder / command).write_text(script)
        (self.folder / command).chmod(0o755)

    def asked(self, command: str) -> str:
        return (self.folder / "out" / f"{command}.asked").read_text()


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Commands(tmp_path)
