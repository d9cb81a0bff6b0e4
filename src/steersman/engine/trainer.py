"""Frames -> models: trains when it is due, one training at a time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from steersman.engine.jobs import Jobs
from steersman.engine.work import Work
from steersman.journal import published
from steersman.journal.modes.held_out import HeldOut
from steersman.journal.modes.labels import Labels
from steersman.journal.recorder import Recorder
from steersman.journal.records import Trained, Training
from steersman.journal.run_directory import RunDirectory
from steersman.stages.kinds.train import Train
from steersman.stages.rules import Every
from steersman.store import Span
from steersman.system.errors import told
from steersman.worker import tasks, training
from steersman.worker.errors import JudgingFailed
from steersman.worker.training_job import TrainingJob

FACTS = (
    "accepted",
    "reason",
    "seconds",
    "held_out",
    "predecessor",
    "files",
    "ranks",
)  # of a card that the journal keeps


class Trainer:
    """The trainings of a run. One that an earlier session began, or whose worker died, begins again.

    Args:
        version: of the label function; None: the workflow has none.
    """

    def __init__(
        self,
        directory: RunDirectory,
        stage: Train,
        recorder: Recorder,
        jobs: Jobs,
        clock: Callable[[], float] = time.monotonic,
        version: str | None = None,
    ) -> None:
        self._version = version
        self._directory, self._stage, self._recorder, self._jobs, self._clock = directory, stage, recorder, jobs, clock
        self._work: Work | None = None
        self._most: float | None = None  # what the gate's number may be
        begun = recorder.state.models.under_way
        if begun is not None and (card := directory.card(begun.version)):  # it was done when the driver died
            self._record(begun.version, card | {"files": training.files(directory.model(begun.version))})

    @property
    def busy(self) -> bool:
        """Whether a training is under way, or is to begin again in a moment."""
        return self._recorder.state.models.under_way is not None

    @property
    def at_work(self) -> bool:
        """Whether its job has a worker, or waits for one."""
        return self._work is not None

    def advance(self, rule: Every, left_s: float = math.inf, *, begin: bool = True) -> None:
        """Take what is finished, begin what is due by a rule, if so, and unless it takes longer than what is left."""
        if (
            begin
            and self._work is None
            and self._is_due(rule, left_s)
            and (window := self._window())
            and (self.busy or self._needs_s(window) < left_s)
        ):
            self._begin(rule)
        if self._work is not None and (job := self._work.advance()):
            self._work = None
            self._take(job)

    def _is_due(self, rule: Every, left_s: float) -> bool:
        if self.busy:
            return True
        state = self._recorder.state
        stages = [state.stages[name] for name in ("train", "score") if name in state.stages]
        if not all(stage.worked for stage in stages):  # no new frames will mend what never worked, and one try says so
            return math.isinf(left_s)
        if rule.counts == "labels":
            labels, version = state.mode(Labels), self._version or ""
            return rule.due(labels.counted(version), labels.trained(version), used=state.models.newest > 0)
        known, used = state.models.last_frames, state.models.newest > 0
        return rule.due(state.frames, known, used=used) and rule.due(self._frames, known, used=used)

    @property
    def _frames(self) -> int:
        """Frames, without those of draws that are held out; to leave them out costs time for each segment."""
        state = self._recorder.state
        if not state.mode(HeldOut).draws:
            return state.frames
        return sum(span.rows for span in published.spans(state, held_out=False))

    def _needs_s(self, window: tuple[Span, ...]) -> float:
        """What a training on these frames will take, by the newest one that ended; 0 before there was one."""
        fits = [model.fit for model in self._recorder.state.models if model.fit and model.fit.frames]
        return sum(span.rows for span in window) * (fits[-1].seconds or 0.0) / fits[-1].frames if fits else 0.0

    def _window(self) -> tuple[Span, ...]:
        return tuple(published.spans(self._recorder.state, held_out=False, most=self._stage.window))

    def _begin(self, rule: Every) -> None:
        state = self._recorder.state
        labels = state.mode(Labels)
        if not self.busy:
            self._recorder.record(Training(
                model=len(state.models) + 1, frames=self._frames, labels=len(labels.good) + state.known_labels,
            ))  # fmt: skip
        count = labels.trained(self._version or "") if rule.counts == "labels" else state.models.last_frames
        last = (count or 0) >= rule.last
        self._most = None if last or math.isinf(self._stage.most) else self._stage.most
        what = f"the training of model {state.models[-1].version}"
        hang_s = self._stage.hang_s
        self._work = Work(what, self._submit, self._recorder.note, hang_s=hang_s, clock=self._clock)

    def _submit(self) -> Future[Any]:
        state, since, window = self._recorder.state, self._recorder.now(), self._window()
        model = state.models[-1]
        job = TrainingJob(
            run=str(self._directory.path), version=model.version, last=state.models.newest, window=window,
            judged_by=self._held_out(), settings=state.wishes.settings, needs_s=self._needs_s(window), most=self._most,
            **self._labels(),
        ).begin()  # fmt: skip
        return self._jobs.submit(
            "training", tasks.train, job, heard=lambda: "" if model.epoch and model.epoch.t > since else None
        )

    def _held_out(self) -> tuple[Span, ...]:
        """What it is judged by: nothing, where a gate of its own looks at audits and there are none yet."""
        waits = not isinstance(self._stage.gate, str) and self._labels().get("audits") == ()
        return (
            () if waits else tuple(published.spans(self._recorder.state, held_out=True, most=self._stage.window // 5))
        )

    def _labels(self) -> dict[str, Any]:
        """What labels add to a training: those to learn from, and the audits that judge it."""
        if self._version is None:
            return {}
        train, audits = self._recorder.state.mode(Labels).shared(self._version)
        return {"labels": train, "audits": audits}

    def _take(self, job: Future[Any]) -> None:
        version, error = self._recorder.state.models[-1].version, job.exception()
        if error is None:
            self._record(version, job.result())
            return
        traceback = self._directory.traceback("training", version)
        if isinstance(error, JudgingFailed):
            self._recorder.record(Trained(model=version, accepted=False, reason=f"its scoring failed: {error}"))
            self._recorder.works("train")
            self._recorder.fails("score", f"with model {version}: {error}", traceback)
            return
        cause = told(error)
        self._recorder.record(Trained(model=version, accepted=False, reason=f"the training failed: {cause}"))
        self._recorder.fails("train", cause, traceback)

    def _record(self, version: int, card: dict[str, Any]) -> None:
        history = card["history"]
        loss = history[-1].get("loss") if history else None
        facts = {name: card[name] for name in FACTS if name in card}
        self._recorder.record(Trained(model=version, frames=card["frames"], epochs=len(history), loss=loss, **facts))
        self._recorder.works("train")
        if (ranks := card.get("ranks", 1)) < self._stage.ranks:
            self._note(f"a training ran on {ranks} of {self._stage.ranks} ranks: there were no more full batches")
        if card.get("warning"):
            self._note(card["warning"])

    def _note(self, text: str) -> None:
        """Note it once, however many trainings it is true of."""
        if all(getattr(note, "text", "") != text for note in self._recorder.state.notes):
            self._recorder.note(text)
