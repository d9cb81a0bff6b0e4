"""What Steersman 0.1 wrote is, converted, a run of today; unconverted it is refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import steersman
from lab.convert_0_1 import convert
from steersman.data.history import History
from steersman.data.verify import verify
from steersman.journal.errors import JournalTooNew
from steersman.journal.file import Journal
from steersman.journal.records import Note
from steersman.journal.state import State

OLD = Path(__file__).with_name("run_of_0_1")


def test_a_converted_run_says_what_that_version_said_of_it(tmp_path: Path) -> None:
    """All but how many files there are, and what that version did not say yet; its frames have their segments."""
    directory = convert(OLD, tmp_path / "new")
    then = json.loads((OLD / "status.json").read_text())
    now = json.loads(json.dumps(History(directory).overview().as_plain()))
    for model in now["models"]:
        del model["reason"]
    same = then.keys() & now.keys() - {"path", "name"}
    assert {name: now[name] for name in same} == {name: then[name] for name in same}
    assert not History(directory).flaws
    run = steersman.open_run(directory.path)
    assert list(run.scores.columns) == ["segment", "walker", "row", "time", "x", "z_0", "error"]
    walker = run.frames["w0"].to_dataset()
    assert walker.groupby("segment").count().sizes["segment"] == walker.sizes["ended_segment"]
    assert run.lineage(run.segments.index[-1]).sizes["frame"] == 27
    assert verify(directory) == []


def test_it_goes_on_in_one_chain(tmp_path: Path) -> None:
    directory, state = convert(OLD, tmp_path / "new"), State()
    written = Journal(directory.journal, replay=state.apply)
    written.append(Note(text="of today"))
    written.close()
    assert not History(directory).flaws


def test_a_run_that_was_not_converted_is_refused() -> None:
    with pytest.raises(JournalTooNew) as refused:
        steersman.open_run(OLD)
    assert refused.value.version == 1
