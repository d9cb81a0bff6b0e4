"""Another policy's ranking -> the same at the newest ends of segments alone, each continued exactly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from steersman.steering.protocols import ByAnother, Candidate, Policy
from steersman.steering.scores import Scores
from steersman.system.numbers import Whole, checked

ELSEWHERE = 2**20  # as if a frame had been started from so often: a ranking puts it last


@checked
class Frontier(ByAnother):
    """The newest ends of segments, with their velocities; another policy says which of them get two segments.

    A restart from any frame begins a shallow lineage with new velocities. Here every segment continues one that has
    just ended, with its velocities; the policy says which of them gets a second one, and so which is given up.

    Args:
        policy: ranks the frames.
        newest: so many of the newest ends are looked at, e.g. twice as many as there are slots.
        branches: segments that may be started from one end.
    Source: the splitting of Huber and Kim (1996), without its weights.
    """

    example = '(Novelty("z"))'
    policy: Policy
    newest: Whole = 8
    branches: Whole = 2

    @property
    def patient(self) -> bool:
        return True

    def rank(self, scores: Scores, rng: np.random.Generator) -> list[Candidate]:
        ends = np.flatnonzero(scores.ends)[-self.newest :]
        ends = ends[scores.starts[ends] < self.branches]
        if not len(ends):
            return []
        starts = np.full(len(scores), ELSEWHERE)
        starts[ends] = 0
        ranked = self.policy.rank(replace(scores, starts=starts), rng)
        chosen = {c.index: replace(c, policy=self.name, exact=True) for c in ranked if starts[c.index] == 0}
        unranked = [Candidate(int(i), self.name, 0.0, "goes on", exact=True) for i in ends if i not in chosen]
        return [*chosen.values(), *unranked]
