"""Frames -> models -> scores -> what pushes: what a run learns, on one worker or on several."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from steersman.engine.driven import Driven
from steersman.engine.jobs import Jobs
from steersman.engine.labeller import Labeller
from steersman.engine.pusher import Pusher
from steersman.engine.scorer import Scorer
from steersman.engine.trainer import Trainer
from steersman.stages.rules import Every

PATIENCE_S = 60.0  # frames wait for scores so long before it is noted, and twice as long before it is noted again


class Learning:
    """What a run learns from its frames.

    With one worker for both a training that is due begins when no scoring waits for it: all frames are scored by a new
    model before the next one is trained. So a frame waits for a training and two batches at most, and the scores in use
    are at most two models old. The same holds in rounds, where everything is scored before the next round begins.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, run: Driven, jobs: Jobs, clock: Callable[[], float] = time.monotonic) -> None:
        stage = run.workflow.training
        self._recorder, self._rounds = run.recorder, run.rounds
        self._turns = run.rounds or run.site.takes_turns
        label = run.workflow.labelling
        version = label.version if label else None
        self._trainer = Trainer(run.directory, stage, run.recorder, jobs, clock, version) if stage else None
        self._labeller = Labeller(run, label, run.workflow.steering.label, jobs, clock) if label else None
        self.scorer = Scorer(run.directory, run.workflow, run.recorder, jobs, run.site, clock)
        self._pusher = Pusher.of(run)
        self.amend = self._pusher.unless_lost if self._pusher else None  # a start, by what was learned
        self._patience_s = PATIENCE_S

    @property
    def training(self) -> bool:
        return self._trainer is not None and self._trainer.busy

    @property
    def busy(self) -> bool:
        return (
            self.training or self.scorer.busy or (self._rounds and self._labeller is not None and self._labeller.busy)
        )

    def advance(self, rule: Every | None, left_s: float = math.inf) -> bool:
        """Label, train and score; returns whether there are new scores.

        Args:
            rule: says when a training is due.
            left_s: until the run is over, when it ends.
        """
        fresh = self.scorer.take()
        if self._trainer and rule:
            self._trainer.advance(rule, left_s, begin=not (self._turns and self.scorer.goes_first))
        if not (self._turns and self._trainer and self._trainer.at_work):
            self.scorer.begin(at_once=self._rounds or math.isfinite(left_s))
        if self._labeller:
            self._labeller.advance(self.scorer.scores, choose=math.isinf(left_s))
        self._note_waiting()
        return fresh

    def follow(self) -> None:
        """Make what follows from the newest scores."""
        if self._pusher:
            self._pusher.advance(self.scorer.scores())

    def _note_waiting(self) -> None:
        state = self._recorder.state
        waits_s = state.waits_s(self._recorder.now())
        if waits_s < self._patience_s:
            return
        self._patience_s = 2 * waits_s
        why = "a training has the worker that scores" if self._turns and self.training else "scoring does not keep up"
        self._recorder.note(f"{state.waiting:,} frames have waited for scores for up to {waits_s:.0f} s: {why}")
