"""Scores and versions of the bias of a run -> what each of its frames counts in equilibrium."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from steersman.data.history import History
from steersman.data.segment_table import SegmentTable
from steersman.journal.modes.biases import Biases, read
from steersman.journal.segments import FAILED, HOW
from steersman.steering import Bias, Scores
from steersman.steering.errors import BadScores
from steersman.steering.opes import ENERGY, counted
from steersman.steering.reweighting import NEWEST, Reweighted, settled, weights

SAME_KT = 0.1  # a stored energy and that of the version differ by less: single precision, at worst

_kept: WeakKeyDictionary[History, tuple[tuple[int, ...], Reweighted]] = WeakKeyDictionary()


def applies(history: History) -> bool:
    """Whether a bias pushes this run."""
    return bool(history.state.mode(Biases).versions)


def reweighted(history: History, scores: Scores) -> Reweighted:
    """Weights of the frames that were biased along the coordinate of the model of the scores; all others have none.

    What was before that model was pushed along another coordinate, or by nothing and has seen one basin only. In the
    first fifth of what came after it a lineage still knows where it began: that is left out, too. So is a segment that
    failed, for another one was begun in its place, and one whose stored energy is not that of its version: a softer
    copy, or one of a version that is unknown.

    Raises: BadScores: no score is the coordinate of the bias, or the stored energy is not that of the bias.
    """
    key = (scores.model, len(scores), len(history.state.mode(Biases).sound))
    if history not in _kept or _kept[history][0] != key:
        _kept[history] = key, _reweighted(history, scores)
    return _kept[history][1]


def _reweighted(history: History, scores: Scores) -> Reweighted:
    segments = history.segments
    segment = segments.of_frames(scores.walker, scores.row)
    version = np.where(segments.how[segment] == HOW[FAILED], 0, _versions(history, scores, segment))
    at = np.flatnonzero((version > 0) & counted(scores))
    if not len(at):
        return Reweighted(np.zeros(len(scores)), at, at)
    made_of = {each.bias: each.sha256 for each in history.state.mode(Biases).sound}
    biases = {int(k): read(history.directory, int(k), made_of[k]) for k in np.unique(version[at])}
    z, wrong = _coordinate(scores, at, version[at], biases)
    kept = ~np.isin(segment[at], segment[at[wrong]])
    odd = int((~kept).sum())
    at, z = at[kept], z[kept]
    if not len(at):
        problem = "in no segment is it the energy of start.bias in kT at the score that is biased; return frame.bias"
        raise BadScores(ENERGY, problem)
    lineage = lineages(segments)[segment[at]]
    order = np.lexsort((scores.row[at], segment[at], lineage))
    order = order[settled(lineage[order])]
    at, z, lineage = at[order], z[order], lineage[order]
    version, weight = version[at], np.zeros(len(scores))
    weight[at] = weights(version, lambda k, some: biases[k].energy(z[some]))
    newest = scores.column(ENERGY)[np.sort(at)[-max(int(NEWEST * len(at)), 1) :]].mean()
    return Reweighted(weight, at, lineage, float(newest), odd)


def _versions(history: History, scores: Scores, segment: np.ndarray) -> np.ndarray:
    """(n,) int: the version of the bias of each frame; 0 where it is not along the coordinate of the scores' model."""
    biases = history.state.mode(Biases)
    start = np.where(segment >= 0, history.segments.start[segment], -1) if len(history.segments) else segment
    version = biases.versions_of(start)
    return np.where(np.isin(version, [each.bias for each in biases.sound if each.model == scores.model]), version, 0)


def _coordinate(
    scores: Scores, at: np.ndarray, version: np.ndarray, biases: dict[int, Bias]
) -> tuple[np.ndarray, np.ndarray]:
    """(m, d) float, the score that was biased: the one by which stored energies are those of their versions; and (m,)
    bool, which of them still are not."""
    dimensions = next(iter(biases.values())).dimensions
    stored = scores.column(ENERGY)[at] if ENERGY in scores.values else np.full(len(at), np.nan)
    coordinates: list[tuple[np.ndarray, np.ndarray]] = []
    for name in scores.values:
        z = scores.matrix(name)[at]
        if name == ENERGY or z.shape[1] != dimensions:
            continue
        energy = np.empty(len(at))
        for k, bias in biases.items():
            energy[version == k] = bias.energy(z[version == k])
        coordinates.append((z, ~(np.abs(energy - stored) < SAME_KT)))
    if not coordinates:
        raise BadScores("", f"no score has the {dimensions} dimensions of the bias; return the one that is biased")
    return min(coordinates, key=lambda each: int(each[1].sum()))


def lineages(segments: SegmentTable) -> np.ndarray:
    """(segments,) int: a segment belongs to that of its parent if it is the first to go on from its end, of those that
    did not fail and have frames that count; of one that was lost before its first frame another takes the place."""
    lineage, goes_on = np.arange(len(segments)), np.zeros(len(segments), bool)
    tried = (segments.how != HOW[FAILED]) & (segments.end > segments.first)
    for i, (parent, row) in enumerate(zip(segments.parent.tolist(), segments.parent_row.tolist(), strict=True)):
        if tried[i] and parent >= 0 and row == segments.end[parent] - 1 and not goes_on[parent]:
            lineage[i], goes_on[parent] = lineage[parent], True
    return lineage
