"""A watched run of members with weights -> who goes on, what was forecast of each, and how rare the event is."""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.dashboard.live.watched import Watched
from steersman.steering import Scores, Splitting
from steersman.steering.errors import NoAnswerYet
from steersman.steering.splitting import probability

MOST_ROUNDS = 30  # the newest ones, of which each member is shown


def answer(watched: Watched) -> dict[str, Any]:
    """Nothing of a run without weights; forecasts and return times where a policy `Splitting` is known."""
    scores = watched.history.scores
    if not len(scores) or not (scores.round > 0).any():
        return {}
    loaded = watched.workflow()
    policy = watched.history.steering(loaded[0]).policy if loaded else None
    rare = policy if isinstance(policy, Splitting) and policy.outcome in scores.values else None
    ends = np.flatnonzero(scores.ends & (scores.round > 0))
    shown = ends[scores.round[ends] > scores.round.max() - MOST_ROUNDS]
    chance = _chance(scores, rare)
    said: dict[str, Any] = {
        "round": scores.round[shown].tolist(), "weight": scores.weight[shown].tolist(),
        "chance": None if chance is None else chance[shown].tolist(), "window": 0 if rare is None else rare.window,
        **_families(scores, ends),
    }  # fmt: skip
    return said | ({} if rare is None else _rare(scores, rare))


def _chance(scores: Scores, rare: Splitting | None) -> np.ndarray | None:
    """(n,) the forecast probability of the event, of each frame."""
    if rare is None or not {rare.mean, rare.spread} <= set(scores.values):
        return None
    return probability(scores.column(rare.mean), scores.column(rare.spread), rare.above)


def _families(scores: Scores, ends: np.ndarray) -> dict[str, list[int]]:
    """Of each round how many members there are, and how many first members they descend from."""
    rounds = np.unique(scores.round[ends])
    of = [scores.root[ends[scores.round[ends] == each]] for each in rounds]
    return {"rounds": rounds.tolist(), "members": [len(each) for each in of], "first": [len(set(each)) for each in of]}


def _rare(scores: Scores, rare: Splitting) -> dict[str, Any]:
    """The estimate in words, and its curve over thresholds."""
    try:
        every = rare.curve(scores)
    except NoAnswerYet as none:
        return {"said": str(none)}
    curve = {level: each for level, each in every.items() if each.probability}
    return {
        "said": str(every[rare.above]), "above": rare.above, "outcome": rare.outcome,
        "levels": list(curve), "p": [each.probability for each in curve.values()],
        "low": [each.low for each in curve.values()], "high": [each.high for each in curve.values()],
    }  # fmt: skip
