"""What is written beside a seal is no part of it."""

from pathlib import Path

import pytest

from steersman.journal import manifest
from steersman.journal.run_directory import RunDirectory, sha256
from steersman.system.files import PARTIAL


def test_a_file_that_goes_while_a_run_is_sealed_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver keeps its lock fresh, and who looks at it writes a file for a moment."""
    for name in ("journal.jsonl", "passing", f"driver.json.1{PARTIAL}"):
        (tmp_path / name).write_text(name)

    def goes(path: Path) -> str:
        (tmp_path / "passing").unlink(missing_ok=True)
        return sha256(path)

    monkeypatch.setattr(manifest, "sha256", goes)
    directory = RunDirectory(tmp_path)
    manifest.seal(directory)
    (tmp_path / f"driver.json.1{PARTIAL}").unlink()
    (tmp_path / f"driver.json.2{PARTIAL}").touch()
    assert list(manifest.changes(directory)) == []
