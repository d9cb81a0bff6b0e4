"""Frames -> models and scores: trains when due, scores what is new, and holds what steering looks at."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from steersman.engine import tasks
from steersman.engine.jobs import Jobs
from steersman.engine.recorder import Recorder
from steersman.engine.run_directory import RunDirectory
from steersman.engine.scoreboard import Scoreboard, unscored
from steersman.engine.workflow import Params, Workflow
from steersman.steering import Scores
from steersman.store import Span


class Learner:
    """Training and scoring of a run, each one job at a time, beside each other unless `serial`."""

    def __init__(
        self,
        directory: RunDirectory,
        workflow: Workflow,
        params: Params,
        recorder: Recorder,
        jobs: Jobs,
        *,
        serial: bool,
    ) -> None:
        self._directory, self._workflow, self._recorder, self._jobs = directory, workflow, recorder, jobs
        self._rule = workflow.train_rule(params)
        self._serial = serial
        self._training: Future[Any] | None = None
        self._scoring: tuple[Future[Any], Scoreboard, Sequence[Span]] | None = None
        self._board: Scoreboard | None = None
        self._coming: Scoreboard | None = None  # a newer model's, until it has caught up
        self._failed_scorings = 0
        self._scores: Scores | None = None
        self._seen = (-1, -1)
        if workflow.scoring:
            jobs.submit("training", tasks.warm_up, str(directory.path))
        version = recorder.state.model
        if workflow.scoring and (version or workflow.training is None):
            self._board = Scoreboard(directory.scores, version)

    @property
    def busy(self) -> bool:
        return self._training is not None or self._scoring is not None

    def advance(self) -> bool:
        """Take what is finished, begin what is due; returns whether there are new scores."""
        fresh = self._take_scores()
        self._take_model()
        self._begin_training()
        if not (self._serial and self._training):
            self._begin_scoring()
        return fresh

    def scores(self) -> Scores:
        """The newest scores, or all frames without values before there are any."""
        state = self._recorder.state
        if self._board is not None and self._board.frames:
            if self._scores is None:
                self._scores = self._board.scores(state)
        elif self._scores is None or self._seen != state.published:
            self._seen = state.published
            self._scores = unscored(state)
        return self._scores

    def _begin_training(self) -> None:
        state = self._recorder.state
        if self._training or self._rule is None or not self._rule.due(state.frames, state.trained_at):
            return
        assert self._workflow.training is not None
        window = _newest(state.spans(held_out=False), self._workflow.training.window)
        if not window:
            return
        held_out = _newest(state.spans(held_out=True), self._workflow.training.window // 5)
        version = len(state.models) + 1
        self._recorder.record("training", model=version, frames=state.frames)
        run = str(self._directory.path)
        self._training = self._jobs.submit("training", tasks.train, run, version, state.model, window, held_out)

    def _take_model(self) -> None:
        if self._training is None or not self._training.done():
            return
        job, self._training = self._training, None
        version = self._recorder.state.models[-1].version
        if error := job.exception():
            cause = f"{type(error).__name__}: {error}"
            self._recorder.record("model", model=version, accepted=False, reason=f"the training failed: {cause}")
            return
        card = job.result()
        last = card["history"][-1] if card["history"] else {}
        facts = {key: card[key] for key in ("accepted", "reason", "seconds", "held_out", "predecessor")}
        loss = last.get("loss")
        self._recorder.record(
            "model", model=version, frames=card["frames"], epochs=len(card["history"]), loss=loss, **facts
        )
        if card["accepted"]:
            self._coming = Scoreboard(self._directory.scores, version)

    def _begin_scoring(self) -> None:
        board = self._coming or self._board
        if self._scoring or board is None:
            return
        assert self._workflow.scoring is not None
        spans = board.missing(self._recorder.state, self._workflow.scoring.batch)
        if spans:
            job = self._jobs.submit("training", tasks.score, str(self._directory.path), board.model, spans)
            self._scoring = (job, board, spans)

    def _take_scores(self) -> bool:
        if self._scoring is None or not self._scoring[0].done():
            return False
        (job, board, spans), self._scoring = self._scoring, None
        if error := job.exception():
            self._refuse(board, error)
            return False
        board.add(spans, job.result())
        if board is self._coming and (self._board is None or board.frames >= self._board.frames):
            self._board, self._coming = board, None
        if board is not self._board:
            return False
        self._scores = None
        self._recorder.record("scored", model=board.model, frames=board.frames)
        self._measure()
        return True

    def _refuse(self, board: Scoreboard, error: BaseException) -> None:
        """A model that cannot score is not used; the run goes on with what there is."""
        self._recorder.note(f"scoring with model {board.model} failed: {type(error).__name__}: {error}")
        if board is self._coming:
            self._coming = None
        else:
            self._board = None

    def _measure(self) -> None:
        values = {}
        for name, metric in self._workflow.metrics.items():
            try:
                values[name] = float(metric(self.scores()))
            except Exception as error:  # a user's metric may raise anything; the others are still worth having
                self._recorder.note(f"metric {name} failed: {type(error).__name__}: {error}")
        if values:
            self._recorder.record("metrics", values=values)


def _newest(spans: Sequence[Span], most: int) -> list[Span]:
    """The newest frames of every walker alike, at most `most` in all."""
    total = sum(span.rows for span in spans)
    if total <= most:
        return list(spans)
    by_walker: dict[str, list[Span]] = {}
    for span in spans:
        by_walker.setdefault(span.walker, []).append(span)
    return [span for own in by_walker.values() for span in _tail(own, most * sum(s.rows for s in own) // total)]


def _tail(spans: Sequence[Span], most: int) -> list[Span]:
    kept: list[Span] = []
    for span in reversed(spans):
        if most <= 0:
            break
        kept.insert(0, Span(span.walker, max(span.first, span.end - most), span.end))
        most -= span.rows
    return kept
