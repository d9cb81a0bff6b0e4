"""A run that has ended is sealed: any one changed byte, and any one file that is gone, is found."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steersman.cli.__main__ import main
from steersman.data.repair import repair
from steersman.data.verify import verify
from steersman.journal import manifest
from steersman.journal.errors import RunIsLocked
from steersman.journal.lock import Lock
from steersman.journal.run_directory import RunDirectory
from tests.engine.conftest import completed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run with models and scores that came to its end."""
    cwd = tmp_path_factory.mktemp("sealed")
    words = (
        "double_well",
        "--set",
        "barrier_kT=30",
        "--set",
        "frames=2500",
        "--set",
        "train_every=800",
        "--seed",
        1,
        "--report",
    )
    directory, state, _ = completed(*words, cwd=cwd)
    assert state.scored_with
    assert verify(directory) == []
    return directory


def files(directory: RunDirectory) -> list[Path]:
    """All but the lock, the bus, and Parsl's logs, to which a scheduler may add when all is over."""
    found = [Path(folder, name) for folder, _, names in os.walk(directory.path) for name in names]
    names = (path.relative_to(directory.path) for path in found if path.name != ".lock")
    return sorted(name for name in names if name.parts[0] not in ("parsl", "bus"))


def test_one_changed_byte_in_any_file_is_found(sealed: RunDirectory) -> None:
    unseen = []
    for name in files(sealed):
        path = sealed.path / name
        whole = path.read_bytes()
        for at in {len(whole) // 2, len(whole) - 1} if whole else set():
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            if not verify(sealed):
                unseen.append((name, at))
        path.write_bytes(whole)
    assert unseen == []
    assert verify(sealed) == []


def test_any_file_that_is_gone_is_found(sealed: RunDirectory) -> None:
    unseen = []
    for name in files(sealed):
        path = sealed.path / name
        path.rename(path.with_name("gone"))
        if not verify(sealed):
            unseen.append(name)
        path.with_name("gone").rename(path)
    assert unseen == []


@pytest.mark.parametrize(
    "name", ["journal.jsonl", "decisions.jsonl", "run.yaml", "workflow.py", "environment.json", "models", "scores.zarr"]
)
def test_what_was_repaired_verifies(sealed: RunDirectory, tmp_path: Path, name: str) -> None:
    """A byte changed in the middle of a file, or of the first large file of a folder."""
    copy = RunDirectory(shutil.copytree(sealed.path, tmp_path / "run"))
    path = copy.path / name
    if path.is_dir():
        path = max((each for each in path.rglob("*") if each.is_file()), key=lambda each: each.stat().st_size)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    problems = verify(copy)
    assert problems
    repair(copy, problems)
    assert verify(copy) == []


def test_nobody_meddles_while_the_report_is_drawn(
    sealed: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = RunDirectory(shutil.copytree(sealed.path, tmp_path / "run"))
    copy.manifest.unlink()
    copy.report.unlink()
    found = []

    def draw(directory: RunDirectory) -> None:
        found.append(verify(directory))
        with pytest.raises(RunIsLocked), Lock(directory.path).held():
            pass

    monkeypatch.setattr("steersman.dashboard.report.write_report", draw)
    monkeypatch.setattr(sys, "argv", ["steersman", "resume", str(copy.path)])
    with pytest.raises(SystemExit):
        main()
    assert found == [[]]
    assert verify(copy) == []


def test_the_manifest_is_what_sha256sum_reads(sealed: RunDirectory) -> None:
    lines = (sealed.path / manifest.UNSEALED[0]).read_text().splitlines()
    assert all(len(line.split("  ")[0]) == 64 for line in lines)
    assert {"journal.jsonl", "report.html", "run.yaml"} <= {line.split("  ")[1] for line in lines}


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "no text": lambda path: path.write_bytes(b"\xf3" + path.read_bytes()[1:]),
    "a folder": lambda path: path.rename(path.with_name("elsewhere")).with_name(path.name).mkdir(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["journal.jsonl", "decisions.jsonl", "run.yaml", "environment.json", "scores.zarr"])
def test_no_verb_ends_with_a_traceback(
    sealed: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: str
) -> None:
    copy = shutil.copytree(sealed.path, tmp_path / "run")
    path = copy / name
    DAMAGES[damage](next(path.glob("*/zarr.json")) if path.is_dir() else path)
    for words in (["status"], ["why", "w0.0"], ["why", "w0.0", "--tree"], ["journal"], ["replay"], ["verify"]):
        monkeypatch.setattr(sys, "argv", ["steersman", words[0], str(copy), *words[1:]])
        with pytest.raises(SystemExit):
            main()
