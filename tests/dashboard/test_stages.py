"""The workflow as a graph: the stages that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from steersman.dashboard.live.views import stages
from steersman.dashboard.live.watched import Watched
from steersman.data.history import History
from steersman.executors import site_files
from steersman.journal import run_directory
from steersman.journal.file import Journal
from steersman.journal.records import Run, Session
from steersman.journal.run_directory import create
from steersman.stages import loading
from steersman.stages.kinds import STAGES

ALL = ["prepare", "simulate", "store", "train", "score", "steer"]


@pytest.mark.parametrize(
    ("has", "shown"), [(("simulate", "score"), ["simulate", "store", "score", "steer"]), ((), ALL), (tuple(ALL), ALL)]
)
def test_only_stages_that_a_workflow_has_are_shown(has: tuple[str, ...], shown: list[str], tmp_path: Path) -> None:
    """All of them where the journal is older, and does not say it."""
    directory = create(tmp_path, "run")
    site = site_files.load_site("laptop").model_dump(mode="json")
    settings = {"workflow": "w", "seed": 0, "rounds": False, "params": {}, "site": site}
    run_directory.write_settings(directory, settings, loading.find("double_well"))
    journal = Journal(directory.journal)
    journal.append(Run(workflow="w", seed=0, slots=1, stages=has), Session(host="here", pid=1))
    journal.close()
    assert [stage["name"] for stage in stages.answer(Watched.of(History(directory)))["stages"]] == shown


def test_every_stage_of_the_loop_has_its_place_in_the_drawing() -> None:
    drawn = Path(stages.__file__).with_suffix(".js").read_text()
    places = re.findall(r"(\w+): \[\d, \d\]", drawn)
    loop = {each.recorded for each in STAGES} - {""}  # what is before it makes what prepare would
    assert loop <= {*places}
