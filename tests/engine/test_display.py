"""What a terminal shows of a state."""

import io
import time

import pytest
from rich.console import Console

from steersman.engine.display import Display, view
from steersman.engine.journal import Record
from steersman.engine.state import State
from steersman.steering import budget

TEXT = "bus: [/tmp/run] refused [red]what[/] it was given"


@pytest.fixture
def state() -> State:
    records: list[Record] = [
        {"kind": "run", "t": 1.0, "workflow": "x", "seed": 1, "rounds": False, "slots": 1, "guided": False, "gpus": 0,
         "time_unit": "1"},
        {"kind": "session", "t": 2.0, "host": "here", "pid": 1},
        {"kind": "note", "t": 3.0, "text": "of an earlier session"},
        {"kind": "note", "t": time.time() + 60, "text": TEXT},
    ]  # fmt: skip
    return State(records)


def test_words_of_others_are_shown_as_they_are(state: State) -> None:
    """A path or an exception may look like markup."""
    console = Console(file=io.StringIO(), width=120)
    console.print(view(state, budget(frames=10), "x", 5.0))
    assert TEXT in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_log_tells_each_note_once(state: State, capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(budget(frames=10), "x")
    for now in (100.0, 200.0):
        display.show(state, now)
    assert capsys.readouterr().err.count(TEXT) == 1
