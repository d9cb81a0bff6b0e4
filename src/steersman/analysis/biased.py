"""A biased run -> what is said and drawn of it: populations, averages and free energies of the unbiased system."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from steersman.analysis.answer import interval, table, too_many
from steersman.analysis.one_system import differing
from steersman.analysis.page import Analysis
from steersman.analysis.trajectories import MOST_LABELS
from steersman.dashboard import free_energy, style
from steersman.data.clusters import of_score
from steersman.data.facts import count, percent
from steersman.data.segment_table import BATCH
from steersman.data.unbiased import FewPassages, Unbiased
from steersman.journal import published
from steersman.journal.modes.biases import Biases
from steersman.stages import loading
from steersman.stages.score_names import TAKEN
from steersman.stages.workflow import Workflow
from steersman.steering.opes import ENERGY
from steersman.steering.reweighting import COLLAPSED
from steersman.store import Span, Window
from steersman.system.errors import UnknownName

PLACE = (*TAKEN, "weight", ENERGY)  # columns of scores that are no scores, or the bias's
CAPTION = (
    "Free energy of the unbiased system above its lowest bin. Left: along the first coordinate, with 95 % intervals. "
    "Right: over the first two coordinates, or, where there is one, where the frames of each lineage lie, in order of "
    "time; each passage back and forth makes the result surer."
)
SUPPORTED = "The data support this: the weights have not collapsed, and every state was entered and left several times."
UNASKED = "The weights have not collapsed. Name states with --region, or by a yardstick, to compare them."


def analysis(run: Unbiased, workflow: Workflow, score: str, states: Sequence[str]) -> Analysis:
    """What the frames say by their weights.

    Args:
        score: along which the free energy is drawn; "": that of the bias.
        states: see `answer`.
    Raises: UnknownName: there is no such score. BadInput, BadScores.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewPassages)  # it is one of the problems
        said = answer(run, workflow, states)
    bias = run.history.steering(workflow).bias
    figure = draw(run, score or (bias.score if bias else ""))
    return Analysis(said, figure, CAPTION, facts(said), {"With 95 % intervals": rows(said)}, lines(said))


def answer(run: Unbiased, workflow: Workflow, states: Sequence[str]) -> dict[str, Any]:
    """Populations, averages, and free energies of states in kT, with 95 % intervals; problems, and notes.

    Args:
        states: expressions of scores; the first one is what the others are compared with.
    Raises: BadInput, BadScores.
    """
    state = run.history.state
    averages = _scalars(run)
    groups = {"": {each: run.state(each) for each in states}}
    yardsticks = _yardsticks(run, workflow)
    for name, value in yardsticks.items():
        if np.issubdtype(value.dtype, np.floating):
            averages[name] = list(run.average(value))
        elif len(known := np.unique(value[run.weights.order])) <= MOST_LABELS:
            groups[name] = {f"{name} = {label}": value == label for label in known[known >= 0]}
    masks = {each: mask for group in groups.values() for each, mask in group.items()}
    first, *others = states or [""]
    differences = {f"{each} above {first}": list(run.difference(each, first)) for each in others}
    if len(states) == 1:
        differences = {f"{first} above all else": list(run.difference(first, ~masks[first]))}
    return {
        "frames": len(run.table), "counted": len(run.weights), "model": state.scored_with,
        "versions": sum(bias.model == state.scored_with for bias in state.mode(Biases).versions),
        "effective": run.weights.effective, "newest": run.weights.newest,
        "populations": {each: list(run.average(mask)) for each, mask in masks.items()},
        "averages": averages, "free_energies": differences,
        "problems": [*differing([run.history], workflow), *_problems(run, groups.values())],
        "notes": [*_left_out(run), *too_many(yardsticks)],
    }  # fmt: skip


def _scalars(run: Unbiased) -> dict[str, list[float]]:
    """Averages of the scores that have one dimension or are a dimension of one."""
    names = [name for name in run.table if name not in PLACE and run.table[name].dtype.kind == "f"]
    return {name: list(run.average(name)) for name in names}


def _yardsticks(run: Unbiased, workflow: Workflow) -> dict[str, np.ndarray]:
    """Yardstick -> (n,) its values along `run.table`; of frames that do not count 0, or -1 of labels."""
    params = loading.checked(workflow, run.history.settings()["params"])
    reached: dict[str, np.ndarray] = {}
    for rows, frames in _batches(run):
        for name, yardstick in workflow.yardsticks.items():
            value = yardstick.along(name, params, frames)
            if value.ndim == 1:
                none = 0.0 if np.issubdtype(value.dtype, np.floating) else -1
                reached.setdefault(name, np.full(len(run.table), none))[rows] = value
    return reached


def _batches(run: Unbiased) -> Iterator[tuple[np.ndarray, Window]]:
    """Frames that count with those of their segments, some at a time, and their rows in `run.table`."""
    spans: list[Span] = []
    rows: list[np.ndarray] = []
    begin = 0
    for span in published.spans(run.history.state):
        mine = np.arange(begin, begin + span.rows)
        begin += span.rows
        if run.weights.weight[mine].any():
            spans, rows = [*spans, span], [*rows, mine]
        if sum(map(len, rows)) > BATCH:
            yield np.concatenate(rows), Window(run.history.directory.frames, spans)
            spans, rows = [], []
    if spans:
        yield np.concatenate(rows), Window(run.history.directory.frames, spans)


def _problems(run: Unbiased, groups: Iterable[Mapping[str, np.ndarray]]) -> Iterator[str]:
    weights = run.weights
    if weights.collapsed:
        worth = (
            f"an effective sample size of {weights.effective:.0f}, the newest a mean log weight of {weights.newest:.1f}"
        )
        yield (
            f"The weights have collapsed: {len(weights):,} frames have {worth} (less than {COLLAPSED:g} is lost). The "
            "walkers are where the unbiased system hardly ever is. Do not use the results; take fewer dimensions or "
            "another barrier."
        )
    seldom = [words for group in groups for words in _seldom(run, group)]
    if seldom:
        yield (
            f"Few passages: {'; '.join(seldom)}, and {run.weights.enough_passages} are enough. The intervals may be "
            "too narrow. Simulate more."
        )


def _left_out(run: Unbiased) -> Iterator[str]:
    if run.weights.odd:
        yield (
            f"{count(run.weights.odd, 'frame')} are left out: they were pushed by a share of the bias only, because "
            "their start had failed under all of it, or their stored `bias` is not its energy in kT."
        )


def _seldom(run: Unbiased, states: Mapping[str, np.ndarray]) -> Iterator[str]:
    """States that were entered from the others or left for them too seldom; of one alone, all else is the other."""
    for name, state in states.items():
        others = [each for other, each in states.items() if other != name and each[run.weights.order].any()]
        left, entered = run.weights.passages_apart(state, np.logical_or.reduce(others) if others else ~state)
        if min(left, entered) < run.weights.enough_passages:
            yield f"{name} was entered {entered} and left {left} times that lie apart"


def facts(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        ("frames", f"{said['frames']:,}"), ("frames that count", f"{said['counted']:,}"),
        ("model", str(said["model"] or "none")), ("versions of its bias", str(said["versions"])),
        ("effective sample size", f"{said['effective']:,.0f}"),
    ]  # fmt: skip


def rows(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Free energies, populations and averages by name, with their intervals."""
    unknown = "not known: no frame that counts is in one of them"
    free = [(f"free energy of {name}", interval(each, " kT", unknown)) for name, each in said["free_energies"].items()]
    shares = [(f"population of {name}", interval(each)) for name, each in said["populations"].items()]
    return [*free, *shares, *((f"average of {name}", interval(each)) for name, each in said["averages"].items())]


def lines(said: Mapping[str, Any]) -> list[str]:
    """The same for a terminal."""
    share = percent(said["counted"] / max(said["frames"], 1))
    newest = f" along the newest model, {said['model']}" if said["model"] else ""
    return [
        f"{said['counted']:,} of {said['frames']:,} frames ({share}) count: those that were biased{newest}, without "
        "the first fifth of each lineage",
        f"Weights by {count(said['versions'], 'version')} of the bias; effective sample size {said['effective']:,.0f}",
        "Results of the unbiased system with 95 % intervals:",
        *table(rows(said)),
        *said["notes"],
        *(said["problems"] or [SUPPORTED if said["populations"] else UNASKED]),
    ]


def draw(run: Unbiased, score: str) -> Figure:
    """The free energy along a score. Raises: UnknownName: there is no such score."""
    names = of_score(score, run.table)
    if not names:
        raise UnknownName("score", score, [name for name in run.table if name not in PLACE])
    figure = style.sheet(3.0)
    left, right = figure.subplots(1, 2)
    _profile(left, run, names[0])
    if len(names) > 1:
        _map(figure, right, run, names[:2])
    else:
        _track(right, run, names[0])
    return figure


def _profile(axes: Axes, run: Unbiased, name: str) -> None:
    profile = run.free_energy(name)
    energy, low, high = (profile[each].to_numpy() for each in ("free_energy", "low", "high"))
    free_energy.curve(axes, profile.index.to_numpy(), energy, low, high, name)


def _map(figure: Figure, axes: Axes, run: Unbiased, names: Sequence[str]) -> None:
    energy = run.free_energy(*names)["free_energy"].unstack()
    free_energy.surface(figure, axes, energy.index.to_numpy(), energy.columns.to_numpy(), energy.to_numpy())
    axes.set(xlabel=names[0], ylabel=names[1])


def _track(axes: Axes, run: Unbiased, name: str) -> None:
    value = run.values(name)[run.weights.order]
    axes.plot(value, ".", color=style.BLUE, markersize=1, rasterized=True)
    for begin in (np.flatnonzero(np.diff(run.weights.lineage)) + 1).tolist():
        axes.axvline(begin, color=style.FAINT, linewidth=0.8)
    axes.set(xlabel="frames, lineage after lineage", ylabel=name)
