"""Run directory -> report.html and figures: the page of the run as a file that needs nothing else."""

from __future__ import annotations

from steersman.dashboard import page
from steersman.dashboard.figures import FIGURES, Drawing, contributed, draw_all
from steersman.dashboard.live import offline, overview
from steersman.data.history import History
from steersman.journal.errors import BadDirectory
from steersman.journal.run_directory import RunDirectory
from steersman.system import reading
from steersman.system.errors import BadInput, EngineError, told
from steersman.system.files import replace_file
from steersman.system.terminal import remark


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
        return page.page(directory.path.name, [_failed(f"The journal cannot be read: {told(error)}")])
    title, words = f"{history.name} - {directory.path.name}", _words(history)
    try:
        return page.alone(title, *offline.embedded(history, *_figures(history), words))
    except EngineError as error:  # of an editable install without the page's libraries, say
        return page.page(title, [words, _failed(f"The views of the run are missing: {error}")])


def _figures(history: History) -> tuple[list[Drawing], str]:
    """What could be drawn, what the run is for before how it went; and what could not, and why."""
    drawers, trouble = FIGURES, ""
    try:
        drawers = contributed(history) | FIGURES
    except BadInput as error:  # a stranger's, or of an older Steersman: the run is reported all the same
        trouble = str(error)
    drawings = draw_all(history, history.directory.figures, drawers)
    failed = [each for each in drawings if each.failed]
    for each in failed:
        remark(f"the report lacks the figure {each.name!r}: {each.trouble}")
    return drawings, "; ".join(filter(None, [trouble, *(f"{each.title}: {each.trouble}" for each in failed)]))


def _words(history: History) -> str:
    """What stands there for those who have no JavaScript, or cannot have the views."""
    seen = history.overview()
    guided = ["Guided by a known reference: the policy of this run knew the answer."] if seen.guided else []
    flaws = [f"The journal is not whole: {each}" for each in history.flaws[:1]]
    words = [f"{overview.outcome(seen)}.", *guided, *flaws, str(history.directory.path)]
    return page.header(history.name, *map(page.paragraph, words))


def _failed(text: str) -> str:
    return page.paragraph(text, "failed")
