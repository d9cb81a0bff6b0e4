"""The tuple space: what becomes of a tuple, for its page.

python docs/figures/bus.py
"""

from __future__ import annotations

from diagram import BLUE, GREEN, INK, LINE, PAPER, SOFT, VERMILION, area, arrow, box, canvas, note, save
from matplotlib.axes import Axes

PUT, BAG, TAKE = 1.5, 5.3, 9.5  # the middle of each column
ROW, LOW = 3.4, 1.0  # of each row
SIZE = (2.6, 1.1)

BOXES = {  # name: (x, y, colour, what it is)
    "put": (PUT, ROW, BLUE, "a name, then plain values,", "arrays or tensors"),
    "take": (TAKE, ROW, GREEN, '("task", int): the oldest that', "matches, to exactly one taker"),
    "dead letters": (BAG, LOW, VERMILION, "too many deliveries,", "with their history"),
    "done": (TAKE, LOW, GREEN, "acknowledged: it is gone;", "results once, if repeated"),
}
TAKEN, *WAITING = '("task", 7)', '("task", 8)', '("frames", "w0", 64)', '("frames", "w1", 32)'


def draw() -> Axes:
    axes = canvas(11.2, 4.9, below=-0.3)
    area(axes, "the bag, in a server", (BAG, ROW), (3.0, 2.6))
    _tuple(axes, 0, TAKEN, color=SOFT, alpha=0.55, line="--")
    for row, text in enumerate(WAITING, 1):
        _tuple(axes, row, text, color=INK)
    for name, (x, y, colour, *lines) in BOXES.items():
        box(axes, name, (x, y), SIZE, colour, lines)
    left, right, take = BAG - 1.58, BAG + 1.58, TAKE - 1.38
    arrow(axes, (PUT + 1.38, ROW), (left, ROW), "", (0, 0))
    arrow(axes, (right, ROW + 0.15), (take, ROW + 0.15), "leased", (0, 0.1))
    arrow(axes, (take, ROW - 0.25), (right, ROW - 0.25), "", (0, 0))
    note(axes, (7.5, ROW - 0.4), "the lease ends:\nfirst in line\nagain", ha="center", va="top")
    arrow(axes, (BAG, ROW - 1.38), (BAG, LOW + 0.63), "", (0, 0))
    arrow(axes, (TAKE, ROW - 0.63), (TAKE, LOW + 0.63), "ack", (0.12, 0), ha="left")
    return axes


def _tuple(axes: Axes, row: int, text: str, *, line: str = "-", **look: object) -> None:
    frame = {"boxstyle": "round,pad=0.35", "facecolor": PAPER, "edgecolor": LINE, "linestyle": line}
    words = {"ha": "center", "va": "center", "family": "monospace", "fontsize": 10.5}
    axes.text(BAG, ROW + 0.55 - 0.48 * row, text, bbox=frame, **words, **look)


if __name__ == "__main__":
    save(draw(), __file__)
