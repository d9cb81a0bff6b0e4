"""History -> the figures of the report, as matplotlib figures."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from steersman.data.history import History
from steersman.system.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from matplotlib.figure import Figure


DPI = 110  # of a figure that a notebook shows


class Plots:
    """The figures of the report by name: each is a function without arguments that draws it now. Notebooks show it.

    A figure that the workflow file draws is found as well; to list or draw it executes that file.
    """

    def __init__(self, history: History) -> None:
        self._history = history

    def __getattr__(self, name: str) -> Callable[[], Figure]:
        if name.startswith("_"):  # what Python and notebooks ask everything for
            raise AttributeError(name)
        return lambda: self._drawn(name)

    def __dir__(self) -> list[str]:
        from steersman.dashboard.figures import FIGURES, contributed  # brings matplotlib with it

        with contextlib.suppress(BadInput):  # of an older Steersman, say: those of every run are listed all the same
            return [*FIGURES, *contributed(self._history)]
        return list(FIGURES)

    def _drawn(self, name: str) -> Figure:
        """Raises: UnknownName: there is no such figure. NothingToDraw: the run does not hold what it shows."""
        from steersman.dashboard import style
        from steersman.dashboard.figures import FIGURES, contributed, drawn

        known = FIGURES if name in FIGURES else FIGURES | contributed(self._history)
        if name not in known:
            raise UnknownName("figure", name, known)
        with style.applied():
            figure, caption = drawn(known[name][1], self._history)
        figure.set_label(caption)
        vars(figure)["_repr_png_"] = functools.partial(_png, figure)  # what pyplot did not make, notebooks do not show
        return figure


def _png(figure: Figure) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()
