"""A function that draws a figure of the report: `figures.py` finds it in its file, by its decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steersman.data.history import History

Draw = Callable[[History], Any]  # a Figure or an array, alone or with a caption
Applies = Callable[[History], bool]
PLACED: dict[str, tuple[int, str, Draw, Applies]] = {}  # by name; the place in the report, title, function
OPEN: set[str] = set()  # names of those that the page shows unasked


def figure(
    name: str, title: str, place: int, applies: Applies, *, once: bool = False, unasked: bool = False
) -> Callable[[Draw], Draw]:
    """Let the page and the report have a figure that may stand in a paper.

    Args:
        place: among them, from the smallest to the largest.
        applies: whether the page offers it, of a run that may go on: looked up in little time.
        once: each frame counts once, which is said where frames have weights.
        unasked: the page shows it unasked.
    """

    def placed(draw: Draw) -> Draw:
        OPEN.update([name] * unasked)
        PLACED[name] = place, title, _once(draw) if once else draw, applies
        return draw

    return placed


def _once(draw: Draw) -> Draw:
    def drawn(history: History) -> Any:
        figure, caption = draw(history)
        weighted = any(mode.weighs for mode in history.state.modes)
        return figure, f"{caption} Each frame counts once, whatever its weight." if weighted else caption

    return drawn
