"""Frames -> models -> scores -> what pushes: what a run learns, on one worker or on several."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable

import numpy as np
from msgspec.structs import replace

from steersman.engine.driven import Driven
from steersman.engine.jobs import Jobs
from steersman.engine.labeller import Labeller
from steersman.engine.scorer import Scorer
from steersman.engine.trainer import Trainer
from steersman.journal.modes import biases
from steersman.journal.recorder import Recorder
from steersman.journal.records import Biased, FrameId, Start
from steersman.journal.run_directory import RunDirectory
from steersman.stages.rules import Every
from steersman.steering import Bias, Opes, Scores
from steersman.system.files import replace_file

PATIENCE_S = 60.0  # frames wait for scores so long before it is noted, and twice as long before it is noted again
LOOK_BACK = 8  # segments, for scores come a little after the frames


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
        self._labeller = Labeller(run, label, jobs, clock) if label else None
        self.scorer = Scorer(
            run.directory, run.workflow, lambda: run.rules.steering, run.recorder, jobs, run.site, clock
        )
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
            self._labeller.advance(self.scorer.scores_now, new=fresh, choose=math.isinf(left_s))
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


class Pusher:
    """Keeps the bias of a run up to date with its scores.

    A version depends on the scores and nothing else: one whose file was written and whose record was not is made again.
    """

    def __init__(self, directory: RunDirectory, bias: Opes, recorder: Recorder) -> None:
        self._directory, self._bias, self._recorder = directory, bias, recorder
        self._failed_at: Scores | None = None
        self._newest: tuple[int, Bias] | None = None  # the version that was used last

    @classmethod
    def of(cls, run: Driven) -> Pusher | None:
        """What keeps the bias of a run, if it has one."""
        bias = run.rules.steering.bias
        return cls(run.directory, bias, run.recorder) if bias else None

    @property
    def _versions(self) -> biases.Biases:
        return self._recorder.state.mode(biases.Biases)

    def advance(self, scores: Scores) -> None:
        """Make a version if one is due; where that fails, the one before stays in force."""
        newest = self._versions.newest
        known = (newest.model, newest.frames) if newest else (-1, 0)
        if scores is self._failed_at or not self._bias.due(scores, *known):
            return
        version = self._versions.next_version
        try:
            bias = self._bias.made(scores)
        except Exception as error:  # scores may be anything; the run goes on and says so
            self._failed_at = scores
            self._recorder.fails_here("bias", error)
            return
        self._newest, data = (version, bias), bias.to_bytes()
        file = biases.file_of(self._directory, version)
        file.parent.mkdir(exist_ok=True)
        replace_file(file, data)
        self._recorder.record(Biased(
            bias=version, model=scores.model, frames=len(scores), sha256=hashlib.sha256(data).hexdigest(),
            kernels=len(bias.heights),
        ))  # fmt: skip
        self._recorder.works("bias")

    def unless_lost(self, start: Start, scores: Scores, rng: np.random.Generator) -> Start:
        """The start, or where its walker is lost one from a heavy frame in its place; as far as there are scores."""
        newest, lost = self._versions.newest, self._bias.lost
        if lost is None or newest is None or newest.model != scores.model or self._bias.lacks(scores.values):
            return start
        if not (start.exact and start.parent and start.share):
            return start
        rows = self._newest_rows(start.parent, scores)
        if not len(rows) or (weight := self._bias.log_weight(scores, rows)) > lost:
            return start
        drawn = self._bias.drawn(scores, self._read(newest), rng)
        if drawn is None:
            return start
        parent = FrameId(int(scores.walker[drawn]), int(scores.row[drawn]), int(scores.segment[drawn]))
        end = self._recorder.state.name_of(start.parent)
        reason = f"drawn by its weight: the walker that came to {end} is lost, at a mean log weight of {weight:.1f}"
        return replace(
            start, parent=parent, exact=scores.exact, instead=start.parent, policy=self._bias.name, reason=reason,
            model=scores.model,
        )  # fmt: skip

    def _newest_rows(self, end: FrameId, scores: Scores) -> np.ndarray:
        """Positions of the frames of a segment that has just ended, or of the newest before it that has scores."""
        segment: tuple[int, int] | None = (end.walker, end.segment)
        for _ in range(LOOK_BACK):
            if segment is None:
                break
            if len(rows := np.flatnonzero((scores.walker == segment[0]) & (scores.segment == segment[1]))):
                return rows
            segment = self._versions.before(segment)
        return np.empty(0, int)

    def _read(self, record: Biased) -> Bias:
        if self._newest is None or self._newest[0] != record.bias:
            self._newest = record.bias, biases.read(self._directory, record.bias, record.sha256)
        return self._newest[1]
