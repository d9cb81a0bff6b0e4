"""Run directories -> pieces of plain dynamics, with features and labels of their frames.

A policy chooses where a segment begins, and it looks at where others have come to when it does. So what was before a
start and what came after it do not make one trajectory: only what the policy liked is gone on with. So a piece is one
segment, with the frame that it started from before it. Only `Unsteered` goes on from every end alike: its segments are
joined.

Axes: n frames of all runs, d features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steersman.analysis.errors import TooLittle
from steersman.analysis.one_system import differing
from steersman.data.history import History
from steersman.data.results import Results, place_of, placed
from steersman.journal.frame_keys import frame_key, places
from steersman.journal.modes.ensemble import Ensemble
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading, trust
from steersman.stages.workflow import Workflow
from steersman.steering import Scores
from steersman.steering.decide import UNITY
from steersman.store import Window
from steersman.system.errors import BadInput, UnknownName

EVEN = 0.02  # by which the time between frames may differ; times of single precision are right within half of it
JOINED = "Unsteered"
MOST_LABELS = 20  # of a yardstick whose populations are listed
WHOLE = "biu"  # kinds of dtypes that name states


@dataclass(frozen=True)
class Trajectories:
    """What was simulated.

    Args:
        features: (n, d) float.
        labels: yardstick -> (n,), what each frame is worth by it.
        pieces: positions of the frames of each piece, in order of time.
        step: simulated time between two frames, in `unit`.
        stopped: segments that a prune rule or a person asked to end early.
        members: the n frames again, of a single run that is a weighted ensemble, with their weights and rounds, and the
            score of its target if it has one; else None.
        differing: in words, parameters that had several values.
        score: name of the features.
    """

    features: np.ndarray
    labels: Mapping[str, np.ndarray]
    pieces: Sequence[np.ndarray]
    step: float
    unit: str
    stopped: int
    members: Scores | None = None
    differing: Sequence[str] = ()
    score: str = "score"


def few(labels: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those that name a few states: booleans, and whole numbers of few values."""
    return {
        name: value
        for name, value in labels.items()
        if value.ndim == 1 and value.dtype.kind in WHOLE and len(np.unique(value)) <= MOST_LABELS
    }


def amounts(labels: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Those that are averaged."""
    return {name: value for name, value in labels.items() if value.ndim == 1 and value.dtype.kind not in WHOLE}


def read(runs: Sequence[RunDirectory], score: str = "") -> Trajectories:
    """Read runs of the same workflow, by the newest model of the first one if it has a model.

    Args:
        score: name of the features, one of the score stage; "": the one with the most dimensions.
    Raises: UntrustedCode. UnknownName: no such score. BadYardstick: one does not give one row for each frame.
        BadInput: the time between frames differs. TooLittle.
    """
    first = History(runs[0])
    workflow = trust.load(runs[0].workflow)
    results = Results(first)
    if workflow.scoring is None or not results.scores.values:
        raise TooLittle(f"{runs[0].path} has no scores; analyse a run whose score stage has worked")
    scores = results.scores
    name = score or place_of(results, workflow)
    if name not in scores.values:
        raise UnknownName("score", name, scores.values)
    look = placed(results, workflow, name)
    weighted = len(runs) == 1 and first.state.mode(Ensemble).newest > 0
    parts = [_one(run, workflow, look) for run in runs]
    steps = np.concatenate([steps for *_, steps in parts])
    if not len(steps):
        raise TooLittle("no segment has frames; analyse a run that has simulated some")
    if np.abs(steps - np.median(steps)).max() > EVEN * np.median(steps):
        raise BadInput(
            "the time between frames differs: {shortest:g} to {longest:g} ({unit}); analyse only runs whose frames are "
            "equally far apart in time",
            shortest=steps.min(), longest=steps.max(), unit=first.state.time_unit,
        )  # fmt: skip
    offsets = np.cumsum([0, *(len(features) for features, *_ in parts)])
    return Trajectories(
        features=np.concatenate([features for features, *_ in parts]),
        labels={each: np.concatenate([labels[each] for _, labels, *_ in parts]) for each in workflow.yardsticks},
        pieces=[piece + at for at, (_, _, pieces, *_) in zip(offsets[:-1], parts, strict=True) for piece in pieces],
        step=float(np.median(steps)), unit=first.state.time_unit, stopped=sum(stopped for *_, stopped, _ in parts),
        members=_members(first, scores) if weighted else None,
        differing=list(differing([History(run) for run in runs], workflow)), score=name,
    )  # fmt: skip


def _one(
    run: RunDirectory, workflow: Workflow, look: Callable[..., np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray], list[np.ndarray], int, np.ndarray]:
    """Features, labels, pieces, segments that were stopped, and the times between frames that follow each other."""
    history = History(run)
    try:
        params = loading.checked(workflow, history.settings()["params"])
    except BadInput as error:
        raise BadInput(f"{run.path} is a run of another workflow than the first one: {error}") from None
    segments = history.segments
    own = segments.made
    rows = (segments.end - segments.first)[own]
    features: list[np.ndarray] = []
    labels: dict[str, list[np.ndarray]] = {name: [] for name in workflow.yardsticks}
    steps: list[np.ndarray] = []
    for batch in segments.batches():
        frames = Window(run.frames, segments.spans(batch))
        features.append(look(params, frames))
        for name, yardstick in workflow.yardsticks.items():
            labels[name].append(yardstick.along(name, params, frames))
        if "time" in frames:
            sizes = (segments.end - segments.first)[batch]
            steps.append(_steps(frames["time"], sizes, goes_on=segments.parent[batch] >= 0))
    return (
        np.concatenate(features) if features else np.empty((0, 1)),
        {name: np.concatenate(each) for name, each in labels.items() if each},
        list(_pieces(history, own, rows)), sum(segments.name(i) in history.stops for i in own.tolist()),
        np.concatenate(steps) if steps else np.ones(len(own)),
    )  # fmt: skip


def _steps(time: np.ndarray, sizes: np.ndarray, goes_on: np.ndarray) -> np.ndarray:
    """Times between frames of segments, each of which began at 0, and from there to the first one of those that go on
    from another."""
    first = np.cumsum(sizes) - sizes
    steps = np.diff(np.asarray(time, float), prepend=0.0)
    steps[first] = time[first]
    return np.delete(steps, first[~goes_on])


def _members(history: History, scores: Scores) -> Scores:
    """The scored frames in the order of the others."""
    segments = history.segments
    own = segments.made
    rows = (segments.end - segments.first)[own]
    row = np.concatenate([np.arange(segments.first[i], segments.end[i]) for i in own])
    return in_order(scores, np.repeat(segments.walker[own], rows), row)


def in_order(scores: Scores, walker: np.ndarray, row: np.ndarray) -> Scores:
    """The scores of frames in another order; frames of a round that is not scored whole weigh nothing yet.

    Args:
        walker, row: (n,) int, all frames, also those that have no score.
    """
    at = places(frame_key(scores.walker, scores.row), frame_key(walker, row))
    ended = np.bincount(scores.round, weights=scores.weight * scores.ends)
    whole = (at >= 0) & (np.abs(ended - 1) <= UNITY)[scores.round[at]]
    columns = {each: getattr(scores, each)[at] for each in ("segment", "starts", "ends")}
    values = {name: value[at] for name, value in scores.values.items()}
    weight, number = np.where(whole, scores.weight[at], 0.0), np.where(whole, scores.round[at], 0)
    return Scores(walker, row, **columns, values=values, model=scores.model, weight=weight, round=number)


def _pieces(history: History, own: np.ndarray, rows: np.ndarray) -> Iterator[np.ndarray]:
    """Positions of frames, in the order of `own`; a parent began before its children."""
    segments = history.segments
    begins = dict(zip(own.tolist(), (np.cumsum(rows) - rows).tolist(), strict=True))
    open_: dict[int, list[np.ndarray]] = {}  # segment that a piece has come to -> what it is made of
    for i, n in zip(own.tolist(), rows.tolist(), strict=True):
        parent, mine = int(segments.parent[i]), np.arange(begins[i], begins[i] + n)
        if parent not in begins:
            open_[i] = [mine]
            continue
        row = int(segments.parent_row[i])
        goes_on = segments.policy[i] == JOINED and row == segments.end[parent] - 1
        if goes_on and parent in open_:
            open_[i] = [*open_.pop(parent), mine]
        else:
            open_[i] = [np.array([begins[parent] + row - segments.first[parent]]), mine]
    yield from (np.concatenate(piece) for piece in open_.values())
