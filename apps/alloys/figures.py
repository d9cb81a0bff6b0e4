"""Audits -> density of states, heat capacity and order of an alloy, with bands; a figure for a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from steersman.apps.alloys.exact import Exact
from steersman.apps.alloys.thermodynamics import TEMPERATURES_K, moments, peak, transition
from steersman.steering.audits import audited, corrected, coverage, saved
from steersman.steering.errors import AuditsRefused

SHOWN_K = np.arange(150.0, 701.0, 5.0)
BIN_EV = 0.05
SHARE = "share of configurations"
Quantity = Callable[..., np.ndarray]  # of weights, energies and orders
NEAR_EV = 2e-3  # by which energies that are the same differ


def curves(values: Mapping[str, Any], *, exact: bool) -> tuple[Figure, str] | None:
    """Draw ln g of energies, and heat capacity and order against temperature; None before there are audits.

    Where there is no answer, the caption says why, and audits are drawn: what the surrogate said, and what is true.

    Args:
        values: the scores that `judged` gives.
        exact: draw the exact values of Cu24Au8 by EMT beside them, if the energies can be those.
    """
    try:
        highest = transition(values)
    except AuditsRefused as refused:
        return _refused(values, str(refused))
    energies, order = (np.asarray(values[name], float)[audited(values)] for name in ("truth", "order"))
    known = Exact.load() if exact else None
    if known is not None and not (
        known.energy.min() - NEAR_EV < energies.min() <= energies.max() < known.energy.max() + NEAR_EV
    ):
        known = None  # another energy
    ends = (known.energy.min(), known.energy.max()) if known else (energies.min(), energies.max())
    edges = np.arange(ends[0] - BIN_EV / 2, ends[1] + BIN_EV, BIN_EV)
    quantities: list[tuple[str, str, np.ndarray, Quantity]] = [
        ("energy of the cell, eV", SHARE, (edges[1:] + edges[:-1]) / 2,
         lambda w, e, o: w @ (np.digitize(e, edges)[:, None] == np.arange(1, len(edges)))),
        ("temperature, K", "heat capacity / k", SHOWN_K, lambda w, e, o: moments(w, e, SHOWN_K)[0]),
        ("temperature, K", "order", SHOWN_K, lambda w, e, o: moments(w, e, SHOWN_K, o)[1]),
    ]  # fmt: skip
    answers = [corrected(values, partial(of, e=energies, o=order)) for *_, of in quantities]
    figure = Figure((9.0, 3.0), layout="constrained")
    for axes, (x, y, at, of), answer in zip(figure.subplots(1, 3), quantities, answers, strict=True):
        kept = answer.value > 0 if y == SHARE else slice(None)  # of a logarithm
        axes.fill_between(at[kept], answer.low[kept], answer.high[kept], color="C0", alpha=0.3, linewidth=0)
        axes.plot(at[kept], answer.value[kept], color="C0", label="audited surrogate")
        if known is not None:
            true = of(known.size[None] / known.size.sum(), known.energy, known.order)[0]
            kept = true > 0 if y == SHARE else slice(None)
            axes.plot(at[kept], true[kept], color="black", linewidth=0.9, linestyle="--", label="exact")
        axes.set(xlabel=x, ylabel=y)
    share, capacity, _ = figure.axes
    share.set_yscale("log")
    share.legend(fontsize=7, loc="lower center")
    capacity.axvspan(
        float(highest.low), float(highest.high), color="C1", alpha=0.4, linewidth=0, label="where it is highest"
    )
    capacity.legend(fontsize=7)
    newest, spent = coverage(values)[-1], saved(values)
    words = f"The heat capacity is highest at {highest.value:.1f} K (95 %: {highest.low:.1f} to {highest.high:.1f})"
    beside = ""
    if known is not None:
        heat, _ = moments(known.size[None] / known.size.sum(), known.energy, TEMPERATURES_K)
        beside = f"; exact: {peak(heat)[0]:.1f} K"
    bands = "Bands are intervals of 95 %; above the mean of random configurations all is one bin."
    return figure, f"{words}{beside}. {highest.audits} audits; {spent}. In {newest}. {bands}"


def _refused(values: Mapping[str, Any], why: str) -> tuple[Figure, str] | None:
    drawn = (np.asarray(values.get("version", 0)) > 0) & (np.asarray(values.get("failed", 0)) == 0)
    if not drawn.any():
        return None
    said, truth = (np.asarray(values[name], float)[drawn] for name in ("said", "truth"))
    figure = Figure((3.6, 3.0), layout="constrained")
    axes = figure.subplots()
    axes.plot(said, truth, ".", markersize=3)
    axes.axline((np.nanmean(said), np.nanmean(said)), slope=1, color="black", linewidth=0.9, linestyle="--")
    axes.set(xlabel="the surrogate said, eV", ylabel="energy of the cell, eV")
    return figure, f"N{why[1:]}."
