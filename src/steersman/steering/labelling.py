"""Scores -> frames whose labels are asked of an expensive code: those in doubt, and some drawn at random to audit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from steersman.steering.protocols import ScoreName, named_scores
from steersman.steering.scores import Scores
from steersman.system.numbers import Finite, Share, Whole, checked


class Wanted(NamedTuple):
    """A frame whose label is to be asked for: where it is among the scores, why, whether as an audit, and by how much
    the model doubts it."""

    at: int
    reason: str
    drawn: bool = False
    doubt: float | None = None


class LabelRule:
    """Ranks frames by how much their labels are wanted. A subclass gives `rank`.

    Attributes:
        most: labels that may wait for their answers at once.
        audits: share of all labels that is drawn at random instead, among all frames that the model in use visited, one
            of a segment.
    """

    most: int = 20
    audits: float = 0.0

    @property
    def needs(self) -> tuple[str, ...]:
        """As those of a policy."""
        return named_scores(self)

    def doubt(self, scores: Scores) -> np.ndarray | None:
        """(n,) by how much the model doubts each frame; None: the rule does not look at it."""
        return None

    def rank(self, scores: Scores, asked: np.ndarray, most: int) -> list[Wanted]:
        """At most so many frames, the most wanted first; `asked` (n,) bool are those that have a label, or wait."""
        raise NotImplementedError

    def chosen(
        self,
        scores: Scores,
        asked: np.ndarray,
        most: int,
        rng: np.random.Generator,
        audits: tuple[int, int],
        visited: np.ndarray,
        *,
        final: bool = False,
    ) -> list[Wanted]:
        """At most so many: by `rank`, and audits until their share is right. Before its scores exist all are random.

        An audit may hit a frame that has a label, and that is then its answer: else audits would leave out what was in
        doubt. Where nothing is wanted and nothing waits, one audit is drawn, for the label workers would be idle. No
        two are of one segment: its frames err alike, and many of them would say no more than one.

        Args:
            audits: how many were drawn so far, of how many labels since there was a model.
            visited: (m,) positions of the frames that audits are drawn of: all of segments that the model in use
                visited, that are over, and that were not audited.
            final: no model will learn from them: all are audits, if any are.
        """
        if not len(scores) or most < 1:
            return []
        if not set(self.needs) <= set(scores.values):
            free = np.flatnonzero(~asked)
            some = rng.choice(free, min(most, len(free)), replace=False)
            return [Wanted(int(each), "at random: there are no scores to choose by yet") for each in some]
        final = final and self.audits > 0
        ranked = [] if final else self.rank(scores, asked, most)[:most]
        drawn, total = audits
        due = int(np.ceil(self.audits * (total + max(len(ranked), 1)))) - drawn
        due = min(max(due, int(not ranked), most * final), most) if self.audits else 0
        apart = _apart(scores, visited, due, rng)
        random = [Wanted(int(at), "drawn at random, as an audit", drawn=True) for at in apart]
        # Room for audits that are owed is kept until there is what can be audited; one in doubt is asked for meanwhile.
        rest = min(most - len(random), max(most - due, 1))
        wanted, doubt = [*random, *ranked[:rest]], self.doubt(scores)
        return wanted if doubt is None else [each._replace(doubt=float(doubt[each.at])) for each in wanted]


@checked
class Doubtful(LabelRule):
    """Frames in doubt, far from each other and from all that have a label.

    Args:
        score: how much a frame is in doubt, a number: the spread of a committee, say.
        above: it is in doubt from here on, in the unit of the score.
        most: labels that may wait for their answers at once.
        apart: score in whose space they lie far apart: of all in doubt the one that is farthest from what was chosen
            comes first. Empty: the most doubtful one does.
        audits: share of labels that is drawn at random among all frames that the model in use visited, one of a
            segment.
    """

    score: ScoreName
    above: Finite
    most: Whole = 20
    apart: str = ""
    audits: Share = 0.0

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.score, *filter(None, (self.apart,)))

    def __str__(self) -> str:
        audits = f", and {100 * self.audits:g} % at random" if self.audits else ""
        return f"frames whose {self.score} is above {self.above:g}{audits}"

    def doubt(self, scores: Scores) -> np.ndarray:
        return scores.column(self.score)

    def rank(self, scores: Scores, asked: np.ndarray, most: int) -> list[Wanted]:
        doubt = self.doubt(scores)
        among = np.flatnonzero((doubt > self.above) & ~asked)
        among = among[np.argsort(-doubt[among], kind="stable")]
        if self.apart:
            among = _far(scores.matrix(self.apart), np.flatnonzero(asked), among, most)
        return [Wanted(int(at), f"{self.score} = {doubt[at]:.4g} is above {self.above:g}") for at in among[:most]]


def _apart(scores: Scores, among: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """At most so many of these positions at random, no two of one segment."""
    drawn = rng.permutation(among) if most > 0 else among[:0]
    _, first = np.unique(np.stack([scores.walker[drawn], scores.segment[drawn]]), axis=1, return_index=True)
    return np.asarray(drawn[np.sort(first)[:most]])


def _far(x: np.ndarray, known: np.ndarray, among: np.ndarray, most: int) -> np.ndarray:
    """Of some rows of x (n, d) at most so many, each the farthest from the known ones and those before it; rows that
    lie where one of these does are left out."""
    chosen: list[int] = []
    distance = np.full(len(among), np.inf)
    for at in known:
        distance = np.minimum(distance, ((x[among] - x[at]) ** 2).sum(axis=1))
    while len(chosen) < min(most, len(among)) and (far := int(distance.argmax())) >= 0 and distance[far] > 0:
        chosen.append(int(among[far]))
        distance = np.minimum(distance, ((x[among] - x[among[far]]) ** 2).sum(axis=1))
    return np.array(chosen, np.int64)
