"""Scores -> labels: asks an expensive code for the frames that a rule chooses, and keeps what it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import numpy as np

from steersman.engine.driven import Driven
from steersman.engine.jobs import Jobs
from steersman.engine.work import Work
from steersman.executors.workers import Workers
from steersman.journal.modes.labels import Labels
from steersman.journal.recorder import see
from steersman.journal.records import Answered, Answering, Asked
from steersman.journal.scoreboard import stale
from steersman.stages.kinds.label import Label
from steersman.steering import Scores
from steersman.store import FRAME, Frames, GroupWriter, make_root
from steersman.store.errors import shape_mismatch
from steersman.system.errors import told
from steersman.worker import labelling

STAGE = "label"
CHANGED = "the label function was changed before it answered"


class Labeller:
    """The labels of a run. One that an earlier session asked for is asked for again, unless its answer is there.

    On workers of its own as many calls are under way as there are workers; where it shares the training workers, one
    is, so that scoring and training have their turns between two of them.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, run: Driven, stage: Label, jobs: Jobs, clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._stage, self._jobs, self._clock = run, stage, jobs, clock
        self._recorder, self._labels = run.recorder, run.state.mode(Labels)
        self._labels.version = stage.version
        own = run.site.executors.get("labelling")
        self._role = run.site.executor_of("labelling")
        self._most = own.count if isinstance(own, Workers) else 1
        self._works: dict[int, Work] = {}
        self._tries: dict[int, int] = {}
        self._writer: GroupWriter | None = None
        self._new = True  # there are scores that nothing was chosen by
        self._seen = (-1, -1)  # what was published when something was
        for number in self._labels.answers:  # whose driver died before it took the worker's file away
            run.directory.answer(number).unlink(missing_ok=True)

    @property
    def busy(self) -> bool:
        return bool(self._labels.waiting)

    def advance(self, scores: Callable[[], Scores], *, new: bool, choose: bool) -> None:
        """Take what was answered, ask for what the newest scores say, unless the run is over, and begin calls.

        Args:
            scores: puts the newest ones together, as they are now; a replay does the same.
            new: whether there are some since the last call.
        """
        state = self._run.state
        self._new |= new or (not state.scored and stale(self._seen, state.published, len(state.walkers)))
        for number, work in list(self._works.items()):
            if job := work.advance():
                del self._works[number]
                self._take(number, job)
        if not choose:
            return
        self._ask_wishes()
        if self._run.rules.steering.label and self._new and self._room():
            self._new, self._seen = False, state.published
            self._choose(scores())
        under_way = {self._labels.asked[number].frame for number in self._works}
        for asked in self._labels.waiting:
            if len(self._works) >= self._most:
                break
            if asked.frame not in under_way:  # of one that is asked for twice, the second waits for the first
                self._begin(asked)
                under_way.add(asked.frame)

    def _ask_wishes(self) -> None:
        """Ask for the labels that segments and people want, once their frames can be read."""
        for frame, reason in list(self._labels.wishes.items()):
            if self._room() > 0 and frame.row < self._run.state.walkers[frame.walker].frames:
                self._recorder.record(self._stage.asked(self._run.state, frame, reason))

    def _room(self) -> int:
        return self._stage.room(self._run.state, self._run.rules)

    def _choose(self, scores: Scores) -> None:
        misses = partial(self._run.workflow.misses, self._run.directory.frames)
        try:
            asks = self._stage.wanted(self._run.state, scores, self._run.rules, misses)
        except Exception as error:  # a user's rule may raise anything
            self._recorder.fails_here(STAGE, error)
            return
        if asks:
            self._recorder.record_all(asks)

    def _begin(self, asked: Asked) -> None:
        """Call the function, unless the answer is there: of a frame that was labelled, or of a call of before."""
        measured = self._stage.error and asked.model  # of an answer of before, too: the worker then calls this alone
        if self._run.directory.answer(asked.label).exists() and not measured:
            self._keep(asked.label, {})
            return
        known = self._labels.known(asked)
        cause = CHANGED if asked.version != self._stage.version else asked.drawn and self._labels.failed(asked)
        if cause and not known and not self._run.directory.answer(asked.label).exists():
            self._recorder.record(Answered(label=asked.label, cause=cause))
            return
        if known and not (self._stage.error and asked.drawn):
            self._recorder.record(Answered(label=asked.label, group=known.group, row=known.row))
            return
        self._recorder.record(Answering(label=asked.label))
        what, submit = f"label {asked.label}", partial(self._submit, asked, known)
        hang_s = self._stage.hang_s
        self._works[asked.label] = Work(what, submit, self._recorder.note, hang_s=hang_s, clock=self._clock)

    def _submit(self, asked: Asked, known: Answered | None) -> Future[Any]:
        run, settings = str(self._run.directory.path), dict(self._run.state.wishes.settings)
        place = (known.group, known.row) if known else None
        task = labelling.label
        return self._jobs.submit(self._role, task, run, asked.label, asked.frame[:2], asked.model, settings, place)

    def _take(self, number: int, job: Future[Any]) -> None:
        error = job.exception()
        if self._run.directory.answer(number).exists():
            self._keep(number, {} if error else job.result())
            if error:  # of `error=`, of which nothing else would be seen
                self._recorder.fails(STAGE, told(error), self._run.directory.traceback("label", number))
        elif error is not None:
            self._fail(number, told(error))
        elif known := self._labels.known(self._labels.asked[number]):
            self._recorder.record(Answered(label=number, group=known.group, row=known.row, **job.result()))

    def _keep(self, number: int, facts: dict[str, Any]) -> None:
        """Move an answer into the run's labels; it is recorded when it can be read there."""
        file = self._run.directory.answer(number)
        try:
            values = labelling.read(file)
            self._check(values)
            writer = self._open()
            row = writer.append(FRAME, values)
            writer.publish()
        except Exception as problem:  # other names, shapes or dtypes than before, or no readable file
            file.unlink(missing_ok=True)
            self._fail(number, told(problem))
            return
        self._recorder.record(Answered(label=number, group=writer.path.name, row=row, **facts))
        self._recorder.works(STAGE)
        file.unlink()

    def _check(self, values: dict[str, np.ndarray]) -> None:
        """Raises: BadVariable: it is not like the first answer of this version, which may be of an earlier session."""
        good, version = self._labels.good, self._stage.version
        first = next((each for each in good if self._labels.asked[each.label].version == version), None)
        if first is None:
            return
        known = Frames(self._run.directory.labels).row(first.group, first.row)
        for name in known.keys() | values.keys():
            shapes = [np.shape(each[name]) if name in each else "none" for each in (known, values)]
            if shapes[0] != shapes[1]:
                raise shape_mismatch(name, *map(str, shapes))

    def _open(self) -> GroupWriter:
        """A group of this session."""
        if self._writer is None:
            folder = self._run.directory.labels
            make_root(folder)
            session = sum(1 for _ in folder.glob("*/zarr.json"))
            self._writer = GroupWriter(folder / f"w{session}", variables=self._stage.variables)
        return self._writer

    def _fail(self, number: int, cause: str) -> None:
        """Call it again, or give the frame up, and say so once."""
        self._tries[number] = self._tries.get(number, 0) + 1
        if self._tries[number] <= self._stage.retries:
            return
        cause += see(self._run.directory.traceback("label", number))
        self._recorder.record(Answered(label=number, cause=cause))
        frame = self._run.state.name_of(self._labels.asked[number].frame)
        self._recorder.note(
            f"the label of {frame} failed {self._tries[number]} times, and is not asked for again: {cause}"
        )
        self._recorder.fails(STAGE, cause)
