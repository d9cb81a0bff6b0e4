"""Frames -> models and scores: trains when due, scores what is new, and holds what steering looks at."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from steersman.engine.jobs import Jobs, lost
from steersman.executors.site import Site
from steersman.journal import published
from steersman.journal.recorder import Recorder
from steersman.journal.run_directory import RunDirectory
from steersman.journal.scoreboard import Scoreboard, stale, unscored
from steersman.stages.workflow import Params, Workflow
from steersman.steering import Scores
from steersman.steering.errors import BadScores
from steersman.store import Span, StoreError
from steersman.worker import tasks, training
from steersman.worker.errors import BlockEnds

LOSSES = 3  # workers that may die in a row under a training, or a scoring, before it counts as failed
LOST_S = 60.0  # a job that Parsl lost is given up so long after its worker must have ended
LATER_S = 2.0  # until a training that was refused is tried again


class Learner:
    """Training and scoring of a run, each one job at a time, beside each other unless `serial`."""

    def __init__(
        self,
        directory: RunDirectory,
        workflow: Workflow,
        params: Params,
        recorder: Recorder,
        jobs: Jobs,
        site: Site,
        *,
        serial: bool,
    ) -> None:
        self._directory, self._workflow, self._recorder, self._jobs = directory, workflow, recorder, jobs
        self.rule = workflow.train_rule(params)
        self._serial = serial
        self._scorer, self._in_driver = site.executor_of("scoring"), site.driver_threads > 0
        self._training: Future[Any] | None = None
        self._scoring: tuple[Future[Any], Scoreboard, Sequence[Span]] | None = None
        self._slow: Future[Any] | None = None  # a scoring that was told of
        self._board: Scoreboard | None = None
        self._coming: Scoreboard | None = None  # a newer model's, until it has caught up
        self._failed_scorings = 0  # in a row, for the workers were lost
        self._losses = 0  # the same of trainings
        self._put_off = 0  # the model whose training waits for the next block
        self._not_before = self._training_since = self._scoring_since = 0.0
        self._scores: Scores | None = None
        self._seen = (-1, -1)
        for role in site.executors.keys() - {"simulation", "scoring" if self._in_driver else ""}:
            jobs.submit(role, tasks.warm_up, str(directory.path))
        self._restore()

    def _restore(self) -> None:
        """Take up what an earlier session had: its scores, a model that was to come, a training that was under way."""
        state, workflow = self._recorder.state, self._workflow
        if workflow.scoring is None:
            return
        if state.training is not None and (card := self._directory.card(state.training.version)):
            self._record_model(state.training.version, card)
        newest = state.model
        usable = {model.version for model in state.models if model.accepted}
        if state.scored_with in usable or workflow.training is None:
            self._board = Scoreboard.load(self._directory.scores, state.scored_with, state.scored)
        if newest and newest != state.scored_with:
            self._coming = Scoreboard(self._directory.scores, newest)

    @property
    def busy(self) -> bool:
        """Whether something is under way, or a training whose worker died is to begin again in a moment."""
        begun = self.rule is not None and self._recorder.state.training is not None
        return begun or self._training is not None or self._scoring is not None

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
        elif self._scores is None or stale(self._seen, state.published, len(state.walkers)):
            self._scores, self._seen = unscored(state), state.published
        return self._scores

    def _begin_training(self) -> None:
        state = self._recorder.state
        if self._training or self.rule is None or time.monotonic() < self._not_before:
            return
        begun = state.training  # by a session that died, or on a worker that did
        if begun is None and not self.rule.due(state.frames, state.trained_at):
            return
        assert self._workflow.training is not None
        window = published.spans(state, held_out=False, most=self._workflow.training.window)
        if not window:
            return
        held_out = published.spans(state, held_out=True, most=self._workflow.training.window // 5)
        version = begun.version if begun else len(state.models) + 1
        if begun is None:
            self._recorder.record("training", model=version, frames=state.frames)
        needs_s = max((model.card.get("seconds", 0.0) for model in state.models), default=0.0)
        self._training_since = time.monotonic()
        model, since = state.models[-1], self._recorder.now()
        self._training = self._jobs.submit(
            "training", tasks.train, str(self._directory.path), version, state.model, window, held_out,
            state.settings, needs_s, heard=lambda: "" if model.epoch.get("t", 0.0) > since else None,
        )  # fmt: skip

    def _take_model(self) -> None:
        if self._training is None:
            return
        if not self._training.done():
            assert self._workflow.training is not None
            if self._overdue(self._training_since, self._workflow.training.hang_s, "training"):
                self._training = None
            return
        job, self._training = self._training, None
        version = self._recorder.state.models[-1].version
        error = job.exception()
        if error is None:
            self._record_model(version, job.result())
        elif isinstance(error, BlockEnds) or (lost(error) and self._losses < LOSSES):
            self._losses += lost(error)
            self._not_before = time.monotonic() + LATER_S
            if lost(error) or version != self._put_off:  # it is tried again until there is a block, and told of once
                self._recorder.note(f"the training of model {version} begins again: {type(error).__name__}: {error}")
            self._put_off = 0 if lost(error) else version
        else:
            self._losses = 0
            cause = f"{type(error).__name__}: {error}"
            self._recorder.record("model", model=version, accepted=False, reason=f"the training failed: {cause}")

    def _overdue(self, since: float, hang_s: float, what: str) -> bool:
        """Whether a job is given up: its worker ended itself long ago, and Parsl lost the job with it."""
        if time.monotonic() - since < 2 * hang_s + LOST_S:
            return False
        self._recorder.note(f"a {what} did not come back; it is given up and begins again")
        return True

    def _record_model(self, version: int, card: dict[str, Any]) -> None:
        self._losses = 0
        last = card["history"][-1] if card["history"] else {}
        facts = {key: card[key] for key in ("accepted", "reason", "seconds", "held_out", "predecessor")}
        loss = last.get("loss")
        self._recorder.record(
            "model", model=version, frames=card["frames"], epochs=len(card["history"]), loss=loss, **facts,
            profile=training.profile(card["history"]),
        )  # fmt: skip
        if card["accepted"]:
            self._coming = Scoreboard(self._directory.scores, version)

    def _begin_scoring(self) -> None:
        board = self._coming or self._board
        if self._scoring or board is None:
            return
        assert self._workflow.scoring is not None
        state = self._recorder.state
        spans = board.missing(state, self._workflow.scoring.batch)
        if spans:
            score = tasks.score_in_driver if self._in_driver else tasks.score
            job = self._jobs.submit(self._scorer, score, str(self._directory.path), board.model, spans, state.settings)
            self._scoring, self._scoring_since = (job, board, spans), time.monotonic()

    def _take_scores(self) -> bool:
        if self._scoring is None:
            return False
        if not self._scoring[0].done():
            assert self._workflow.scoring is not None
            hang_s = self._workflow.scoring.hang_s
            if self._in_driver:
                self._tell_of_slow_scoring(hang_s)
            elif self._overdue(self._scoring_since, hang_s, "scoring"):
                self._scoring = None
            return False
        (job, board, spans), self._scoring = self._scoring, None
        took_s = time.monotonic() - self._scoring_since
        error = job.exception()
        if lost(error) and self._failed_scorings < LOSSES:
            self._failed_scorings += 1
            self._recorder.note(f"scoring with model {board.model} begins again: {type(error).__name__}: {error}")
            return False
        self._failed_scorings = 0
        if error is not None:
            self._refuse(board, error)
            return False
        try:
            board.add(spans, job.result())
        except (StoreError, BadScores) as misfit:  # scores of another kind than the ones before
            self._refuse(board, misfit)
            return False
        if board is self._coming and (self._board is None or board.frames >= self._board.frames):
            self._board, self._coming = board, None
        if board is not self._board:
            return False
        self._scores = None
        self._recorder.record("scored", model=board.model, frames=board.frames, took_s=took_s)
        self._measure()
        return True

    def _tell_of_slow_scoring(self, hang_s: float) -> None:
        """A thread cannot be ended, as a worker that hangs ends itself: who looks is told, once."""
        assert self._scoring is not None
        job, board, _ = self._scoring
        if job is self._slow or time.monotonic() - self._scoring_since < hang_s:
            return
        self._slow = job
        self._recorder.note(
            f"scoring with model {board.model} takes longer than its hang_s of {hang_s:g} s, in a thread, which cannot "
            "be ended: if it hangs, stop the run, write `scoring: {workers: 1}` into its run.yaml, and resume it"
        )

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
                value = float(metric(self.scores()))
                if not math.isfinite(value):
                    raise ValueError(f"it gave {value}, which is not recorded")
                values[name] = value
            except Exception as error:  # a user's metric may raise anything; the others are still worth having
                self._recorder.note(f"metric {name} failed: {type(error).__name__}: {error}")
        if values:
            self._recorder.record("metrics", values=values)
