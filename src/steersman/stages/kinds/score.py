"""`@wf.score`: what steering sees of the frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from steersman.journal.state import State
from steersman.stages.kinds.simulate import HANG_S
from steersman.stages.kinds.stage import StageKind, StageView, Trial, Try


@dataclass(frozen=True)
class Score(StageKind):
    kind, kept, arguments = "score", "scoring", ("params", "model", "frames")
    role, recorded = "scoring", "score"

    function: Callable[..., Mapping[str, Any]]
    batch: int = 16_384
    hang_s: float = HANG_S
    early: bool = False
    missing: tuple[str, ...] = ()

    def tried(self, trial: Trial) -> Iterator[Try]:
        yield Try(self.kind, trial.score, self.function)

    @classmethod
    def shown(cls, state: State, *, alive: bool) -> StageView:
        by = f"under model {state.scored_with}" if state.scored_with else ""
        counts = {"frames": f"{state.scored:,}", "seconds": f"{state.scoring_s:,.3g}"} if state.scored else {}
        return StageView(by or ("has not run" if not state.scored else ""), counts)
