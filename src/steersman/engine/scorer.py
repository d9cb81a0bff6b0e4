"""Frames and models -> scores: scores what is new, one batch at a time, and holds what steering looks at."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from steersman.engine.jobs import Jobs
from steersman.engine.work import Work
from steersman.executors.site import Site
from steersman.journal.recorder import Recorder
from steersman.journal.records import Metrics, Scored
from steersman.journal.run_directory import RunDirectory
from steersman.journal.scoreboard import Scoreboard, misses_an_end, stale, unscored
from steersman.stages.kinds.score import Score
from steersman.stages.metric import measured
from steersman.stages.score_names import lacking
from steersman.stages.workflow import Workflow
from steersman.steering import Scores, Steering
from steersman.steering.errors import BadScores, NoAnswerYet
from steersman.store import Span, StoreError
from steersman.system.errors import told
from steersman.worker import tasks

PAUSE_S = 1.0  # between two scorings that no start waits for


@dataclass
class _Batch:
    """Frames that are being scored for a board."""

    board: Scoreboard
    spans: Sequence[Span]
    work: Work
    noted: bool = False  # that it takes long


class Scorer:
    """The scores of a run: under the model in use, and under a newer one until that has caught up.

    A scoring of all frames by a model is finished and used, whatever model comes meanwhile: else a model that comes
    sooner than a scoring takes would leave the run without scores. Until then every second batch is one of new frames
    by the model in use.

    What is new is scored at once where steering looks at scores; else once a second, for metrics, so that plain
    simulations keep their cores.

    Attributes:
        hopeless: why steering will never have what it needs, or "".
    """

    def __init__(
        self,
        directory: RunDirectory,
        workflow: Workflow,
        steering: Callable[[], Steering],
        recorder: Recorder,
        jobs: Jobs,
        site: Site,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory, self._workflow, self._steering = directory, workflow, steering
        self._recorder, self._jobs = recorder, jobs
        self._role, self._clock = site.executor_of("scoring"), clock
        self._in_driver = any(executor.in_driver for executor in site.executors.values())
        self._due = -math.inf
        self._early = workflow.scoring is not None and workflow.scoring.early
        self.hopeless = ""
        self._batch: _Batch | None = None
        self._unfit = set[int]()  # models that cannot score
        self._said = dict[str, str]()  # why a metric has no value, by its name
        self._failed = -1, (-1, -1)  # the model of a scoring that failed, and what was published
        self._scores: Scores | None = None
        self._seen, self._ended = (-1, -1), -1  # what was published when they were put together
        state = recorder.state
        usable = {0, *(model.version for model in state.models if model.accepted)}
        known = workflow.scoring is not None and state.scored_with in usable and state.scored
        self._board = Scoreboard.load(directory.scores, state.scored_with, state.scored) if known else None
        self._coming: Scoreboard | None = None  # a newer model's, until it has caught up
        self._newer = False  # whether the last batch was one of it, and left frames out
        self._follow_model()

    @property
    def busy(self) -> bool:
        return self._batch is not None

    @property
    def goes_first(self) -> bool:
        """Whether a training that needs the same worker waits: for a batch, or until a newer model has caught up."""
        return self.busy or self._coming is not None

    def take(self) -> bool:
        """Take what is finished; returns whether there are new scores."""
        stage = self._workflow.scoring
        return stage is not None and self._batch is not None and self._take(self._batch, stage)

    def begin(self, *, at_once: bool = False) -> None:
        """Begin what is due.

        Args:
            at_once: no frame is to wait, and no score is wanted but of the newest model: in rounds, and at the end.
        """
        stage = self._workflow.scoring
        self._follow_model()
        if stage and self._batch is None and (at_once or self._is_due(stage)):
            self._begin(stage, at_once=at_once)
        if self._batch is not None:
            self._batch.work.advance()

    def names(self) -> Set[str]:
        """Of the newest scores, without looking at them."""
        return self._board.names if self._board is not None else set()

    def scores(self) -> Scores:
        """The newest scores, or all frames without values before there are any."""
        state = self._recorder.state
        if self._board is not None and self._board.frames:
            ended, patient = state.published[1], self._steering().policy.patient
            late = patient and ended != self._ended and self._scores and misses_an_end(state, self._scores)
            if self._scores is None or late:
                self._scores = self._board.scores(state)
            self._ended = ended
        elif self._scores is None or stale(self._seen, state.published, len(state.walkers)):
            self._scores, self._seen = unscored(state), state.published
        return self._scores

    def scores_now(self) -> Scores:
        """The same, put together from what is known now."""
        state = self._recorder.state
        return self._board.scores(state) if self._board is not None and self._board.frames else unscored(state)

    def _follow_model(self) -> None:
        """Scores are to be of the newest accepted model that can score."""
        newest = self._recorder.state.models.newest
        if self._workflow.scoring is None or (self._is_early(newest) and not self._early) or newest in self._unfit:
            return
        if self._coming is None and (self._board is None or self._board.model != newest):
            self._coming = Scoreboard(self._directory.scores, newest)

    def _is_early(self, model: int) -> bool:
        """Whether scores are those of before the first model, while there is to be one."""
        return model == 0 and self._workflow.training is not None

    def _is_due(self, stage: Score) -> bool:
        """A new model's scores, a whole batch, or what has waited long enough."""
        scored = self._board.frames if self._board else 0
        return (
            self._coming is not None
            or self._recorder.state.frames - scored >= stage.batch
            or self._recorder.state.frames > self._steering().growth * scored > 0
            or self._clock() >= self._due
        )

    def _begin(self, stage: Score, *, at_once: bool) -> None:
        state = self._recorder.state
        for board, most in self._turns(stage.batch, at_once=at_once):
            if (board.model, state.published) != self._failed and (spans := board.missing(state, most)):
                self._newer = board is self._coming and sum(span.rows for span in spans) == most
                self._batch = self._begun(board, spans, stage)
                return

    def _turns(self, batch: int, *, at_once: bool) -> list[tuple[Scoreboard, int]]:
        """Whose frames are scored, if it misses some, and how many of them."""
        if self._coming is None:
            return [(self._board, batch)] if self._board else []
        if self._board is None or at_once:
            return [(self._coming, batch)]
        # Half as many, or frames that come as fast as they are scored would keep the newer model behind for ever.
        turns = [(self._coming, batch), (self._board, max(1, batch // 2))]
        return turns[::-1] if self._newer else turns

    def _begun(self, board: Scoreboard, spans: list[Span], stage: Score) -> _Batch:
        state = self._recorder.state
        score = tasks.score_in_driver if self._in_driver else tasks.score

        def submit() -> Future[Any]:
            return self._jobs.submit(
                self._role, score, str(self._directory.path), board.model, spans, state.wishes.settings
            )

        hang_s = math.inf if self._in_driver else stage.hang_s  # a thread cannot be ended
        steering, what = self._steering(), f"scoring with model {board.model}"
        self._due = self._clock() + (0.0 if steering.policy.needs or steering.prune else PAUSE_S)
        return _Batch(board, spans, Work(what, submit, self._recorder.note, hang_s=hang_s, clock=self._clock))

    def _take(self, batch: _Batch, stage: Score) -> bool:
        job = batch.work.advance()
        if job is None:
            self._note_slow(batch, stage.hang_s)
            return False
        self._batch = None
        board, error = batch.board, job.exception()
        try:
            if error is not None:
                raise error
            board.add(batch.spans, job.result())
        except Exception as problem:  # a user's score may raise anything, or give scores of another kind than before
            self._fail(board, problem)
            return False
        if board is self._coming and (self._board is None or board.frames >= self._board.frames):
            self._board, self._coming = board, None
        if board is not self._board:
            return False
        self._scores = None
        self._recorder.record(Scored(model=board.model, frames=board.frames, took_s=batch.work.ran_s))
        self._recorder.works("score")
        if not (early := self._is_early(board.model)):
            self.hopeless = lacking(self._workflow, self._steering(), self.scores().values)  # it never comes
        self._measure(early=early)
        return True

    def _fail(self, board: Scoreboard, problem: Exception) -> None:
        """A model that cannot score is not used; the run goes on with what there is, and scores the next frames."""
        if board is self._coming:
            self._coming = None
            self._unfit.add(board.model)
        self._failed = board.model, self._recorder.state.published
        if isinstance(problem, (StoreError, BadScores)):
            self._recorder.note(f"the scores of model {board.model} cannot be used: {problem}")
        cause = f"with model {board.model}: {type(problem).__name__}: {problem}"
        self._recorder.fails("score", cause, self._directory.traceback("scoring", board.model))

    def _note_slow(self, batch: _Batch, hang_s: float) -> None:
        """A thread cannot be ended, as a worker that hangs ends itself: it is noted, once."""
        if not self._in_driver or batch.noted or batch.work.ran_s < hang_s:
            return
        batch.noted = True
        self._recorder.note(
            f"scoring with model {batch.board.model} takes longer than its hang_s of {hang_s:g} s. It runs in a "
            "thread, which cannot be ended. If it hangs: stop the run, write `scoring: {workers: 1}` into a copy of "
            "its site file, and give that file to `resume --site`"
        )

    def _measure(self, *, early: bool) -> None:
        """Before the first model a metric may lack what it looks at."""
        values = {}
        for name, metric in self._workflow.metrics.items() if len(self.scores()) else ():
            try:
                value, why = measured(metric, self.scores()), ""
            except NoAnswerYet as error:
                value, why = math.nan, f": {error}"
            except Exception as error:  # a user's metric may raise anything; the others are still worth having
                if not early and (self._is_news(name, told(error)) or self._counts(f"metric {name}")):
                    self._recorder.fails_here(f"metric {name}", error)
                continue
            self._recorder.works(f"metric {name}")
            if math.isfinite(value):
                values[name] = value
                self._said.pop(name, None)
            elif self._is_news(name, str(value)):  # an average of nothing, say
                self._recorder.note(
                    f"the metric {name} is {value}{why}: it is not recorded, and rules that look at it wait",
                    metric=name,
                )
        if values:
            self._recorder.record(Metrics(values=values, frames=len(self.scores())))

    def _counts(self, stage: str) -> bool:
        """Whether its next failure in a row may be the one that ends the run, if its rule needs this metric."""
        known = self._recorder.state.stages.get(stage)
        return known is None or known.failures < self._workflow.most_failures

    def _is_news(self, name: str, why: str) -> bool:
        """Whether it was not said before that a metric has no value, and why."""
        before, self._said[name] = self._said.get(name), why
        return before != why
