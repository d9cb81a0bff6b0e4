"""A function that draws a figure of the report: `figures.py` finds it in its file, by its decorator."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from steersman.data.history import History

Draw = Callable[[History], tuple[Figure, str]]
Applies = Callable[[History], bool]
PLACED: dict[str, tuple[int, str, Draw]] = {}  # name -> place, title, function
LIVE: dict[str, Applies] = {}  # those that the page shows, too, of runs to which they apply


def figure(
    name: str, title: str, place: int, *, once: bool = False, live: Applies | None = None
) -> Callable[[Draw], Draw]:
    """Let the report have a figure.

    Args:
        place: in the report, from the smallest to the largest.
        once: each frame counts once, which is said where frames have weights.
        live: the page shows it, too, of runs to which it applies.
    """

    def placed(draw: Draw) -> Draw:
        PLACED[name] = place, title, _once(draw) if once else draw
        if live:
            LIVE[name] = live
        return draw

    return placed


def _once(draw: Draw) -> Draw:
    def drawn(history: History) -> tuple[Figure, str]:
        figure, caption = draw(history)
        weighted = any(mode.weighs for mode in history.state.modes)
        return figure, f"{caption} Each frame counts once, whatever its weight." if weighted else caption

    return drawn
