"""The workflow that a file defines: stages that are plain functions, and how they are coupled."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from numbers import Real
from typing import Annotated, Any, Protocol, TypeVar, overload

import numpy as np
from annotated_types import Interval, Len
from pydantic import BaseModel

import steersman
from steersman.models.ranks.strategy import Strategy
from steersman.stages import rules
from steersman.stages.draws import rows_of
from steersman.stages.kinds import KINDS, STAGES
from steersman.stages.kinds.label import LABEL_HANG_S, Label
from steersman.stages.kinds.score import Score
from steersman.stages.kinds.simulate import HANG_S, Simulate
from steersman.stages.kinds.stage import Rules, StageKind
from steersman.stages.kinds.train import TRAINING_HANG_S, Gate, Train
from steersman.stages.params import Params
from steersman.stages.rules import Every
from steersman.stages.rules import stage as _stage
from steersman.stages.shared import Shared
from steersman.stages.task import Task
from steersman.stages.yardstick import TAKES, Yardstick
from steersman.steering import LabelRule, Opes, Policy, Scores, SegmentRule, Steering, StopRule, Unsteered
from steersman.steering.decide import steered
from steersman.steering.streams import stage_seed
from steersman.store import Frames, Variable
from steersman.store.names import walker_name
from steersman.system.calls import called
from steersman.system.errors import BadValue
from steersman.system.numbers import Count, Finite, NotNegative, Seconds, Whole, check
from steersman.system.random_numbers import drawing

F = TypeVar("F", bound=Callable[..., Any])
MOST_FAILURES = 20
Conditions = Mapping[str, Sequence[float]]
STEERS: Mapping[str, type] = {
    "policy": Policy, "explore": Real, "fallback": Policy, "prune": SegmentRule, "bias": Opes, "label": LabelRule,
}  # what `steer` takes, by the names of its arguments  # fmt: skip


class Decorator(Protocol):
    """A decorator that needs no arguments."""

    @overload
    def __call__(self, function: F, /) -> F: ...
    @overload
    def __call__(self, function: None = None, /) -> Callable[[F], F]: ...


class Workflow:
    """What a workflow file builds. Every stage is given by a decorator and stays callable as it is.

    A decorator that needs no arguments works with and without brackets.

    Args:
        name: names the run directories; letters, digits, `-` and `_`.
        params: class of the parameters; by default there are none.
        stop: when to end the run. It, and `when`, may also be a function of the parameters.
        most_failures: so many failures in a row of train, score or the policy end the run; a stage that has never
            worked gets three tries.
    """

    def __init__(
        self,
        name: str,
        params: type[Params] = Params,
        *,
        stop: StopRule | Callable[[Any], StopRule],
        most_failures: int = MOST_FAILURES,
    ) -> None:
        if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
            raise ValueError(f"workflow name {name!r}: use letters, digits, - and _")
        rules.check("stop", stop, StopRule)
        if not isinstance(params, type) or not issubclass(params, BaseModel):
            raise TypeError(f"Workflow({name!r}, {params!r:.60}): parameters are a class, `class P(Params): ...`")
        for field in (name for name, each in params.model_fields.items() if each.exclude):
            raise TypeError(f"Workflow({name!r}): {field} = Field(exclude=True) is not kept with the run; take it away")
        check("Workflow", Whole, most_failures=most_failures)
        self.file: str | None = sys._getframe(1).f_globals.get("__file__")  # that defines it; None: a notebook's cell
        self.name, self.params, self.most_failures = name, params, most_failures
        self.prepare_function: Callable[[Any], Any] | None = None
        self.before_plan: Callable[[Any], Any] | None = None
        self.after_plan: Callable[[Any, Any], Any] | None = None
        self.tasks: dict[str, Task] = {}
        self.held_out_function: Callable[[Any], Mapping[str, np.ndarray]] | None = None
        self.simulation: Simulate | None = None
        self.labelling: Label | None = None
        self.training: Train | None = None
        self.scoring: Score | None = None
        self.answers: dict[str, Callable[[Any, Any, Mapping[str, Any]], Mapping[str, Any]]] = {}
        self.metrics: dict[str, Callable[[Scores], float]] = {}
        self.yardsticks: dict[str, Yardstick] = {}
        self.figures: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {}
        self.panels: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {}
        self.stop = stop
        self.steers: Mapping[str, Any] = {"policy": Unsteered()}  # arguments of `steer`
        self.steering: Steering | None = Steering()  # None: it depends on the parameters, see `steering_rule`
        self._steered_in: Mapping[str, Any] = {}  # the module that steers it

    @property
    def prepare(self) -> Decorator:
        """Decorate `function(params)`: run once, before the first walker; it returns every start's `prepared`."""
        return self._plain("prepare")

    @overload
    def task(self, function: Callable[..., Any], /) -> Task: ...
    @overload
    def task(self, function: None = None, /, *, retries: int = 0) -> Callable[[Callable[..., Any]], Task]: ...
    def task(self, function: Any = None, /, *, retries: int = 0) -> Any:
        """Decorate a function that `before` and `after` call by `.later(...)`, on the workers of simulations.

        A call runs in RUN/tasks/<key>/. What it returns is kept, pickled: what was called with the same arguments is
        not done again. A call that failed is tried again `retries` times.
        """
        check("@wf.task", Count, retries=retries)

        def decorate(function: Callable[..., Any]) -> Task:
            new = self.tasks[function.__name__] = Task(_stage("task", function, self), retries)
            return new

        return decorate(function) if function else decorate

    @property
    def before(self) -> Decorator:
        """Decorate `plan(params)`: run before the first walker, in the driver; it calls tasks by `.later(...)`.

        What it returns, with the results in place of the futures, is every start's `prepared`.
        """
        return self._plain("before")

    @property
    def after(self) -> Decorator:
        """Decorate `plan(params, run)`: run when the loop has reached its goal or spent its budget, in the driver.

        `run` is that of `open_run`. What it returns, the results in place of the futures, is `run.result(NAME)`.
        """
        return self._plain("after")

    @property
    def held_out(self) -> Decorator:
        """Decorate `function(params) -> {name: (n, ...)}`: n draws that are simulated first and never trained on.

        Each is the `start.draw` of one segment. Models are judged by them, and `scores.held_out` marks their frames.
        Without this stage one of each ten starts is held out instead.
        """
        return self._plain("held_out")

    @overload
    def simulate(self, function: F, /) -> F: ...
    @overload
    def simulate(
        self,
        function: None = None,
        /,
        *,
        gpus: int = 0,
        retries: int = 2,
        variables: Mapping[str, Variable] | None = None,
        hang_s: float = HANG_S,
        exact: bool | None = None,
        batch: int = 0,
        conditions: Conditions | Callable[[Any], Conditions] | None = None,
    ) -> Callable[[F], F]: ...
    def simulate(
        self,
        function: Any = None,
        /,
        *,
        gpus: int = 0,
        retries: int = 2,
        variables: Mapping[str, Variable] | None = None,
        hang_s: float = HANG_S,
        exact: bool | None = None,
        batch: int = 0,
        conditions: Conditions | Callable[[Any], Conditions] | None = None,
    ) -> Any:
        """Decorate `function(params, start, out)`: one segment.

        Args:
            gpus: GPUs that a slot needs.
            retries: how often a start that failed is tried again.
            variables: meaning (dimensions, units) of what is appended.
            hang_s: a segment without a new frame for so long is asked to stop, then its process is ended.
            exact: it needs `start.state`, so it begins at the prepared start, or where a segment gave its state to
                `out.state`, and at no other frame. None: it is seen whether it looks at `start.frame` instead.
            batch: it is called with lists, `function(params, starts, outs)`, of as many segments as wait, at most so
                many: a cheap solver takes less for each. Their frames are published when all have ended; one that
                fails by `outs[i].fail(error)` ends no other. 0: it is called for each.
            conditions: what starts take in turn, whatever they begin from, as `start.condition`, name -> values; of
                several names all combinations. Or a function of the parameters that gives this.
        Raises: ValueError: one of the numbers makes no sense.
        """
        check("@wf.simulate", Count, gpus=gpus, retries=retries, batch=batch)
        check("@wf.simulate", Seconds, hang_s=hang_s)
        check("@wf.simulate", bool, exact=False if exact is None else exact)

        def decorate(function: F) -> F:
            checked = _stage("simulate", function, self)
            self.simulation = Simulate(
                checked, gpus, retries, _described(variables), hang_s, exact, batch, conditions, self
            )
            return function

        return decorate(function) if function else decorate

    @overload
    def label(self, function: F, /) -> F: ...
    @overload
    def label(
        self,
        function: None = None,
        /,
        *,
        retries: int = 2,
        variables: Mapping[str, Variable] | None = None,
        hang_s: float = LABEL_HANG_S,
        version: str = "",
        error: Callable[[Any, Any, Any], float] | None = None,
    ) -> Callable[[F], F]: ...
    def label(
        self,
        function: Any = None,
        /,
        *,
        retries: int = 2,
        variables: Mapping[str, Variable] | None = None,
        hang_s: float = LABEL_HANG_S,
        version: str = "",
        error: Callable[[Any, Any, Any], float] | None = None,
    ) -> Any:
        """Decorate `function(params, frame) -> {name: array}`: an expensive answer for one frame, a label.

        `wf.steer(label=...)` says which frames are labelled. Each is asked once, on workers of its own, and walkers do
        not wait for it. `frames.labelled` of the train function has the answers.

        Args:
            retries: how often a call that failed is made again; then the frame is not asked for any more.
            variables: meaning (dimensions, units) of what it answers.
            hang_s: a call that takes longer has its process ended, and counts as failed.
            version: of the function. Frames are asked for again when it changes, and older answers are not used.
            error: `(model, frame, answer) -> number`, how wrong the model that was in use is about a frame. Those of
                audits give the bound that `trusted` looks at.
        Raises: ValueError: one of the numbers makes no sense.
        """
        check("@wf.label", Count, retries=retries)
        check("@wf.label", Seconds, hang_s=hang_s)
        check("@wf.label", str, version=version)

        def decorate(function: F) -> F:
            checked = _stage("label", function, self)
            self.labelling = Label(checked, retries, _described(variables), hang_s, version, error)
            return function

        return decorate(function) if function else decorate

    def train(
        self,
        *without_brackets: object,
        when: Every | Callable[[Any], Every] | None = None,
        gpus: int = 0,
        window: int = 100_000,
        gate: Gate = "error",
        most: float = math.inf,
        hang_s: float = TRAINING_HANG_S,
        ranks: int = 1,
        strategy: str = "single",
    ) -> Callable[[F], F]:
        """Decorate `function(params, frames, last) -> Model`; `frames` maps variables to arrays, `last` may be None.

        Args:
            when: when to train, see `every`.
            gpus: GPUs for the training.
            window: at most so many of the newest frames are trained on.
            gate: what must not get worse on held-out frames, smaller being better: the mean of the score of this name,
                or the number that a function of (model, frames) gives.
            most: a model whose number is larger is not used, nor one without held-out frames, but for those of as many
                frames as the `last` of `when`.
            hang_s: a training that takes longer is ended.
            ranks: processes on the training worker's machine that each call the function; the first one's model counts.
            strategy: how fit() shares its work among them: "ddp", "ddp(lag=1)", "zero",
                "local_sgd(syncs_per_epoch=1)", "hogwild" or "async(max_staleness=8)"; see docs/training.md.
        Raises: ValueError: no such strategy, or one that does not go with `ranks`; a number that makes no sense.
            TypeError: `when` is not given.
        """
        if when is None:
            raise TypeError("@wf.train needs to know when: write @wf.train(when=every(frames=1000))")
        rules.check("when", when, Every)
        check("@wf.train", Whole, ranks=ranks, window=window)
        check("@wf.train", Count, gpus=gpus)
        check("@wf.train", Seconds, hang_s=hang_s)
        check("@wf.train", Annotated[float, Interval(gt=-math.inf)], most=most)
        if not isinstance(gate, str) and not callable(gate):
            raise TypeError(f"@wf.train(gate={gate!r:.60}): give the name of a score, or a function")
        if (ranks > 1) == (Strategy.parse(strategy).name == "single"):
            raise ValueError(
                f"@wf.train(ranks={ranks}, strategy={strategy!r}): single is for one rank, others for more"
            )

        def decorate(function: F) -> F:
            checked = _stage("train", function, self)
            self.training = Train(checked, when, gpus, window, gate, hang_s, ranks, strategy, most)
            return function

        return decorate

    @overload
    def score(self, function: F, /) -> F: ...
    @overload
    def score(
        self,
        function: None = None,
        /,
        *,
        batch: int = 16_384,
        hang_s: float = HANG_S,
        early: bool = False,
        missing: tuple[str, ...] = (),
    ) -> Callable[[F], F]: ...
    def score(
        self,
        function: Any = None,
        /,
        *,
        batch: int = 16_384,
        hang_s: float = HANG_S,
        early: bool = False,
        missing: tuple[str, ...] = (),
    ) -> Any:
        """Decorate `function(params, model, frames) -> {name: (n, ...)}`; `model` is None without a train stage.

        With `early` it is called before the first model, too, with None, and leaves out the scores that need a model.
        Scores named by `missing` may be NaN, see `Variable.missing`.
        """
        check("@wf.score", Whole, batch=batch)
        check("@wf.score", Seconds, hang_s=hang_s)
        check("@wf.score", bool, early=early)
        check("@wf.score", tuple[str, ...], missing=missing)

        def decorate(function: F) -> F:
            checked = _stage("score", function, self)
            self.scoring = Score(checked, batch, hang_s, early, missing)
            return function

        return decorate(function) if function else decorate

    def steer(
        self,
        policy: Policy | Callable[[Any], Policy] | None = None,
        *,
        explore: float | Callable[[Any], float] = 0.0,
        fallback: Policy | Callable[[Any], Policy] | None = None,
        prune: SegmentRule | Callable[[Any], SegmentRule] | None = None,
        bias: Opes | Callable[[Any], Opes] | None = None,
        label: LabelRule | Callable[[Any], LabelRule] | None = None,
    ) -> None:
        """Say how starts are chosen, along what segments are pushed, and what is labelled, see `Steering`.

        Until a model is there segments go on, as plain simulations. Each may also be a function of the parameters.

        Raises: TypeError: there is neither a policy nor a bias nor a label rule; or its file has said it already.
        """
        module = sys._getframe(1).f_globals
        if self._steered_in is module and "_steering" not in module:  # `compare` appends that, and another one
            raise TypeError("wf.steer(...): the workflow is steered already, by what this one would replace")
        given = {"policy": policy, "explore": explore, "fallback": fallback}
        self.steers = {**given, "prune": prune, "bias": bias, "label": label}
        depends = any(rules.depends(self.steers[name], kind) for name, kind in STEERS.items())
        self.steering = None if depends else steered(**self.steers)
        self._steered_in = module

    @overload
    def answer(self, function: F, /) -> F: ...
    @overload
    def answer(
        self, function: None = None, /, *, shared: bool = False, batch: int = 64, wait_ms: float = 1.0, gpus: int = 0
    ) -> Callable[[F], F]: ...
    def answer(
        self, function: Any = None, /, *, shared: bool = False, batch: int = 64, wait_ms: float = 1.0, gpus: int = 0
    ) -> Any:
        """Decorate `function(params, model, inputs) -> {name: array}`: what a program that asks by this name is told.

        `model` is that of the segment's start; before the first one the program is told that there is none, and without
        a train stage `model` is None. `inputs` are arrays by name, which only this call may use.

        Args:
            shared: one process of a node answers all its walkers, in batches: all arrays have a first axis along the
                walkers. What a program is told then need not repeat bit for bit.
            batch: walkers that are answered together at most.
            wait_ms: so long the first one waits for others, unless all wait.
            gpus: 1: the model is on the GPU of that process, if it has one.
        Raises: BadValue: one of the numbers makes no sense, or is given for what is not shared.
        """
        check("@wf.answer", Whole, batch=batch)
        check("@wf.answer", NotNegative, wait_ms=wait_ms)
        check("@wf.answer", Annotated[int, Interval(ge=0, le=1)], gpus=gpus)
        if not shared and (batch, wait_ms, gpus) != (64, 1.0, 0):
            raise BadValue("@wf.answer(shared)", shared, "batch, wait_ms and gpus are of shared=True")

        def decorate(function: F) -> F:
            checked = _stage("answer", function, self)
            kept = Shared(checked, self.file, batch, wait_ms, gpus) if shared else checked
            self.answers[function.__name__] = kept
            return function

        return decorate(function) if function else decorate

    @property
    def metric(self) -> Decorator:
        """Decorate `function(scores) -> number`, a figure of merit recorded after every scoring."""
        return self._plain("metric")

    @overload
    def yardstick(self, take: F, /) -> F: ...
    @overload
    def yardstick(
        self, take: str = "distinct", *, less: bool = False, levels: Sequence[float] = ()
    ) -> Callable[[F], F]: ...
    def yardstick(self, take: Any = "distinct", *, less: bool = False, levels: Sequence[float] = ()) -> Any:
        """Decorate `function(params, frames) -> (n, ...)`: what each of n stored frames is worth, whatever the model.

        A metric sees scores, which are a run's own: its latent space, its model. A yardstick sees frames alone, so that
        its values can be compared between runs.

        Args:
            take: what the frames amount to, over those that a run has made so far: "distinct", how many different rows
                (of whole numbers, those below 0 do not count); "highest"; "lowest"; or the "mean".
            less: a smaller value is better; of "lowest" it always is.
            levels: values whose first time is compared; by default what plain sampling reaches at half time and at its
                end.
        Raises: ValueError: another `take`.
        """
        if callable(take):
            return self.yardstick()(take)
        if take not in TAKES:
            raise ValueError(f"@wf.yardstick({take!r}): take one of {', '.join(TAKES)}")
        check("@wf.yardstick", bool, less=less)
        check("@wf.yardstick", tuple[Finite, ...], levels=levels)

        def decorate(function: F) -> F:
            checked = _stage("yardstick", function, self)
            self.yardsticks[function.__name__] = Yardstick(checked, take, less or take == "lowest", tuple(levels))
            return function

        return decorate

    def figure(self, title: str) -> Callable[[F], F]:
        """Decorate `function(params, results) -> matplotlib Figure`, drawn for the report under this title.

        `results` are a run's `Results`. The figure comes alone or with a caption; None: there is nothing to draw yet.

        Raises: TypeError: the title is not given.
        """
        return self._titled("figure", title, self.figures)

    def panel(self, title: str) -> Callable[[F], F]:
        """Decorate `function(params, results)`: what it returns stands on the dashboard's page under this title.

        It returns a matplotlib Figure or an array, alone or with a caption: (n,) is drawn as a line, (n, m) as an
        image, (n, 2n) as a field on the sphere (latitudes from the north, longitudes). None: there is nothing to show
        yet. `results` are a run's `Results`.

        Raises: TypeError: the title is not given.
        """
        return self._titled("panel", title, self.panels)

    def _plain(self, kind: str) -> Decorator:
        def decorate(function: F) -> F:
            known, checked = getattr(self, KINDS[kind].kept), _stage(kind, function, self)
            if isinstance(known, dict):
                known[function.__name__] = checked
            else:
                setattr(self, KINDS[kind].kept, checked)
            return function

        def decorator(function: Any = None, /) -> Any:
            return decorate(function) if function else decorate

        return decorator

    def _titled(self, kind: str, title: object, known: dict[str, Any]) -> Callable[[F], F]:
        if not isinstance(title, str):
            raise TypeError(f'@wf.{kind} needs a title: write @wf.{kind}("what it shows")')

        def decorate(function: F) -> F:
            known[function.__name__] = title, _stage(kind, function, self)
            return function

        return decorate

    @property
    def time_unit(self) -> str:
        """Of the variable `time`; 1 where the file does not say it."""
        described = self.simulation.variables.get("time") if self.simulation else None
        return described.units if described else "1"

    @property
    def missing(self) -> set[str]:
        """Variables that may be NaN."""
        variables = self.simulation.variables if self.simulation else {}
        return {name for name, meaning in variables.items() if meaning.missing}

    def conditions(self, params: Params) -> list[dict[str, float]]:
        """What starts take in turn; an empty one where there is nothing. Raises: BadValue: they are none."""
        given = self.simulation.conditions if self.simulation else None
        of = called(given, params) if callable(given) else given or {}
        check("@wf.simulate", Mapping[str, Annotated[Sequence[Finite], Len(1)]], conditions=of)
        return [dict(zip(of, map(float, values), strict=True)) for values in product(*of.values())]

    def condition(self, params: Params, turn: int) -> dict[str, float]:
        """Of the n-th start. Raises: BadValue: they are none."""
        several = self.conditions(params)
        return several[turn % len(several)]

    def misses(self, frames: Frames, walker: int, row: int) -> bool:
        """Whether a variable of a stored frame is NaN."""
        stored = frames.row(walker_name(walker), row) if self.missing else {}
        return any(np.isnan(stored[name]).any() for name in self.missing if name in stored)

    def stop_rule(self, params: Params) -> StopRule:
        """Raises: TypeError: `stop` gave something else."""
        return rules.chosen("stop", self.stop, StopRule, params)

    def steering_rule(self, params: Params) -> Steering:
        """Raises: TypeError: a function that `steer` was given gave something else."""
        if self.steering:
            return self.steering
        given = dict(self.steers)
        for name, kind in STEERS.items():
            if rules.depends(given[name], kind):
                given[name] = rules.chosen(name, given[name], kind, params)
        return steered(**given)

    def rules(self, params: Params) -> Rules:
        """Raises: TypeError: as `stop_rule`, `train_rule` and `steering_rule`."""
        return Rules(params, self.stop_rule(params), self.train_rule(params), self.steering_rule(params))

    def held_out_draws(self, params: Params, seed: int = 0) -> list[dict[str, float | list[float]]]:
        """What is drawn to be held out, one mapping for each draw; none without the stage.

        Raises: BadInput: the stage gave something else.
        """
        if self.held_out_function is None:
            return []
        with drawing(stage_seed(seed, "held_out")):
            return rows_of(called(self.held_out_function, params))

    def train_rule(self, params: Params) -> Every | None:
        """None without a train stage. Raises: TypeError: `when` gave something else."""
        return rules.chosen("when", self.training.when, Every, params) if self.training else None

    @property
    def stages(self) -> list[StageKind]:
        """The kinds of stages that it has, in the order in which they are tried."""
        return [stage for kind in STAGES if (stage := kind.of(self))]

    @property
    def roles(self) -> tuple[str, ...]:
        """Of the executors of a site that its stages need; `prepare` runs where walkers do."""
        return tuple(stage.role for stage in self.stages if stage.role)

    def run(self, **options: Any) -> steersman.Run:
        """Run it, from a script or a notebook; the options are those of `steersman.run`."""
        return steersman.run(self, **options)


def _described(variables: Mapping[str, Variable] | None) -> dict[str, Variable]:
    """What `variables=` says. Raises: TypeError: a meaning is no `Variable`."""
    given = dict(variables) if isinstance(variables, Mapping) else {} if variables is None else {"x": variables}
    for name, meaning in given.items():
        if not isinstance(meaning, Variable):
            raise TypeError(f'variables={{"{name}": {meaning!r:.60}}}: write Variable(("atom", "xyz"), "nm")')
    return given
