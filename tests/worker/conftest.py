"""A run directory in which functions of workers are called here, without engine and Parsl."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steersman.bus import Server, TupleSpace
from steersman.executors import site_files
from steersman.journal import run_directory
from steersman.journal.run_directory import RunDirectory
from steersman.worker import tasks

MadeRun = Callable[[str], RunDirectory]
HEAD = """
import numpy as np
from steersman import Workflow, budget
wf = Workflow("here", stop=budget(frames=1))
"""


@pytest.fixture
def space(tmp_path: Path) -> Iterator[TupleSpace]:
    with Server.start(tmp_path / "bus") as server, TupleSpace.connect(server.url) as space:
        yield space


@pytest.fixture
def made_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeRun:
    """Make the directory of a run of a workflow with these stages."""
    monkeypatch.setattr(tasks, "end_with_parent", lambda: None)

    def make(stages: str) -> RunDirectory:
        source = tmp_path / "mine.py"
        source.write_text(HEAD + textwrap.dedent(stages))
        directory = run_directory.create(tmp_path, "here", tmp_path / "run")
        site = site_files.load_site("laptop").model_dump(mode="json")
        run_directory.write_settings(directory, {"params": {}, "site": site, "seed": 0}, source)
        return directory

    return make
