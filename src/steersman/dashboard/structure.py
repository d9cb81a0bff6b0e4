"""Stored frames -> figures: contact maps early and late, and the quantities that frames hold over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from steersman.dashboard import style
from steersman.dashboard.figure import figure
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.stored import POSITIONS, StoredVariable, blocks, variables, whole

CONTACTS = "contacts"  # variable of a frame
NEAR = 3  # residues closer than this along the chain touch always
TENTH = 0.1
MOST_QUANTITIES = 4
MOST_COLUMNS = 3  # of a vector that is shown column by column
BELOW: dict[str, Any] = {"location": "bottom", "aspect": 40, "pad": 0.02}
BINS, SEGMENTS_A_BIN = 40, 8  # of time, for the median line: of few segments it would join strangers
POLYMER = (  # residues of proteins and nucleic acids, with caps and protonation states
    "ALA ARG ASN ASP CYS GLN GLU GLY HIS ILE LEU LYS MET PHE PRO SER THR TRP TYR VAL ACE NME NHE NH2 ASH GLH CYX CYM "
    "HID HIE HIP HSD HSE HSP LYN MSE A C G U DA DC DG DT"
)
Measure = Callable[[np.ndarray], np.ndarray]  # rows of a variable -> one number a row


@figure("contacts", "Contacts, early and late", 30, lambda history: _contacts(history) is not None, once=True)
def draw_contacts(history: History) -> tuple[Figure, str]:
    """Mean contact map of the first tenth of the segments, of the last, and their difference."""
    if not (stored := _contacts(history)):
        raise NothingToDraw("the frames hold no contact maps")
    early, late = _mean_map(history, stored, 0.0, TENTH), _mean_map(history, stored, 1 - TENTH, 1.0)
    figure = style.sheet(3.1)
    left, middle, right = figure.subplots(1, 3, sharex=True, sharey=True)
    _map(left, early, "first tenth of the segments")
    shares = _map(middle, late, "last tenth")
    figure.colorbar(shares, ax=[left, middle], label="share of frames in contact", **BELOW)
    most = max(0.1, float(np.abs(late - early).max()))
    change = right.imshow(late - early, cmap="PuOr_r", vmin=-most, vmax=most, origin="lower", extent=_extent(early))
    right.set_title("change")
    figure.colorbar(change, ax=right, label="last − first", **BELOW)
    left.set_ylabel("residue")
    for axes in (left, middle, right):
        axes.set_xlabel("residue")
        axes.spines[:].set_visible(False)
    return figure, _caption_of_maps(early, late)


@figure("quantities", "What the frames hold", 50, lambda history: bool(quantities(history)), once=True)
def draw_quantities(history: History) -> tuple[Figure, str]:
    """Number of contacts, radius of gyration and stored scalars, as far as frames hold them."""
    measured = quantities(history)[:MOST_QUANTITIES]
    if not measured:
        raise NothingToDraw("the frames hold no quantity with a number per frame")
    figure = style.sheet(0.5 + 1.35 * len(measured))
    column = figure.subplots(len(measured), 1, sharex=True, squeeze=False)[:, 0]
    words = [over_time(axes, history, *quantity) for axes, quantity in zip(column, measured, strict=True)]
    column[-1].set_xlabel(history.clock.progress_scale.label)
    dots, frames = len(column[0].collections[0].get_offsets()), history.state.frames
    return figure, " ".join([f"Dots are {'' if dots >= frames else f'{dots:,} of {frames:,} '}frames.", *words])


def _contacts(history: History) -> StoredVariable | None:
    stored = variables(history).get(CONTACTS)
    return stored if stored and is_contact_map(stored) else None


def is_contact_map(variable: StoredVariable) -> bool:
    """Residue against residue: other square arrays of booleans may be anything."""
    shape = variable.shape
    return variable.name == CONTACTS and variable.kind == "b" and len(shape) == 2 and shape[0] == shape[1]


def number_of_contacts(maps: np.ndarray) -> np.ndarray:
    """(n, R, R) bool -> (n,) float: pairs in contact that are at least NEAR apart along the chain."""
    first, second = np.triu_indices(maps.shape[-1], NEAR)
    return np.asarray(maps[:, first, second].sum(axis=1), dtype=float)


def radius_of_gyration(positions: np.ndarray) -> np.ndarray:
    """(n, N, 3) -> (n,) float in the same unit, every atom counted alike."""
    centred = positions - positions.mean(axis=1, keepdims=True)
    return np.asarray(np.sqrt((centred**2).sum(axis=-1).mean(axis=-1)), dtype=float)


def is_one_molecule(pdb: str) -> bool:
    """Whether a topology is one chain of a polymer, or one residue: the size of a liquid is that of its box."""
    residues = {line[17:27] for line in pdb.splitlines() if line.startswith(("ATOM", "HETATM"))}
    chains = {residue[4] for residue in residues}
    return len(residues) == 1 or (len(chains) == 1 and {each[:3].strip() for each in residues} <= {*POLYMER.split()})


def column(i: int) -> Measure:
    """Measures one column of a vector, or a scalar itself."""
    return lambda values: np.asarray(values.reshape(len(values), -1)[:, i], dtype=float)


def quantities(history: History) -> list[tuple[str, StoredVariable, Measure]]:
    """Label, variable and measure of what can be drawn: decided by what is stored, never by the workflow's name."""
    found: list[tuple[str, StoredVariable, Measure]] = []
    for name, stored in variables(history).items():
        if is_contact_map(stored):
            found.append((f"contacts of residues at least {NEAR} apart", stored, number_of_contacts))
        elif name == POSITIONS and len(stored.shape) == 2:
            if is_one_molecule(history.topology.decode(errors="replace")):
                found.append((stored.named("radius of gyration, all atoms alike"), stored, radius_of_gyration))
        elif stored.shape == () and stored.kind in "fiu" and name not in ("time", "segment"):
            found.append((stored.label, stored, column(0)))
        elif len(stored.shape) == 1 and stored.shape[0] <= MOST_COLUMNS and stored.kind == "f":
            parts = range(stored.shape[0])
            found += [(stored.named(f"{stored.long_name}, column {i + 1}"), stored, column(i)) for i in parts]
    return found


def over_time(axes: Axes, history: History, label: str, stored: StoredVariable, measure: Measure) -> str:
    """Draw one quantity; returns what it did, in a sentence."""
    read = [(history.clock.progress(block.moments), measure(block.values)) for block in blocks(history, stored)]
    time, values = np.concatenate([x for x, _ in read]), np.concatenate([y for _, y in read])
    axes.scatter(time, values, s=3, color=style.SKY, linewidths=0, alpha=0.6, rasterized=True)
    bins = min(BINS, len(read) // SEGMENTS_A_BIN)
    if bins >= 2:
        every = whole(history, stored)
        of = (history.clock.progress(every.moments), measure(every.values)) if every else (time, values)
        at, medians = _running_median(*of, bins)
        axes.plot(at, medians, color=style.INK)
        ends = f"{medians[0]:.4g} in the first, {medians[-1]:.4g} in the last"
        said = f"The line is the median of {label}{'' if every else ' of these'} in {bins} parts of the run: {ends}."
    else:
        for x, y in read:
            axes.plot(x, y, color=style.INK, linewidth=0.5, alpha=0.6)
        said = f"Each line is a segment; {label} lies in {np.nanmin(values):.4g} to {np.nanmax(values):.4g}."
    axes.set_title(label, fontweight="normal", fontsize=8.5)
    axes.set(xlim=(0, history.clock.progress(history.state.now)), ylim=(span := _span(values)))
    if beyond := int(((values < span[0]) | (values > span[1])).sum()):
        ends = f"{np.nanmin(values):.4g} to {np.nanmax(values):.4g}"
        said += f" {beyond:,} of {len(values):,} dots lie beyond the axis: they reach from {ends}."
    if (values % 1 == 0).all():
        axes.locator_params(axis="y", integer=True)
    return said


def _running_median(time: np.ndarray, values: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Of frames in the order in which they were made, as many in each bin."""
    parts = np.array_split(np.argsort(time, kind="stable"), bins)
    return np.array([time[part].mean() for part in parts]), np.array([np.median(values[part]) for part in parts])


def _span(values: np.ndarray) -> tuple[float, float]:
    """Limits that a few wild frames do not set."""
    low, high = np.nanpercentile(values, [0.2, 99.8])
    margin = 0.08 * (high - low) or max(0.5, 1e-3 * abs(high))  # of 1e18, say, a half is nothing
    return float(low - margin), float(high + margin)


def _mean_map(history: History, stored: StoredVariable, first: float, last: float) -> np.ndarray:
    total, frames = np.zeros(stored.shape), 0
    for block in blocks(history, stored, first=first, last=last):
        total += block.values.sum(axis=0)
        frames += len(block.values)
    if not frames:
        raise NothingToDraw("no frame was published")
    return total / frames


def _map(axes: Axes, mean: np.ndarray, title: str) -> AxesImage:
    axes.set_title(title)
    return axes.imshow(mean, cmap="cividis", vmin=0, vmax=1, origin="lower", extent=_extent(mean))


def _extent(mean: np.ndarray) -> tuple[float, float, float, float]:
    """Residues count from 1."""
    return (0.5, mean.shape[1] + 0.5, 0.5, mean.shape[0] + 0.5)


def _caption_of_maps(early: np.ndarray, late: np.ndarray) -> str:
    counts = [float(np.triu(mean, NEAR).sum()) for mean in (early, late)]
    change = np.triu(late - early, NEAR)
    i, j = np.unravel_index(np.abs(change).argmax(), change.shape)
    return (
        f"Mean contacts between residues at least {NEAR} apart: {counts[0]:.1f} in the first tenth of the segments, "
        f"{counts[1]:.1f} in the last. Most changed: residues {i + 1} and {j + 1}, {change[i, j]:+.2f}."
    )
