"""Run directory -> report.html and figures: what was sampled and why, on one page that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from steersman.dashboard import page, tables
from steersman.dashboard.figure import Draw
from steersman.dashboard.figures import FIGURES, contributed, draw_all
from steersman.dashboard.live import offline
from steersman.data.history import History
from steersman.journal.errors import BadDirectory
from steersman.journal.run_directory import RunDirectory
from steersman.system import reading
from steersman.system.errors import BadInput, told
from steersman.system.files import replace_file
from steersman.system.terminal import remark

MODELS = ("version", "frames", "epochs", "seconds", "loss", "held out", "predecessor", "verdict", "because")
NOTES = ("noted", "times")
STARTS = ("segment", "descendants", "started from", "chosen by", "because", "among frames", "model")


def write_report(directory: RunDirectory) -> None:
    """Write the report of a run, whatever it holds: a part that cannot be made says so in its place.

    Raises: BadDirectory: it cannot be written there. OddFile: what lies there leads elsewhere.
    """
    try:
        directory.figures.mkdir(exist_ok=True)
        reading.check_inside(directory.figures, directory.path)
        replace_file(directory.report, _page(directory))
    except OSError as error:
        problem = f"the report cannot be written: {error.strerror or error}"
        raise BadDirectory(str(directory.path), f"{problem}; make room, ask its owner, or work on a copy") from None


def _page(directory: RunDirectory) -> str:
    try:
        history = History(directory)
    except Exception as error:  # a page that says what is wrong is better than none
        words = page.paragraph(f"The journal cannot be read: {told(error)}", "failed")
        return page.page(directory.path.name, [words])
    return page.page(f"{history.name} - {directory.path.name}", _sections(history), *_views(history))


def _views(history: History) -> tuple[str, str]:
    """The views of the live page, with what they show of this run; empty when they cannot be had."""
    try:
        return offline.embedded(history) if history.state.frames else ("", "")
    except Exception as error:  # the figures and tables below do not need them
        return "", page.paragraph(f"The views of the dashboard are missing: {error}", "failed")


def _sections(history: History) -> Iterator[str]:
    yield _heading(history)
    yield _part("The run", lambda: page.facts(tables.facts(history)))
    try:  # what the run is for comes before how it went
        yield from _figures(history, contributed(history))
    except BadInput as error:  # a stranger's, or of an older Steersman: the run is reported all the same
        yield page.section("The workflow's own figures", page.paragraph(str(error), "failed"))
    yield from _figures(history, FIGURES)
    if history.directory.analysis.exists():
        yield _part("Equilibrium", lambda: _equilibrium(history.directory))
    yield _part("Models", lambda: page.table(MODELS, tables.models(history)))
    yield _part("The most influential starts", lambda: page.table(STARTS, tables.influential(history)))
    yield _part("Failures", lambda: _failures(history))
    yield _part("Notes", lambda: page.table(NOTES, tables.notes(history)))
    yield _part("Go on from here", lambda: page.commands(tables.commands(history)))
    yield _part("Parameters", lambda: page.facts(tables.parameters(history)))
    yield _part("Made with", lambda: page.facts(tables.versions(history)))


def _figures(history: History, figures: Mapping[str, tuple[str, Draw]]) -> Iterator[str]:
    for drawing in draw_all(history, history.directory.figures, figures):
        if drawing.failed:
            remark(f"the report lacks the figure {drawing.name!r}: {drawing.trouble}")
        if drawing.svg or drawing.failed:
            yield page.section(drawing.title, page.figure(drawing))


def _heading(history: History) -> str:
    seen = history.overview()
    lines = [page.paragraph(tables.outcome(seen), "outcome")]
    if seen.guided:
        lines.append(page.paragraph("Guided by a known reference: the policy of this run knew the answer.", "guided"))
    if flaws := history.flaws:
        lines.append(page.paragraph(f"The journal is not whole: {flaws[0]}; lines set aside: {len(flaws)}", "failed"))
    of = f", {seen.copy}" if seen.copy else ""
    lines.append(page.paragraph(f"{history.directory.path}{of}, seed {seen.seed}", "soft"))
    return page.header(f"{history.name}: what was sampled, and why", *lines)


def _part(title: str, make: Callable[[], str]) -> str:
    try:
        return page.section(title, make())
    except Exception as error:  # a damaged file may cost its own table, never the report
        words = f"This part is missing: {told(error)}."
        return page.section(title, page.paragraph(words, "failed"))


def _equilibrium(directory: RunDirectory) -> str:
    """What `steersman analyse` wrote there, or somebody else."""
    said = json.loads(directory.read(directory.analysis / "analysis.json"))
    svg = directory.read(directory.analysis / "figure.svg").decode()
    problems = [page.paragraph(problem, "failed") for problem in said["problems"]]
    picture = page.picture("Time scales and free energy", said["report"]["caption"], svg)
    notes = map(page.paragraph, said.get("notes", []))  # older files have none
    return "\n".join([*problems, *notes, page.facts(said["report"]["rows"]), picture])


def _failures(history: History) -> str:
    shown = tables.failures(history)
    more = len(history.causes) - len(shown)
    lines = [page.details(f"{name}: {cause}", text or "there is no file in errors/") for name, cause, text in shown]
    if more > 0:
        lines.append(page.paragraph(f"{more:,} more are in {history.directory.errors}.", "soft"))
    return "\n".join(lines)
