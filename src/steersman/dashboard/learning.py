"""Model cards -> figure: how the models learned, and which of them were used."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator

from steersman.dashboard import style
from steersman.dashboard.figure import figure
from steersman.data.errors import NothingToDraw
from steersman.data.history import History

Card = dict[str, Any]


@figure("models", "What the models learned", 70)
def draw(history: History) -> tuple[Figure, str]:
    """Loss per epoch of every version, and held-out figures against the predecessor's."""
    cards = history.directory.cards()
    if not cards:
        raise NothingToDraw("no model was trained")
    drawn = [(3, _losses)] if any("loss" in epoch for card in cards for epoch in card["history"]) else []
    drawn += [(2, _held_out)] * bool(_judged(cards))
    more = len({frames for frames, _ in curve(cards)}) > 1
    drawn += [(2, _against_frames)] * more
    if not drawn:
        raise NothingToDraw("models were fitted at once, and none was judged")
    figure = style.sheet(2.7)
    for axes, (_, panel) in zip(
        figure.subplots(1, len(drawn), width_ratios=[width for width, _ in drawn], squeeze=False)[0], drawn, strict=True
    ):
        panel(axes, cards)
    accepted = sum(bool(card["accepted"]) for card in cards)
    against = " On the right the same held-out errors, against the frames trained on." if more else ""
    return figure, f"Models trained: {len(cards)}, used: {accepted}. {_caption(cards[-1])}{against}"


def curve(cards: list[Card]) -> list[tuple[int, float]]:
    """Frames that each version was trained on, and its error on those that were held out from it."""
    return [(card["frames"], card["held_out"]) for card in _judged(cards) if "frames" in card]


def _judged(cards: list[Card]) -> list[Card]:
    """Those that have a held-out error."""
    return [card for card in cards if card["held_out"] is not None and np.isfinite(card["held_out"])]


def _against_frames(axes: Axes, cards: list[Card]) -> None:
    """Whether more frames, or more members of an ensemble, still make the models better."""
    frames, errors = zip(*sorted(curve(cards)), strict=True)
    axes.plot(frames, errors, ".-", color=style.BLUE, markersize=5)
    axes.set(xlabel="frames trained on", xscale="log", yscale="log" if min(errors) > 0 else "linear")
    axes.margins(y=0.2)
    for axis in (axes.xaxis, axes.yaxis) if min(errors) > 0 else (axes.xaxis,):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(EngFormatter(sep="") if axis is axes.xaxis else "{x:g}")
        axis.set_minor_formatter("")


def _losses(axes: Axes, cards: list[Card]) -> None:
    """Loss over all epochs one after another: a warm start shows as a curve that begins low."""
    first = 0
    for card in cards:
        losses = np.array([epoch["loss"] for epoch in card["history"] if "loss" in epoch])
        epochs = first + 1 + np.arange(len(losses))
        colour = style.BLUE if card["accepted"] else style.VERMILION
        axes.plot(epochs, losses, ".-", color=colour, markersize=4)
        if len(losses):
            axes.annotate(f"{card['version']}", (epochs[0], losses[0]), xytext=(3, 2), textcoords="offset points")
        first += len(losses)
    axes.set(xlabel="epoch, versions one after another", ylabel="training loss")
    if axes.dataLim.y0 > 0:  # some are sums of autocorrelations, with a minus
        axes.set(yscale="log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")


def _held_out(axes: Axes, cards: list[Card]) -> None:
    """A version beside its predecessor on the same held-out frames."""
    seen = {"predecessor": False, "used": False, "not used": False}
    for card in _judged(cards):
        new, old = card["held_out"], card["predecessor"]
        used = "used" if card["accepted"] else "not used"
        if old is not None:
            axes.plot([card["version"]] * 2, [old, new], color=style.FAINT, zorder=1)
            _mark(axes, card["version"], old, "predecessor", seen)
        _mark(axes, card["version"], new, used, seen)
    axes.set(xlabel="model version", ylabel=f"held-out {cards[-1]['gate']}", xlim=(0.5, cards[-1]["version"] + 0.5))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.margins(y=0.2)
    axes.ticklabel_format(axis="y", useOffset=False)
    style.legend_above(axes, loc="lower right", bbox_to_anchor=(1, 1))


MARKS: dict[str, dict[str, Any]] = {
    "predecessor": {"marker": "o", "markerfacecolor": style.PAPER, "markeredgecolor": style.GREY},
    "used": {"marker": "o", "color": style.BLUE},
    "not used": {"marker": "X", "color": style.VERMILION},
}


def _mark(axes: Axes, version: int, value: float, kind: str, seen: dict[str, bool]) -> None:
    label = None if seen[kind] else kind
    seen[kind] = True
    axes.plot(version, value, linestyle="none", markersize=6, label=label, **MARKS[kind])


def _caption(card: Card) -> str:
    verdict = "is used" if card["accepted"] else "is not used"
    return f"The last one, version {card['version']}, {verdict}: {card['reason']}."
