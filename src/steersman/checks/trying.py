"""Workflow and parameters -> every stage called in this process, on a few frames: what a run would trip over.

It uses what a run uses: the store, the checks of frames and scores, the saving of models, the choice of starts.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from steersman.checks import results, sizes
from steersman.journal.modes.held_out import EVERY
from steersman.stages import modules, panel
from steersman.stages.errors import BadWorkflow, BadYardstick
from steersman.stages.kinds.stage import Try
from steersman.stages.kinds.train import Train
from steersman.stages.metric import measured
from steersman.stages.modules import FOLDER, copied, imported
from steersman.stages.out import MOST_FRAMES, Out
from steersman.stages.params import Params
from steersman.stages.segment import Enough
from steersman.stages.start import NoFrame, Start, StoredFrame, WatchedMapping
from steersman.stages.task import NOBODY, planned_by
from steersman.stages.workflow import Workflow
from steersman.steering import NEW, SECONDS, Bias, Candidate, Decider, Opes, Policy, Scores, SegmentRule
from steersman.steering.errors import BadScores, NoAnswerYet
from steersman.steering.opes import HOT
from steersman.store import FRAME, Frames, GroupWriter, Labelled, LabelledFrame, Span, Window
from steersman.system import random_numbers
from steersman.system.errors import BadInput, EngineError, UnknownName, told
from steersman.worker import known, labelling, torch_defaults, training

SEED = 1
MANY = 20  # times the frames of a segment that is tried
FEWEST = 2  # frames to try the other stages on: one is held out, and one is trained on


@dataclass(frozen=True)
class Step:
    """A stage that was tried, how long it took in seconds, and what came of it, or what is wrong."""

    what: str
    ok: bool
    seconds: float
    found: str


def tried(workflow: Workflow, params: Params, source: Path, copy: Path | None = None) -> Iterator[Step]:
    """Try the stages in their order, as far as they work; each uses what those before it gave.

    Args:
        source: the workflow file; of a traceback its lines are shown, and those of the files beside it that it imports.
        copy: of it, which was loaded as in a run.
    """
    kept = copy.resolve().parent / FOLDER if copy else None
    files = {os.path.realpath(file) for file in (source, *imported(source), *(kept.rglob("*.py") if kept else ()))}
    with TemporaryDirectory(prefix="steersman-try-") as folder, _importable(source, Path(folder)):
        for stage in _Trial(workflow, params, Path(folder)).stages():
            began, trouble = time.monotonic(), ""
            try:
                with torch_defaults.kept(), planned_by(NOBODY):
                    outcome = stage.act()
            except (Exception, SystemExit) as error:  # a user's stage may raise anything
                trouble = explained(error, files, stage.function)
                if kept:
                    trouble = modules.explained(trouble.replace(str(kept), str(source.resolve().parent)), kept.parent)
            yield Step(stage.what, not trouble, time.monotonic() - began, trouble or outcome)
            if trouble and stage.needed:
                return


def score_names(workflow: Workflow, params: Params, source: Path) -> list[str] | None:
    """Names of the scores that the score stage gives; None: it cannot be known, because a stage does not work.

    Raises: BadWorkflow, BadYardstick: a yardstick does not work, which would be known only after the runs that it
        judges.
    """
    with TemporaryDirectory(prefix="steersman-try-") as folder, _importable(source, Path(folder)):
        trial, scored = _Trial(workflow, params, Path(folder)), False
        for stage in trial.stages():
            if scored and not stage.judges:
                continue
            try:
                with torch_defaults.kept(), planned_by(NOBODY):
                    stage.act()
            except BadYardstick:
                raise
            except (Exception, SystemExit) as error:
                if stage.judges:
                    lines = [frame.lineno or 0 for frame in _within({os.path.realpath(source)}, error)]
                    problem = f"{stage.what}: {told(error)}"
                    raise BadWorkflow(str(source), lines[-1] if lines else 0, problem) from None
                if stage.needed:  # a run says what is wrong with it
                    return None
            scored |= stage.what == "score"
        return list(trial.scores)


def explained(error: BaseException, files: set[str], function: Any) -> str:
    """The lines of these files that led to an error, or else where the function is, and the error."""
    lines = [frame for each in (error.__cause__, error) if each for frame in _within(files, each)]
    where = "".join(traceback.format_list(lines))
    if not lines and (code := getattr(function, "__code__", None)):
        where = f'  File "{code.co_filename}", line {code.co_firstlineno}, in {code.co_name}\n'
    cause = f"{error.__cause__}\n" if error.__cause__ else ""  # of a process of a Pool it holds the traceback
    return f"{where}{cause}{told(error)}"


def _within(files: set[str], error: BaseException) -> list[traceback.FrameSummary]:
    """The lines of these files, real paths, that led to an error; a module may be loaded by a path from here."""
    return [line for line in traceback.extract_tb(error.__traceback__) if os.path.realpath(line.filename) in files]


@contextlib.contextmanager
def _importable(source: Path, folder: Path) -> Iterator[None]:
    """Let processes that a stage spawns import the workflow file by its name as a module, and what it imports."""
    kept = str(copied(source, folder).parent / FOLDER)
    sys.path.insert(0, kept)
    try:
        yield
    finally:
        sys.path.remove(kept)


class _Trial:
    def __init__(self, workflow: Workflow, params: Params, folder: Path) -> None:
        assert workflow.simulation is not None
        self.workflow, self._params, self._folder = workflow, params, folder
        self._simulation, self.steering = workflow.simulation, workflow.steering_rule(params)
        self._stop = workflow.stop_rule(params)
        self._labelled: Labelled | None = None
        self._prepared: Any = None
        self._held_out: Mapping[str, Any] = {}  # the draw that a run begins with
        self._model: Any = None
        self._out: Out | None = None
        self._scores = results.scores(0, {}, 0)
        self.candidate: Candidate | None = None
        self._bias: Bias | None = None
        self._most = MOST_FRAMES  # of a segment
        self._unread = False  # a segment that had no state did not look at its frame
        self._rng = np.random.default_rng(SEED)

    @property
    def scores(self) -> Mapping[str, np.ndarray]:
        """Of the frames, by name; empty before the score stage."""
        return self._scores.values

    def stages(self) -> Iterator[Try]:
        for stage in self.workflow.stages:
            yield from stage.tried(self)
        for stage in self.workflow.stages:
            yield from stage.tried_again(self)

    def prepare(self) -> str:
        plan = self.workflow.before_plan
        if plan is not None:
            prepared, found = results.planned(self.workflow, plan, self._params)
        elif self.workflow.prepare_function is not None:
            prepared = self.workflow.prepare_function(self._params)
            found = type(prepared).__name__
        self._prepared = pickle.loads(pickle.dumps(prepared))
        return found

    def hold_out(self) -> str:
        draws = self.workflow.held_out_draws(self._params)
        self._held_out = draws[0] if draws else {}
        return f"{len(draws)} draws of {', '.join(draws[0]) if draws else 'nothing'}"

    def simulate_without_state(self) -> str:
        """As after the loss of a walker, and as policies do that choose any frame."""
        if self._exact:
            return "not tried: segments begin at the prepared start, or where one ended that gave its state"
        assert self.candidate is not None
        self.candidate = replace(self.candidate, exact=False)
        return self.simulate()

    def simulate(self) -> str:
        out = Out(SEED, frames=self._most, after=self._out, variables=self._simulation.variables)
        prepared, random, segments = pickle.dumps(self._prepared), random_numbers.states(), 0
        try:
            while out.frames < FEWEST and segments < (1 if self._out else FEWEST):  # one may be a single frame
                segments += 1
                start = self._start()
                self._simulation.one(self._params, start, out)
            ended = "; it looked at out.stopped and ended" if out.was_stopped else ""
        except Enough:
            went_on = (
                "looked at out.stopped and went on" if out.was_stopped else "went on without a look at out.stopped"
            )
            ended = f"; it {went_on}, and steering can only ask it to stop there"
        if not out.frames:
            raise EngineError(
                "it appended no frame; call out.append(name=value, ...) for each. Does a reader read the file that the "
                "program writes?"
            )
        if pickle.dumps(self._prepared) != prepared:
            ended += "; it changed start.prepared, and later segments of its process would get it changed: use a copy"
        if self._bias and self.steering.bias:
            self._check_bias(self.steering.bias, self._bias, out)
        if not (self._out or start.draw or out.seed_read or random_numbers.states() != random):
            alike = "segments that begin alike are the same, but for random numbers of a generator of their own"
            ended += f"; out.seed was never read: {alike}"
        self._out = self._out or out
        if "time" in out.stored and (unit := self.workflow.time_unit) not in {"1", *SECONDS}:
            ended += f"; the unit of time, {unit!r}, is no known one, e.g. ps, ns, s, days"
        ended += self._never_read(start)
        ended += results.oddities(out, start, self._simulation.variables, self._stop, self._out.frame(0))
        return f"{results.frames_in_words(out, segments)}{sizes.in_words(out, self.workflow, self._params)}{ended}"

    def _check_bias(self, rule: Opes, bias: Bias, out: Out) -> None:
        pushed, self._bias = results.scores(out.frames, self._scored(out.stored), 0), None
        rule.check_energy(bias, pushed)
        plain = Out(SEED, frames=out.frames, after=self._out, variables=self._simulation.variables)
        with contextlib.suppress(Enough):
            self._simulation.one(self._params, self._start(), plain)
        rule.check_pushed(pushed, results.scores(plain.frames, self._scored(plain.stored), 0))
        self._bias = bias

    def _start(self) -> Start:
        """Where the choice says, or the prepared start; with the model and the bias, once there are."""
        chosen = self.candidate
        turn = int(self._out is not None)  # the second segment is of another condition than the first
        condition = self.workflow.condition(self._params, turn)
        given: dict[str, Any] = {"bias": self._bias, "load": lambda: self._model, "condition": condition}
        if chosen is None or self._out is None or chosen.index == NEW:
            drawn = (self._out is None and self._held_out) or (chosen.draw if chosen else {})
            draw = {name: np.asarray(value, np.float64) for name, value in drawn.items()}
            return Start(self._prepared, StoredFrame(NoFrame()), draw=draw, **given)
        state = self._out.restart if chosen.exact else {}
        frame = StoredFrame(self._out.frame(int(self._scores.row[chosen.index])))
        return Start(self._prepared, frame, WatchedMapping(state) if state else {}, **given)

    def _never_read(self, start: Start) -> str:
        """What a segment did not look at, in words, and what follows from it."""
        assert self._out is not None
        frame, state = start.frame, start.state
        if isinstance(state, WatchedMapping):
            return "; start.state was never read: what segments kept in out.state is lost" if state.unread else ""
        if self._simulation.exact and not self._out.restart:
            return "; exact=True, and it gave nothing to out.state: no segment can go on from it"
        self._unread |= isinstance(frame, WatchedMapping) and frame.unread
        if not self._unread or self._simulation.exact or self.steering.policy.draws:
            return ""
        where = "where another gave its state to out.state" if self._exact else "whatever frame is chosen"
        begins = f"segments begin at the prepared start, {'or ' if self._exact else ''}{where}"
        return f"; start.frame was never read: {begins}"

    @property
    def _exact(self) -> bool:
        """See `Standing.exact`."""
        declared, left = self._simulation.exact, bool(self._out and self._out.restart)
        return self._unread and left if declared is None else declared

    @property
    def _frames(self) -> Window:
        assert self._out is not None
        stored = self._out.stored
        return Window(stored.frames, stored.spans, self._labelled)

    def label(self) -> str:
        """Of the first frame and the last one, whose answers are to be alike in names, dtypes and shapes."""
        stage, frames = self.workflow.labelling, self._frames
        assert stage is not None
        some = [frames.frames.row("w0", row) for row in (0, frames.rows - 1)]
        answers = [known.checked(stage.function(self._params, StoredFrame(each))) for each in some]
        group = GroupWriter(self._folder / "labels" / "w0", variables=stage.variables)
        for each in answers:
            group.append(FRAME, each)
        group.publish()
        self._labelled = Labelled(
            frames.frames, Frames(self._folder / "labels"),
            [LabelledFrame("w0", row, "w0", at) for at, row in enumerate((0, frames.rows - 1))],
        )  # fmt: skip
        return ", ".join(f"{name} {value.dtype} {value.shape}" for name, value in answers[0].items())

    def misjudge(self) -> str:
        """How wrong the model is about the frames that have labels."""
        stage, of = self.workflow.labelling, self._labelled
        assert stage is not None
        assert of is not None
        each = [({name: of.frames[name][i] for name in of.frames}, {name: of.answers[name][i] for name in of.answers})
                for i in range(of.rows)]  # fmt: skip
        errors = [labelling.measured(stage, self._model, StoredFrame(frame), answer) for frame, answer in each]
        return ", ".join(f"{error:.4g}" for error in errors)

    def train(self) -> str:
        """Of longer segments, as a run has them, where these have not what it takes, pairs one lag apart, say."""
        try:
            return self._train(None)
        except BadInput:
            raise
        except ValueError:
            self._most, self._out = MANY * MOST_FRAMES, None
            self.simulate()
            return self._train(None)

    def _train(self, last: Any) -> str:
        stage, scoring = self.workflow.training, self.workflow.scoring
        assert stage is not None
        assert scoring is not None
        version = 2 if last else 1
        if last and isinstance(stage.gate, str) and stage.gate not in ("error", *self._scores.values):
            raise UnknownName("score to be the gate", stage.gate, self._scores.values)
        with training.asked() as fits:
            card = training.train(
                fit=functools.partial(stage.function, self._params),
                score=training.counted(functools.partial(scoring.function, self._params), scoring.missing),
                frames=self._frames, last=last, gate=stage.gate,
                judging=training.whole(self._frames, self.workflow.missing) if last else None,
                most=None if math.isinf(stage.most) else stage.most,
                directory=self._folder / f"{version}", version=version,
            )  # fmt: skip
        self._model = self._model or training.load_model(self._folder / f"{version}")
        used = f"{type(self._model).__name__}, {'used' if card['accepted'] else 'not used'}: {card['reason']}"
        used += f"; {card['warning']}" if card["warning"] else ""
        return used if last else used + self._ranks_in_words(stage, fits)

    def _ranks_in_words(self, stage: Train, fits: list[tuple[int, int]]) -> str:
        """From how many frames on each rank of a training has a full batch, if the first one has fewer."""
        rule = self.workflow.train_rule(self._params)
        assert rule is not None
        each = [stage.ranks * batch * self._frames.rows / samples for samples, batch in fits]
        needed, left = math.ceil(max(each, default=0)), 1.0 if self._held_out else 1 - 1 / EVERY
        first = int(min(rule.first * left, stage.window))
        if stage.ranks == 1 or first >= needed:
            return ""
        never = f", and the window has {stage.window}" if stage.window < needed else ""
        words = f"a full batch for each of {stage.ranks} ranks takes about {needed} frames{never}"
        return f"; {words}: the first training, on about {first}, runs on fewer ranks"

    def score(self) -> str:
        frames = self._frames
        values = self._scored(frames) if self.workflow.scoring else {}
        if values:
            self._check_one(values, self._scored(Window(frames.frames, [Span("w0", 0, 1)])))
        self._scores = results.scores(frames.rows, values, int(self._model is not None))
        if self._exact:
            ends = self._scores.ends & bool(self._out and self._out.restart)
            self._scores = replace(self._scores, ends=ends, exact=True)
        return ", ".join(f"{name} {value.shape[1:]}" for name, value in values.items()) or (
            "nothing" if self.workflow.scoring else "there is no score stage"
        )

    def _scored(self, frames: Window) -> dict[str, np.ndarray]:
        assert self.workflow.scoring is not None
        values = self.workflow.scoring.function(self._params, self._model, frames)
        without = training.incomplete(frames, self.workflow.missing, frames.rows) if self.workflow.missing else None
        seen, missing = self.steering.seen.intersection(frames), self.workflow.scoring.missing
        return training.checked_scores(values, frames.rows, seen, missing, without)

    def _check_one(self, many: Mapping[str, np.ndarray], one: Mapping[str, np.ndarray]) -> None:
        """Frames are scored as they come, one alone too."""
        for name in many.keys() | one.keys():
            shapes = [values[name].shape[1:] if name in values else None for values in (many, one)]
            if shapes[0] != shapes[1]:
                raise BadScores(name, f"of a frame among others its shape is {shapes[0]}, of one alone {shapes[1]}")

    def train_again(self) -> str:
        return self._train(self._model)

    def push(self) -> str:
        """Of the frames of the one segment."""
        bias = self.steering.bias
        assert bias is not None
        if problem := bias.lacks(self._scores.values):
            raise BadScores("", f"{problem}; there are: {', '.join(self._scores.values) or 'none'}")
        values = {name: value for name, value in self._scores.values.items() if name != HOT}  # all of them may be hot
        self._bias = bias.made(replace(self._scores, values=values))
        energy = self._bias.energy(self._scores.matrix(bias.score))
        return f"{len(self._bias.heights)} kernels; {energy.min():.3g} to {energy.max():.3g} kT in these frames"

    def steer(self) -> str:
        for policy in (self.steering.policy, self.steering.fallback):
            if len(self._scores) or policy.draws:
                self._needed(policy)
                policy.load()
                policy.rank(self._scores, self._rng)  # a decider would keep what it raises for itself
        decider = Decider(self.steering)
        choice = decider.choose(self._scores, self._rng)
        if decider.trouble:
            raise decider.trouble
        self.candidate = choice.candidate
        warning = self.steering.policy.warning(self._scores) if len(self._scores) else ""
        return f"{choice.policy}: {choice.reason}" + (f"; {warning}" if warning else "")

    def _needed(self, rule: Policy | SegmentRule) -> None:
        who = rule.name if isinstance(rule, Policy) else type(rule).__name__
        for name in rule.needs if len(self._scores) else ():
            if name not in self._scores.values:
                raise UnknownName(f"score for {who}", name, self._scores.values)

    def prune(self) -> str:
        rule = self.steering.prune
        assert rule is not None
        self._needed(rule)
        return rule.reason(self._scores, np.arange(len(self._scores))) or "the segment continues"

    def measure(self, metric: Callable[[Scores], float]) -> str:
        try:
            value = measured(metric, self._scores)
        except NoAnswerYet as error:
            return f"no value yet: {error}"
        return f"{value:.6g}" + ("" if math.isfinite(value) else ", which a run does not record")

    def judge(self, name: str) -> str:
        rows = self.workflow.yardsticks[name].rows(name, self._params, self._frames)
        return f"{len(rows)} rows of {rows.dtype} {rows.shape[1:]}"

    def draw(self, figure: Callable[..., Any]) -> str:
        return results.shown(figure(self._params, self._results), panel.drawn)

    def show(self, function: Callable[..., Any]) -> str:
        return results.shown(function(self._params, self._results), panel.shown)

    @property
    def _results(self) -> results.TriedResults:
        return results.TriedResults(self._scores, self._model, self._frames)
