"""A run that is given another workflow file, again and again, and killed at any moment of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from steersman.data.verify import Problem, verify
from steersman.engine import campaign
from steersman.journal import file as journal
from steersman.journal.calls import RESULT
from steersman.journal.records import Called, End, Session, Task
from steersman.journal.run_directory import RunDirectory

FILE = """
from steersman import Workflow, budget
from mends import word

wf = Workflow("mended", stop=budget(frames=1))

@wf.task
def other(): return 1

@wf.task
def table(): return word()

@wf.after
def answer(p, run): return [table.later(), other.later()]

@wf.simulate()
def segment(p, start, out): out.append(x=1.0)
"""
ONE, TWO = "def word(): return 'one'\n", "def word(): return 'two'\n"
VERSIONS = [  # the file and its modules
    {"my.py": FILE, "mends.py": ONE},
    {"my.py": FILE, "mends.py": TWO},
    {"my.py": FILE + "# a comment\n", "mends.py": TWO},
    {"my.py": FILE, "mends.py": ONE},
    {"my.py": FILE, "mends/__init__.py": "from .words import word\n", "mends/words.py": ONE},
    {"my.py": FILE, "mends.py": TWO},
    {"my.py": FILE.replace("from mends import word", "def word(): return 'three'")},
    {"my.py": FILE, "mends.py": ONE},
]  # fmt: skip

pytestmark = pytest.mark.slow
TASKS = ("other", "table", "answer")


def written(folder: Path, version: dict[str, str]) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in version.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "my.py"


def begun(folder: Path, run: Path) -> RunDirectory:
    plan = campaign.plan(str(written(folder, VERSIONS[0])), seed=1)
    made = campaign.begin(plan, run_dir=run)
    directory = made.directory
    made._record_session(0)
    called(directory, made.recorder)
    made.recorder.journal.close()
    return directory


def called(directory: RunDirectory, recorder: Any) -> set[str]:
    """Have what a plan calls done, as far as it is not; its names."""
    missing = {name for name in TASKS if name not in recorder.state.calls}
    for name in TASKS:
        if name in missing:
            directory.task(name).mkdir(parents=True, exist_ok=True)
            (directory.task(name) / RESULT).write_bytes(name.encode())
            needs = TASKS[:2] if name == "answer" else ()
            digest = hashlib.sha256(name.encode()).hexdigest()
            recorder.record_all([Called(call=name, task=name, needs=needs), Task(call=name, sha256=digest)])
    recorder.record(End(outcome="budget", reason=""))
    return missing


def resumed(directory: RunDirectory, source: Path | None = None) -> set[str]:
    """Go on to the end; the names of the calls that were made again."""
    made = campaign.resume(directory, source=source)
    made._record_session(0)
    again = called(directory, made.recorder)
    made.recorder.journal.close()
    return again


def kept(directory: RunDirectory) -> dict[str, str]:
    """The workflow file of a run and its modules."""
    files = [path for path in directory.modules.rglob("*") if path.is_file() and not path.is_symlink()]
    modules = {str(path.relative_to(directory.modules)): path.read_text() for path in files}
    return {"my.py": directory.workflow.read_text()} | {n: t for n, t in modules.items() if "__pycache__" not in n}


def damaged(directory: RunDirectory) -> list[Problem]:
    """No seal was written here."""
    return [problem for problem in verify(directory) if problem.what != "manifest"]


def test_a_correction_follows_a_correction_any_number_of_times(tmp_path: Path) -> None:
    """Only what is another is called again; each version is kept once."""
    directory = begun(tmp_path / "mine", tmp_path / "run")
    for old, new in pairwise([*VERSIONS, *VERSIONS[1:]]):
        again = resumed(directory, written(tmp_path / "mine", new))
        assert again == (set() if (old, new) == (VERSIONS[1], VERSIONS[2]) else {"table", "answer"})
        assert kept(directory) == new
        assert damaged(directory) == []
        assert resumed(directory, tmp_path / "mine" / "my.py") == set()
    story = list(journal.read(directory.journal))
    assert [each.after for each in story if isinstance(each, Session)] == [
        None, *(before.t for before, each in pairwise(story) if isinstance(each, Session) and isinstance(before, End))
    ]  # fmt: skip
    assert len(list((directory.path / "aside").iterdir())) == len({str(version) for version in VERSIONS})


@pytest.mark.parametrize("number", [1, 2, 5])
def test_who_is_killed_in_a_correction_leaves_the_file_before_or_this_one(number: int, tmp_path: Path) -> None:
    """And the same correction, or another one, comes behind it; whenever that was."""
    old, new, other = VERSIONS[number - 1], VERSIONS[number], VERSIONS[number - 2]
    first = begun(tmp_path / "mine", tmp_path / "run")
    resumed(first, written(tmp_path / "mine", old))
    outcomes = []
    for moment in count():
        directory = RunDirectory(tmp_path / f"run-{moment}")
        shutil.copytree(first.path, directory.path, symlinks=True)
        if not killed(directory, written(tmp_path / "mine", new), moment):
            break
        assert damaged(directory) == [], moment
        again = resumed(directory)
        assert kept(directory) in (old, new), moment
        outcomes.append(kept(directory) == new)
        assert again == (set() if number == 2 or kept(directory) == old else {"table", "answer"})
        resumed(directory, written(tmp_path / "mine", other))
        assert kept(directory) == other
        assert damaged(directory) == []
        shutil.rmtree(directory.path)
    assert outcomes == sorted(outcomes), "from one moment on it is the new one"
    assert {*outcomes} == {False, True}


def killed(directory: RunDirectory, source: Path, moment: int) -> bool:
    """Give a run a file in a process that is killed before it changes anything for that many times, if it does."""
    child = os.fork()
    if not child:
        try:
            made = campaign.resume(directory, source=source)
            left = [moment]

            def hook(event: str, given: Any) -> None:
                changes = (
                    given[2] & (os.O_WRONLY | os.O_RDWR) if event == "open" else event.startswith(("os.", "shutil"))
                )
                if changes and str(directory.path) in str(given[0]) and event not in ("os.listdir", "os.scandir"):
                    left[0] -= 1
                    if left[0] < 0:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(hook)
            made._record_session(0)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return bool(status)
