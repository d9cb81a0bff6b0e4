"""Words of a person -> the frames to export: a segment, frames by their scores, a cluster, part of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas

from steersman.data import tables
from steersman.data.clusters import clusters
from steersman.data.history import History
from steersman.system.errors import BadInput, BadValue, UnknownName


def of_scores(
    history: History, *, segment: str = "", scores: Sequence[str] = (), cluster: str = "", by: str = "z"
) -> pandas.DataFrame:
    """The frames that count, in order of starts: of one segment, with scores in ranges, of one cluster.

    Args:
        scores: NAME=LOW:HIGH, both ends within, either may be left out; or NAME=VALUE.
        cluster: K/N, the K-th largest of N clusters, counted from 0, see `clusters`.
        by: the score that clusters are made of.
    Raises: BadValue, UnknownName: words that say nothing. BadInput: there is no such frame.
    """
    table = tables.scores(history)
    chosen = np.ones(len(table), bool)
    if segment:
        chosen &= (table["segment"] == history.segments.name(history.segments.find(segment))).to_numpy()
    for words in scores:
        name, low, high = _range(words)
        if name not in table:
            raise UnknownName("score", name, table.columns[3:])
        chosen &= table[name].between(low, high).to_numpy()
    if cluster:
        number, of = _cluster(cluster)
        chosen &= (clusters(table, of, by) == number).to_numpy()
    if not chosen.any():
        asked = [*(f"--score {words}" for words in scores), *([f"--cluster {cluster}"] if cluster else [])]
        made_by = segment or "this run"
        problem = f"no frame of {made_by} fits {' '.join(asked)}" if asked else f"{made_by} has no frames"
        point = next((words for words in scores if ":" not in words), "")
        hint = f"`{point}:` means from there on; " if point else ""
        raise BadInput(f"{problem}; {hint}`steersman export RUN --tables DIR` writes all scores")
    return table[chosen]


def part(chosen: pandas.DataFrame, of: str, stride: int) -> pandas.DataFrame:
    """Frames A:B of those chosen, counted from 0, B not among them, and of these each `stride`-th.

    Raises: BadValue: this is no range, or an empty one.
    """
    match = re.fullmatch(r"(-?\d{1,12})?:(-?\d{1,12})?", of or ":")
    if match is None:
        raise BadValue("--range", of, "write A:B, frames counted from 0, B not among them; either may be left out")
    first, end = (int(each) if each else None for each in match.groups())
    frames = chosen.iloc[first:end:stride]
    if not len(frames):
        raise BadValue("--range", of, f"it selects none of {len(chosen):,} frames, counted from 0")
    return frames


def _range(words: str) -> tuple[str, float, float]:
    name, equal, between = words.partition("=")
    low, colon, high = between.partition(":")
    try:
        value = float(low) if low or not colon else -np.inf
        ends = value, (float(high) if high else np.inf) if colon else value
    except ValueError:
        equal = ""
    if not equal or not name:
        raise BadValue("--score", words, "write NAME=LOW:HIGH, e.g. error=3:, z_0=-1:1; or NAME=VALUE")
    return name, *ends


def _cluster(words: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", words)
    if match is None or int(match[1]) >= int(match[2]):
        raise BadValue("--cluster", words, "write K/N: 0/5 is the largest of 5 clusters, 4/5 the smallest")
    return int(match[1]), int(match[2])
