"""Words of others on a terminal: shown, whatever they hold; never obeyed."""

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from steersman.cli import display, printing, records
from steersman.cli.__main__ import main
from steersman.data import why
from steersman.data.overview import overview
from steersman.executors.preflight import Finding
from steersman.journal.records import Began, Hired, Joined, Metrics, Note, Record, Run, Session, Stage, Start, Tell
from steersman.journal.state import State
from steersman.steering import budget

ODD = "\x00\x07\x08\x0b\r\x1b\x7f\x85\x9b\u00ad\u200b\u200f\u2028\u202e\u2066\ufeff\ud800\udcff\U000e0001"
TEXTS = st.text(st.one_of(st.sampled_from(ODD + "[]m;1é中\n\t"), st.characters()), max_size=30)


def is_shown(text: str) -> bool:
    return all(each.isprintable() or each in "\n\t" for each in text)


def printed(show: Callable[[], object]) -> str:
    """What a call writes to standard output and error."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(written):
        show()
    return written.getvalue()


@given(TEXTS)
def test_a_terminal_finds_nothing_to_obey_and_plain_text_is_left_alone(text: str) -> None:
    shown = printing.shown(text)
    assert is_shown(shown)
    assert printing.shown(shown) == shown
    assert shown == text or not is_shown(text)


def test_a_frame_of_a_segment_has_no_thumb() -> None:
    """rich draws a picture in place of a word between colons."""
    for text in ("w2.0:-1: there is no such frame", ":+1: :smile:"):
        for console in (printing.out, printing.err):
            assert printed(lambda show=console.print, text=text: show(escape(text), highlight=False)) == f"{text}\n"  # type: ignore[misc]


@given(TEXTS)
def test_whatever_prints_shows_it(text: str) -> None:
    table = Table(escape(text), title=escape(text))
    table.add_row(Text(text))
    printed_by: list[Callable[[], object]] = [
        lambda: printing.say(text),
        lambda: printing.out.print(escape(text), table, Text(text)),
        lambda: printing.err.plain(text),
        lambda: printing.print_text(text, text),
        lambda: printing.print_checks([Finding(text, True, text), Finding("x", False, f"{text}\n{text}")]),
    ]
    for show in printed_by:
        assert is_shown(printed(show))


@pytest.mark.slow
@given(TEXTS)
def test_a_run_full_of_odd_words_is_shown(text: str) -> None:
    """Status, watch, the log of a run, journal and why."""
    found: list[Record] = [
        Run(t=1.0, workflow=text, seed=1, slots=1, guided=True, time_unit=text),
        Session(t=2.0, host=text, pid=1),
        Start(t=2.0, start=0, seed=1, policy=text, reason=text),
        Hired(t=2.0, walker=0, slot=0),
        Joined(t=2.0, walker=0, node=text, pool=text),
        Began(t=3.0, walker=0, segment=0, start=0, first_row=0),
        Metrics(t=3.0, values={text: 1.0}),
        Stage(t=3.0, stage=text, ok=False, cause=text),
        Tell(t=3.0, id="1", who=text, verb="pause", text=text),
        Note(t=4.0, text=text),
    ]
    state = State(found)
    told = dict.fromkeys(("segment", "origin", "policy", "reason", "ended", "cause"), text) | {
        "start": 0, "seed": 1, "parent": None, "model": 0, "candidates": 1, "attempt": 0, "frames": 1, "hot": 1,
        "repeats": True, "condition": {},
        "draw": {text: 1.0},
        "with_model": 0,
        "bias": 0,
        "share": 1.0,
        "refused": [{"frame": {"name": text}, "reason": text}],
        "stopped_by": {"by": text, "reason": text},
    }  # fmt: skip
    seen = overview(state, Path(), rule=budget(frames=10), now=5.0, driven_here=True)
    shows: list[Callable[[], object]] = [
        lambda: printing.out.print(display.view(state, seen, text)),
        lambda: printing.out.print(display.closing(seen)),
        lambda: display.Display(text).show(state, lambda: seen, 100.0),
        lambda: printing.say("\n".join(why.lines(told))),
        lambda: printing.say("\n".join(map(records.line, found))),
    ]
    for show in shows:
        assert is_shown(printed(show))
    for record in found:
        assert "\n" not in records.line(record), "it would pass for another record"


@pytest.mark.slow
@given(TEXTS.map(lambda text: text.replace("\x00", "")))
def test_odd_words_of_a_command_are_shown(word: str) -> None:
    for words in ([word], ["run", word], ["status", word], ["run", "double_well", "--set", word]):

        def ended(words: list[str] = words) -> None:
            with mock.patch.object(sys, "argv", ["steersman", *words]), pytest.raises(SystemExit):
                main()

        said = printed(ended)
        assert is_shown(said)
        assert "Traceback" not in said


def test_without_a_terminal_progress_is_a_line_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    with printing.counting("2 campaigns in here") as count:
        count("1 of 2")
        count("2 of 2")
    assert capsys.readouterr().err.splitlines() == ["2 campaigns in here", "1 of 2", "2 of 2"]


def test_results_alone_come_on_standard_output_whatever_prints() -> None:
    """Of programs that a workflow file starts, too; and afterwards all is as before."""
    code = (
        "import os, sys\n"
        "from steersman.cli.printing import results_alone, say\n"
        "with results_alone():\n"
        "    print('python'); os.system('echo program'); os.write(1, b'bytes\\n'); say('{}')\n"
        "    say('error', to_stderr=True)\n"
        "say('after'); print('printed')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["{}", "after", "printed"]
    assert {*done.stderr.split()} == {"python", "program", "bytes", "error"}


def test_a_file_gets_no_codes_that_move_a_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though colours are forced, as in Jupyter."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    console, written = printing.Shown(), io.StringIO()
    console.file = written
    with console.status("working"):
        console.print("[red]result[/]")
    assert written.getvalue() == "\x1b[31mresult\x1b[0m\n"
