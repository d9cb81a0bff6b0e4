"""The report: one page that needs nothing else, tells why, and never fails a finished run."""

from __future__ import annotations

import pickle
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from steersman.calls.start import describe
from steersman.dashboard import figures, page, report, style
from steersman.dashboard.live import gallery
from steersman.dashboard.live.views import stages
from steersman.dashboard.live.watched import Watched
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.executors.site import Site
from steersman.journal import file, run_directory
from steersman.journal.errors import BadDirectory
from steersman.journal.file import Journal
from steersman.journal.records import Note, Run, Tell
from steersman.journal.run_directory import RunDirectory
from steersman.stages import trust
from steersman.stages.errors import UntrustedCode
from tests.dashboard.conftest import HOSTILE, REASON
from tests.dashboard.kept import captions, kept

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Collects what a browser would act on; scripts apart from what people read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.references: list[str] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] in ("script", "style") else self.words).append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def read(directory: RunDirectory) -> Page:
    return Page(directory.report.read_text(encoding="utf-8"))


def write(directory: RunDirectory) -> Page:
    report.write_report(directory)
    return read(directory)


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of the text: figures take most of the time."""
    monkeypatch.setattr(report, "FIGURES", {})


@pytest.mark.slow
def test_the_report_is_one_page_that_needs_nothing_else(reported: RunDirectory) -> None:
    page = read(reported)
    assert page.open == []
    assert not {"link", "iframe", "img"} & set(page.tags)
    assert all(reference.startswith(("#", "data:")) for reference in page.references)
    assert not any("@import" in text for text in page.scripts)


def test_the_report_tells_outcome_reasons_models_and_commands(reported: RunDirectory) -> None:
    words, found = read(reported).text, kept(reported)
    assert "reached its goal" in words, "without JavaScript, too"
    name, below, parent, _, reason, _ = found["starts"]["rows"][0]
    segments = History(reported).segments
    assert (below, reason) == (segments.descendants().max(), REASON)
    assert (segments.find(name) >= 0, parent) == (True, "")
    assert found["models"]["versions"][1]["reason"] == "worse than its predecessor"
    assert any(
        re.search(r"steersman why \S*fold-0001 w[01]\.\d+", each) for each in found["stages"]["settings"]["commands"]
    )
    assert found["state"]["facts"]["segments"] == {"finished": 22, "failed": 1, "stopped": 1}


def test_every_figure_is_in_the_page_and_in_its_folder(reported: RunDirectory) -> None:
    assert [each["name"] for each in kept(reported)["panels"]["panels"]] == [*figures.FIGURES]
    assert {path.stem for path in reported.figures.iterdir()} == set(figures.FIGURES)


def test_text_of_others_is_never_markup(reported: RunDirectory) -> None:
    """A cause, a traceback, a reason and a parameter hold tags; none of them becomes one."""
    assert "<script>alert" not in reported.report.read_text()
    found = kept(reported)
    assert HOSTILE in found["failures"]["groups"][0]["cause"]
    assert HOSTILE in next(answer["text"] for asked, answer in found.items() if asked.startswith("stderr"))
    assert found["stages"]["settings"]["params"]["sequence"] == "<GGG>"


@pytest.mark.usefixtures("without_figures")
def test_a_run_guided_by_a_reference_says_so_at_the_top(guided: RunDirectory, finished: RunDirectory) -> None:
    assert "a known reference" in write(guided).text
    assert "Guided by a known reference" not in write(finished).text


@pytest.mark.usefixtures("without_figures")
def test_what_was_noted_is_told_with_how_often(finished: RunDirectory) -> None:
    """A run whose scoring failed ends by its budget like any other: its report must tell."""
    write(finished)
    assert kept(finished)["failures"]["noted"] == []
    journal = Journal(finished.journal)
    for text in ("metric right failed: KeyError: 'x'",) * 3 + ("scoring with model 0 failed: <b>",):
        journal.append(Note(text=text))
    journal.close()
    write(finished)
    told = [["metric right failed: KeyError: 'x'", 3], ["scoring with model 0 failed: <b>", 1]]
    assert kept(finished)["failures"]["noted"] == told


@pytest.mark.slow
def test_a_figure_that_fails_is_told_in_its_place(finished: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(history: History) -> None:
        raise ZeroDivisionError("<b>no frames</b>")

    monkeypatch.setitem(figures.FIGURES, "contacts", ("Contacts", fail))
    write(finished)
    found = kept(finished)["panels"]
    assert found["trouble"].startswith("Contacts: ZeroDivisionError: <b>no frames</b>")
    assert len(found["panels"]) == len(figures.FIGURES) - 1


OWN_FIGURES = """
from matplotlib.figure import Figure
from steersman import Params, Workflow, budget

wf = Workflow("own", Params, stop=budget(frames=1))

@wf.simulate()
def simulate(p, start, out): pass

@wf.figure("How many")
def counted(p, results): return Figure(), f"{len(results.scores)} scored frames <b>"

@wf.figure("Alone")
def alone(p, results): return Figure()

@wf.figure("Later")
def later(p, results): return None

@wf.figure("Broken")
def broken(p, results): raise ZeroDivisionError("nothing \\x1b[2J")

@wf.figure("Number")
def number(p, results): return 7
"""


@pytest.mark.usefixtures("without_figures")
def test_a_workflow_s_own_figures_stand_in_its_report(
    finished: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that are drawn, one that has nothing to draw yet, and those that fail, with what to return. No terminal
    obeys what they say."""
    finished.workflow.write_text(OWN_FIGURES)
    finished.settings_file.write_text(yaml.safe_dump(finished.settings() | {"params": {}}))
    write(finished)
    assert kept(finished)["panels"]["trouble"] == str(UntrustedCode(str(finished.workflow)))
    trust.trust(finished.workflow)
    write(finished)
    found = kept(finished)
    assert re.fullmatch(r"[1-9][0-9]* scored frames <b>", captions(finished)["counted"])
    assert [each["title"] for each in found["panels"]["panels"]] == ["How many", "Alone"], "and nothing of later"
    assert "Broken: ZeroDivisionError: nothing" in found["panels"]["trouble"]
    assert "BadInput: it returned" in found["panels"]["trouble"]
    assert all((finished.figures / f"{name}.svg").exists() for name in ("counted", "alone"))
    told = capsys.readouterr().err
    assert "'broken': ZeroDivisionError: nothing \\x1b[2J" in told
    assert "\x1b" not in told


@pytest.mark.parametrize("lost", ["scores.zarr", "models", "decisions.jsonl", "run.yaml", "errors"])
@pytest.mark.usefixtures("without_figures")
def test_a_run_that_lost_a_part_still_gets_its_report(finished: RunDirectory, lost: str) -> None:
    path = finished.path / lost
    if path.exists():
        path.rename(finished.path / "gone")
    assert write(finished).open == []
    assert kept(finished)["starts"]["rows"][0][4] == REASON


@pytest.mark.usefixtures("without_figures")
def test_a_damaged_file_costs_its_own_table_only(finished: RunDirectory) -> None:
    (finished.path / "environment.json").write_text("{")
    write(finished)
    found = kept(finished)
    assert "JSONDecodeError" in found["stages"]["missing"]
    assert found["starts"]["rows"]


def test_a_run_without_frames_gets_a_report(empty: RunDirectory) -> None:
    page = write(empty)
    assert "prepare: ValueError" in page.text
    assert kept(empty)["panels"]["panels"] == []


@pytest.mark.parametrize("of", ["figure", "report"])
def test_where_nothing_can_be_written_one_sentence_says_so(
    finished: RunDirectory, of: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "FIGURES", {name: (name, figures.FIGURES["sampled"][1]) for name in ("one", "two")})
    (finished.figures / "one.svg" if of == "figure" else finished.report).mkdir(parents=True)  # root may write anywhere
    with pytest.raises(BadDirectory) as told:
        report.write_report(finished)
    assert "is a directory" in told.value.problem.lower()
    assert not capsys.readouterr().err
    monkeypatch.setattr("steersman.calls.start.write_crate", lambda *given: None)
    describe(finished, History(finished).state)
    assert capsys.readouterr().err == f"{told.value}\n"
    assert finished.manifest.exists(), "the run is finished all the same"


@pytest.mark.slow
def test_a_journal_that_is_not_whole_or_cannot_be_read_is_reported(
    finished: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(finished)
    assert kept(finished)["state"]["flaws"] == []
    text = finished.journal.read_text()
    finished.journal.write_text(text.replace('"workflow"', '"work1low"', 1))
    write(finished)
    assert kept(finished)["state"]["flaws"][0] == str(History(finished).flaws[0])
    monkeypatch.setattr(file, "VERSION", file.USUAL - 1)
    monkeypatch.setattr(file, "USUAL", file.USUAL - 1)
    assert "JournalTooNew" in write(finished).text


def test_of_a_site_is_shown_what_is_special_about_it(tmp_path: Path) -> None:
    for given, shown in (
        ({}, {"name": "ours"}),
        ({"training": {"workers": 3}, "lease_s": 5.0}, {"name": "ours", "training.workers": "3", "lease_s": "5.0"}),
    ):
        site = Site.model_validate({"name": "ours", **given}).model_dump(mode="json")
        directory = RunDirectory(tmp_path)
        directory.settings_file.write_text(yaml.safe_dump({"params": {}, "site": site}, sort_keys=False))
        assert stages.site(History(directory, read=False)) == shown


def test_of_a_parameter_that_was_changed_is_shown_what_it_was_at_the_beginning(tmp_path: Path) -> None:
    """On the page and in the list of runs: frames of before were made with that."""
    directory = run_directory.create(tmp_path, "run", tmp_path / "run")
    directory.settings_file.write_text(yaml.safe_dump({"params": {"m": 3.0, "n": 1}, "site": {"name": "ours"}}))
    story = Run(workflow="w", seed=0), Tell(id="1", who="me", verb="set", text="m=3.5", settings={"m": 3.5})
    journal = Journal(directory.journal)
    journal.append(*story)
    journal.close()
    history, words = History(directory), {"m": "3.5 (at the beginning 3.0)", "n": "1"}
    assert stages.settings(Watched.of(history))["params"] == words
    assert gallery.line(directory)["params"] == words


def test_errors_survive_pickle() -> None:
    error = pickle.loads(pickle.dumps(NothingToDraw("no model")))
    assert str(error) == "there is nothing to draw: no model"


@pytest.mark.parametrize(("inches", "rem"), [(4.0, 57.5 * 4 / 7.2), (7.2, 57.5), (20.0, 57.5)])
def test_a_figure_is_as_wide_as_it_was_drawn_and_no_wider_than_the_page(
    inches: float, rem: float, tmp_path: Path
) -> None:
    svg = figures.save_svg(style.sheet(4.0, inches), tmp_path / "x.svg")
    found = page.figure("title", "caption", svg)
    assert f"width: min(100%, {rem:.4g}rem)" in found
