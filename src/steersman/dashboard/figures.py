"""History -> figures of the report: drawn, saved, and kept apart from those that could not be drawn."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from steersman.dashboard import rare_event, style, yardsticks
from steersman.dashboard.figure import PLACED, Draw
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.results import Results
from steersman.stages import loading, panel, trust
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.system.calls import called
from steersman.system.errors import place, told
from steersman.system.files import replace_file

Functions = Mapping[str, tuple[str, Callable[[Any, Any], Any]]]  # name -> title, function of a workflow file

for _file in Path(__file__).parent.glob("*.py"):
    if "\n@figure(" in _file.read_text(encoding="utf-8"):
        import_module(f"{__package__}.{_file.stem}")
FIGURES: dict[str, tuple[str, Draw]] = {
    name: (title, draw) for name, (_, title, draw, _) in sorted(PLACED.items(), key=lambda item: item[1][0])
}


def applying(history: History) -> dict[str, tuple[str, Draw]]:
    """Those that a run may have something for: they run no code of it."""
    return {name: each for name, each in FIGURES.items() if PLACED[name][3](history)}


SVG_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))  # they would name addresses outside


@dataclass(frozen=True)
class Drawing:
    """A figure of the report: its SVG, or why there is none.

    Args:
        failed: True when it could not be drawn though there was something to draw.
    """

    name: str
    title: str
    caption: str = ""
    svg: str = ""
    trouble: str = ""
    failed: bool = False


def draw_all(history: History, folder: Path, figures: Mapping[str, tuple[str, Draw]] = FIGURES) -> list[Drawing]:
    """Draw every figure and save it in the folder; one that cannot be drawn says why.

    Raises: OSError: nothing can be written there.
    """
    return [_drawn(history, folder, name, title, draw) for name, (title, draw) in figures.items()]


def contributed(history: History) -> dict[str, tuple[str, Draw]]:
    """The figures that the run's own workflow file draws.

    Raises: UntrustedCode. BadInput: the file, or the run's parameters, can no longer be read.
    """
    if not (history.directory.settings_file.exists() and history.directory.workflow.exists()):
        return {}
    workflow = trust.load(history.directory.workflow)
    params = loading.checked(workflow, history.settings()["params"])
    return of_workflow(workflow, params, workflow.figures)


def of_workflow(workflow: Workflow, params: Params, functions: Functions) -> dict[str, tuple[str, Draw]]:
    """The yardsticks of a workflow, what belongs to how it steers, and what some of its functions draw."""

    def by(function: Callable[[Any, Any], Any]) -> Draw:
        return lambda history: called(function, params, Results(history))

    drawings = {"yardsticks": ("What was reached", lambda history: yardsticks.draw(history, workflow, params))}
    own = {name: (title, by(function)) for name, (title, function) in functions.items()}
    ours = drawings if workflow.yardsticks else {}
    return ours | rare_event.drawings(workflow.steering_rule(params).policy) | own


def drawn(draw: Draw, history: History) -> tuple[Figure, str]:
    """A figure and its caption. Raises: NothingToDraw. BadInput: the function returned something else."""
    return panel.drawn(made(draw, history))


def made(draw: Draw, history: History) -> Any:
    """What a function returns. Raises: NothingToDraw: it is None."""
    if (content := draw(history)) is None:
        raise NothingToDraw("the workflow has nothing to draw here yet")
    return content


def svg_of(figure: Figure) -> str:
    """All of a figure: one without a layout of its own is as large as what it holds, for its labels may reach out."""
    text, layout = io.StringIO(), figure.get_layout_engine()
    if layout is not None and figure.axes:  # savefig would draw everything twice to lay it out
        FigureCanvasSVG(figure)
        layout.execute(figure)
        figure.set_layout_engine("none")
    figure.savefig(text, format="svg", metadata=SVG_METADATA, bbox_inches="tight" if layout is None else None)
    figure.set_layout_engine(layout or "none")
    return text.getvalue()


def save_svg(figure: Figure, path: Path) -> str:
    """Save a figure; returns its SVG without the heading of a file, to stand in a page."""
    replace_file(path, text := svg_of(figure))
    return text[text.index("<svg") :]


def _drawn(history: History, folder: Path, name: str, title: str, draw: Draw) -> Drawing:
    try:
        with style.applied():
            figure, caption = drawn(draw, history)
            text = svg_of(figure)
    except NothingToDraw as nothing:
        return Drawing(name, title, trouble=str(nothing))
    except Exception as error:  # whatever is wrong with one figure, the run is finished and its report is wanted
        return Drawing(name, title, trouble=told(error) + place(error), failed=True)
    replace_file(folder / f"{name}.svg", text)  # what lies there may be a link to another file
    return Drawing(name, title, caption, text)
