"""Scores -> clusters: frames that are near each other in what the model says of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas

from steersman.system.errors import BadInput, UnknownName

SEED = 0  # the same scores always give the same clusters


def of_score(score: str, columns: Iterable[str]) -> list[str]:
    """Its columns: of one number by its name, of several also by their numbers, `z_0`, `z_1`, ..."""
    return [name for name in columns if re.fullmatch(rf"{re.escape(score)}(_\d+)?", name)]


def clusters(scores: pandas.DataFrame, number: int, by: str) -> pandas.Series:
    """The cluster of each frame by k-means, from the largest (0) to the smallest; -1 of a frame without scores.

    Args:
        scores: see `Run.scores`.
        by: a score; one of several dimensions by its name without the number, e.g. "z".
    Raises: UnknownName: there is no such score. BadInput: there are fewer scored frames than clusters.
    """
    from sklearn.cluster import KMeans

    own = scores.columns[4:]  # behind where a frame lies and its time
    columns = of_score(by, own)
    if not columns:
        raise UnknownName("score", by, own)
    known = scores[columns].notna().all(axis=1).to_numpy()
    if not 1 <= number <= known.sum():
        raise BadInput(f"{number} clusters: there are {known.sum()} scored frames; ask for fewer clusters")
    labels = KMeans(number, n_init=4, random_state=SEED).fit_predict(scores.loc[known, columns].to_numpy(float))
    by_size = np.argsort(np.argsort(-np.bincount(labels, minlength=number), kind="stable"), kind="stable")
    number_of = np.full(len(scores), -1)
    number_of[known] = by_size[labels]
    return pandas.Series(number_of, scores.index, name="cluster")
