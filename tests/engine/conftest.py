"""Whole runs by the command line, as a user starts them: real server, real Parsl workers, real Zarr."""

import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import pytest

from steersman.bus import Server, TupleSpace
from steersman.cli.__main__ import main
from steersman.journal import file as journal
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import words
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State

Steersman = Callable[..., subprocess.CompletedProcess[str]]
WriteWorkflow = Callable[[str], Path]
CALLED = ("tell", "status", "why", "watch", "bus", "verify")
ONE_TRAINER = Path(__file__).with_name("one_trainer.yaml")
_drivers: list[subprocess.Popen[bytes]] = []

HEAD = """
import numpy as np
from steersman import Params, Workflow, budget, every, reached
from steersman.steering import *

class P(Params):
    frames: int = 400
    steps: int = 20
"""


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TupleSpace]:
    with Server.start(tmp_path_factory.mktemp("server")) as server, TupleSpace.connect(server.url) as made:
        yield made


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(Journal(tmp_path / "journal.jsonl"), State())


def steersman(*words: object, cwd: Path, timeout: float = 250) -> subprocess.CompletedProcess[str]:
    """Run `steersman WORDS` in a directory; in this process if it only looks at a run or tells it something."""
    environment = {"COLUMNS": "160", "NO_COLOR": "1"}
    if words[0] in CALLED:
        return _called([*map(str, words)], cwd, environment)
    environment = os.environ | environment
    return subprocess.run(_line(words), cwd=cwd, capture_output=True, text=True, timeout=timeout, env=environment)


def _called(words: list[str], cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A process would import for as long again as such a command takes."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd), patch.dict(os.environ, environment), patch.object(sys, "argv", ["steersman", *words]),
        patch.object(logging, "raiseExceptions", logging.raiseExceptions),
        contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end,
    ):  # fmt: skip
        main()
    return subprocess.CompletedProcess(words, int(end.value.code or 0), out.getvalue(), err.getvalue())


def _line(words: tuple[object, ...]) -> list[str]:
    """As it is started: a run that names no site trains in one process, since each imports torch, which takes long.

    It draws no report, which takes as long as a small run, unless a test wants it.
    """
    site = ["--site", str(ONE_TRAINER)] if words[0] == "run" and "--site" not in words else []
    quiet = ["--no-report"] if words[0] in ("run", "resume") and "--report" not in words else []
    return [sys.executable, "-m", "steersman.cli", *map(str, words), *site, *quiet]


def opened(path: Path) -> tuple[RunDirectory, State]:
    directory = RunDirectory(path)
    return directory, State(journal.read(directory.journal))


def completed(*words: object, cwd: Path, code: int | None = 0) -> tuple[RunDirectory, State, dict[str, Any]]:
    """A run that ended with an exit code (None: any): its directory, state and JSON summary."""
    done = steersman("run", *words, "--run-dir", cwd / "run", "--json", cwd=cwd)
    assert code is None or done.returncode == code, done.stderr[-4000:]
    directory, state = opened(cwd / "run")
    return directory, state, json.loads(done.stdout)


def started(*words: object, cwd: Path, stderr: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """A run in the background, in cwd/run, whose processes are a group as those of a terminal's command are."""
    quiet = subprocess.DEVNULL
    _drivers.append(subprocess.Popen(_line(words), cwd=cwd, stdout=quiet, stderr=stderr, start_new_session=True))
    return _drivers[-1]


@pytest.fixture(autouse=True, scope="module")
def no_driver_outlives_its_tests() -> Iterator[None]:
    """A test that fails leaves its driver behind; nothing may run beside the next."""
    yield
    for driver in _drivers:
        driver.kill()
        driver.wait()
    _drivers.clear()


def await_record(
    run: Path, found: Any, *, driver: subprocess.Popen[bytes] | None = None, within_s: float = 200
) -> State:
    """Follow a journal until its state fulfils a condition, or the run's driver is gone."""
    deadline, state, place = time.monotonic() + within_s, State(), journal.Cursor()
    while True:
        last = time.monotonic() > deadline or (driver is not None and driver.poll() is not None)
        for record in journal.follow(run / "journal.jsonl", place) if (run / "journal.jsonl").exists() else ():
            state.apply(record)
        if found(state):
            return state
        if last:
            raise AssertionError(f"the run did not come so far; its end: {state.end}\n{_last_words(run)}")
        time.sleep(0.05)


def _last_words(run: Path) -> str:
    """The ends of its log and its journal: of a run on another machine nothing else is left."""
    files = [file for file in (run / "driver.log", run / "journal.jsonl") if file.exists()]
    return "\n".join(line for file in files for line in file.read_text().splitlines()[-20:])


def servers_brought_back(state: State) -> int:
    return sum(words(note).startswith("the bus server died") for note in state.notes)


def resumed(run: Path, *, until: Callable[[State], Any]) -> State:
    """Resume a run, wait until its state fulfils a condition, tell it to finish; its state then."""
    return finished(started("resume", run, cwd=run), run, until=until)


def finished(driver: subprocess.Popen[bytes], run: Path, *, until: Callable[[State], Any]) -> State:
    """Wait until the state of a run fulfils a condition, tell its driver to finish; the state then."""
    await_record(run, until, driver=driver)
    assert steersman("tell", run, "finish", cwd=run).returncode == 0
    assert driver.wait(timeout=200) == 0
    return opened(run)[1]


@pytest.fixture
def write_workflow(tmp_path: Path) -> WriteWorkflow:
    """Write a workflow file outside the repository, as a user has it."""

    def write(body: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(HEAD + textwrap.dedent(body))
        return path

    return write
