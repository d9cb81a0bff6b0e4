"""Odd files in place of those of a run: no command reads another file of the reader, waits for ever or fills memory."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.cli.__main__ import main
from steersman.dashboard import report
from steersman.dashboard.live.gallery import Gallery
from steersman.journal import run_directory
from steersman.journal.run_directory import RunDirectory
from steersman.system import reading
from steersman.system.files import replace_file
from tests.dashboard.conftest import MadeRun
from tests.dashboard.serving import serving

SECRET = "not yours to pass on"
COMMANDS = {
    "run.yaml": ["status"],
    "site.yaml": ["status"],
    "decisions.jsonl": ["why w0.4", "verify", "verify --repair"],
    "environment.json": ["why w0.4 --tree", "verify --repair"],
    "errors/w0.4.txt": ["report", "export --tables tables"],
    "topology.pdb": ["report"],
    ".lock": ["verify --repair"],
    "driver.json": ["status"],
    "manifest.sha256": ["verify", "report"],
    "models/0001/card.json": ["report", "why w0.4 --tree"],
    "analysis/analysis.json": ["report"],
    "analysis/figure.svg": ["report"],
    "journal.jsonl": ["journal"],
    "workflow.py": ["watch", "report"],
    ".remote/copy.json": ["status"],
    "report.html": ["report"],
    "figures/sampled.svg": ["report"],
}  # those that read or write it
ENDS_S = 100
MOST_BYTES = 6 * 2**30  # of addresses that commands may take beyond what they have


def link(path: Path, elsewhere: Path) -> None:
    path.symlink_to(elsewhere)


def folder_link(path: Path, elsewhere: Path) -> None:
    """The folder itself lies elsewhere; of a file at the top, a link to a file above."""
    target = elsewhere.parent / "folder"
    target.mkdir()
    (target / path.name).write_text(SECRET)
    if path.parent.name == "fold-0001":
        return path.symlink_to(target / path.name)
    for each in sorted(path.parent.rglob("*"), reverse=True):
        each.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(target)
    return None


def huge(path: Path, elsewhere: Path) -> None:
    path.touch()
    os.truncate(path, 2**40)


ODD: dict[str, Callable[[Path, Path], Any]] = {
    "link": link,
    "folder link": folder_link,
    "pipe": lambda path, elsewhere: os.mkfifo(path),
    "device": lambda path, elsewhere: path.symlink_to("/dev/zero"),
    "folder": lambda path, elsewhere: path.mkdir(),
    "huge": huge,
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    made = MadeRun(tmp_path_factory.mktemp("kept") / "fold-0001", segments=6).write()
    replace_file(made.environment_file, json.dumps(run_directory.environment()))
    made.decisions.write_text('{"start": 1, "candidates": 3, "refused": []}\n')
    made.workflow.write_text("raise SystemExit")
    return made


@pytest.fixture
def ended() -> Iterator[None]:
    """The test ends, and with an error where it would take all memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MOST_BYTES, before[1]))
    signal.alarm(ENDS_S)
    yield
    signal.alarm(0)
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.usefixtures("ended")
def test_an_odd_file_is_refused_or_left_alone(
    odd: str, kept: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "FIGURES", {})
    monkeypatch.setattr(reading, "MOST_LINE", 2**20)
    for number, (file, commands) in enumerate(COMMANDS.items()):
        here = tmp_path / str(number)
        run, elsewhere = here / "fold-0001", here / "elsewhere"
        shutil.copytree(kept.path, run)
        elsewhere.write_text(SECRET)
        (run / file).parent.mkdir(exist_ok=True)
        (run / file).unlink(missing_ok=True)
        ODD[odd](run / file, elsewhere)
        for words in commands if odd != "huge" else set(commands) - {"verify --repair"}:  # which hashes what it seals
            verb, *others = words.split()
            monkeypatch.chdir(here)
            monkeypatch.setattr(sys, "argv", ["steersman", verb, str(run), *others])
            with pytest.raises(SystemExit):
                main()
        printed = capsys.readouterr()
        assert SECRET not in printed.out + printed.err
        assert elsewhere.read_text() == SECRET
        found = [path for path in here.rglob("*") if path.is_file() and not path.is_symlink()]
        small = [path for path in found if path.stat().st_size < 2**30]
        told = {path for path in small if SECRET in path.read_text(errors="replace")}
        assert told <= {elsewhere, here / "folder" / Path(file).name}, file


@pytest.mark.parametrize("odd", ["link", "folder link", "pipe", "huge"])
@pytest.mark.usefixtures("ended")
def test_the_page_shows_nothing_of_it_either(odd: str, kept: RunDirectory, tmp_path: Path) -> None:
    run = tmp_path / "fold-0001"
    shutil.copytree(kept.path, run)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(SECRET)
    for name in ("errors/w0.4.txt", "topology.pdb", "run.yaml", "environment.json", "workflow.py"):
        (run / name).unlink(missing_ok=True)
        ODD[odd](run / name, elsewhere) if odd != "folder link" or name == "errors/w0.4.txt" else None
    with serving(RunDirectory(run)) as served:
        for view in (
            "segments",
            "state",
            "stderr?segment=w0.4",
            "topology",
            "stages",
            "settings",
            "models",
            "failures",
        ):
            assert SECRET.encode() not in served.ask(f"/run/fold-0001/{view}").body


@pytest.mark.parametrize("words", [["status"], ["report"], ["dashboard"], ["verify"]])
def test_a_folder_whose_name_is_no_text_is_refused_in_a_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And no other run of its folder suffers."""
    odd = MadeRun(tmp_path / "fold-0001", segments=2).write().path.rename(tmp_path / os.fsdecode(b"fo\xffld"))
    monkeypatch.setattr(sys, "argv", ["steersman", *words, str(odd)])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "UTF-8" in capsys.readouterr().err
    assert Gallery([], tmp_path).keys == []
