"""Scores -> labels: asks an expensive code for the frames that a rule chooses, and keeps what it answers."""

from __future__ import annotations

import math
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
from steersman.journal.frame_keys import frame_key
from steersman.journal.modes.labels import Labels
from steersman.journal.recorder import see
from steersman.journal.records import Answered, Answering, Asked, FrameId
from steersman.stages.kinds.label import Label
from steersman.stages.kinds.train import limit
from steersman.steering import Scores
from steersman.steering.labelling import LabelRule, Wanted
from steersman.steering.streams import label_rng
from steersman.store import FRAME, Frames, GroupWriter, make_root
from steersman.store.errors import shape_mismatch
from steersman.system.calls import called
from steersman.system.errors import told
from steersman.worker import labelling

STAGE = "label"


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
        own = run.site.executors.get("labelling")
        self._role = run.site.executor_of("labelling")
        self._most = own.count if isinstance(own, Workers) else 1
        self._works: dict[int, Work] = {}
        self._tries: dict[int, int] = {}
        self._writer: GroupWriter | None = None
        self._seen: Scores | None = None
        for number in self._labels.answers:  # whose driver died before it took the worker's file away
            run.directory.answer(number).unlink(missing_ok=True)

    @property
    def busy(self) -> bool:
        return bool(self._labels.waiting)

    def advance(self, scores: Callable[[], Scores], *, choose: bool) -> None:
        """Take what was answered, ask for what the newest scores say, unless the run is over, and begin calls."""
        for number, work in list(self._works.items()):
            if job := work.advance():
                del self._works[number]
                self._take(number, job)
        if not choose:
            return
        self._ask_wishes()
        rule = self._run.rules.steering.label
        if rule and (newest := scores()) is not self._seen and self._room():
            self._seen = newest
            self._choose(rule, newest)
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
                self._recorder.record(self._asked(len(self._labels.asked), frame, reason))

    def _room(self) -> int:
        """Labels that may be asked for: as many as may wait, as the budget allows, and where labels make trainings due,
        as the next one needs: what else is worth a label its model decides."""
        most = min(limit("labels", self._run.rules.stop), self._next_training or math.inf)
        failed = len(self._labels.answers) - len(self._labels.good)
        waiting = (self._run.rules.steering.label or LabelRule).most - len(self._labels.waiting)
        return int(max(0, min(waiting, most - len(self._labels.asked) + failed)))

    @property
    def _next_training(self) -> float:
        """The labels of the training that comes next, after one that is under way; of the first one, before it. inf:
        none comes any more. 0: trainings count frames."""
        rule, models = self._run.rules.train, self._run.state.models
        last = models.last_labels
        if rule is None or rule.counts != "labels":
            return 0
        if last is None:
            return rule.first
        if models.under_way and not models.newest:
            return last
        return rule.next(last) if models.under_way or last < rule.last else math.inf

    def _choose(self, rule: LabelRule, scores: Scores) -> None:
        if self._run.state.models.newest and not set(rule.needs) <= set(scores.values):
            return  # those of its first model are not there yet
        labels, number = self._labels, len(self._labels.asked)
        frames = frame_key(scores.walker.astype(np.int64), scores.row)
        asked = np.isin(frames, labels.keys(self._stage.version))
        drawn = [each.drawn for each in labels.asked.values() if each.model]  # before a model none can be
        rng = label_rng(self._run.seed, number)
        try:
            choose = partial(rule.chosen, final=math.isinf(self._next_training))
            wanted: list[Wanted] = called(
                choose, scores, asked, self._room(), rng, (sum(drawn), len(drawn)), self._visited(scores)
            )
        except Exception as error:  # a user's rule may raise anything
            self._recorder.fails_here(STAGE, error)
            return
        misses = partial(self._run.workflow.misses, self._run.directory.frames)
        if wanted := [each for each in wanted if not misses(int(scores.walker[each.at]), int(scores.row[each.at]))]:
            self._recorder.record_all([self._ask(scores, number + i, each) for i, each in enumerate(wanted)])

    def _visited(self, scores: Scores) -> np.ndarray:
        """Frames of segments that were given the model in use."""
        newest, given = self._run.state.models.newest, scores.given_model
        return np.flatnonzero(given == newest) if newest and len(given) else np.zeros(0, np.int64)

    def _ask(self, scores: Scores, number: int, wanted: Wanted) -> Asked:
        frame = scores.frame(wanted.at)
        assert frame is not None
        return self._asked(number, FrameId(*frame), wanted.reason, drawn=wanted.drawn)

    def _asked(self, number: int, frame: FrameId, reason: str, *, drawn: bool = False) -> Asked:
        model, version = self._run.state.models.newest, self._stage.version
        return Asked(label=number, frame=frame, reason=reason, drawn=drawn, model=model, version=version)

    def _begin(self, asked: Asked) -> None:
        """Call the function, unless the answer is there: of a frame that was labelled, or of a call of before."""
        if self._run.directory.answer(asked.label).exists():
            self._keep(asked.label, {})
            return
        known = self._labels.known(asked)
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
