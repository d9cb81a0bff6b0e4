"""A kind of stage: how it is called, tried, checked, described, drawn and counted.

A workflow has `workflow.stages`, one object for each kind that its file has, in the order of the loop. `try`, `check`,
the record of a run and the page go over these, and name none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

from steersman.journal.state import State
from steersman.steering import Candidate, Steering, StopRule

# A `Workflow`: its class has the decorators of all kinds, so it is above them.
AWorkflow = Any


class Try(NamedTuple):
    """One thing that is tried: in words, what does it and says what came of it, and what it calls of the file."""

    what: str
    act: Callable[[], str]
    function: Any = None
    needed: bool = True  # by what is tried after it
    judges: bool = False  # runs that have ended


class Trial(Protocol):
    """What a stage may do when it is tried; each says what came of it, or raises what is wrong."""

    workflow: AWorkflow
    steering: Steering
    candidate: Candidate | None  # the start that was chosen last

    def prepare(self) -> str: ...
    def hold_out(self) -> str: ...
    def simulate(self) -> str: ...
    def simulate_without_state(self) -> str: ...
    def label(self) -> str: ...
    def misjudge(self) -> str: ...
    def train(self) -> str: ...
    def train_again(self) -> str: ...
    def score(self) -> str: ...
    def push(self) -> str: ...
    def steer(self) -> str: ...
    def prune(self) -> str: ...
    def measure(self, metric: Callable[..., Any]) -> str: ...
    def judge(self, name: str) -> str: ...
    def draw(self, figure: Callable[..., Any]) -> str: ...
    def show(self, panel: Callable[..., Any]) -> str: ...


class Planned(Protocol):
    """What is to be run."""

    @property
    def workflow(self) -> AWorkflow: ...
    @property
    def params(self) -> Any: ...
    @property
    def rounds(self) -> bool: ...


class Rules(NamedTuple):
    """Parameters, and the rules of a workflow by these; `train` is None without a train stage."""

    params: Any
    stop: StopRule
    train: Any
    steering: Steering


class StageView(NamedTuple):
    """A stage on the page: what it does now, counts, and its Parsl jobs by how they stand."""

    now: str = ""
    counts: Mapping[str, str] = {}
    jobs: Mapping[str, int] = {}


class StageKind:
    """What `@wf.<kind>` decorates, or all of this kind.

    Attributes:
        kind: name of the decorator.
        kept: attribute of the workflow with the stage, or with all of this kind by their names.
        arguments: what the function is called with; None: whatever its caller gives.
        may_differ: it comes after the loop, or shows it: a run that has its frames may get another one.
        role: of the executor of a site that it needs.
        recorded: its name in the record of a run, if it is a part of the loop.
    """

    kind: ClassVar[str]
    kept: ClassVar[str]
    arguments: ClassVar[tuple[str, ...] | None]
    may_differ: ClassVar[bool] = False
    role: ClassVar[str] = ""
    recorded: ClassVar[str] = ""

    @classmethod
    def of(cls, workflow: AWorkflow) -> StageKind | None:
        """That of a workflow, if it has any."""
        kept = getattr(workflow, cls.kept)
        return kept if isinstance(kept, StageKind) else cls(kept) if kept else None  # type: ignore[call-arg]

    def tried(self, trial: Trial) -> Iterator[Try]:
        """What `try` does with it."""
        yield from ()

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        """What it does after all stages were tried once."""
        yield from ()

    def checked(self, plan: Planned) -> Iterator[tuple[str, bool, str]]:
        """What `check` says of it: name, whether all is well, and what was found."""
        yield from ()

    @classmethod
    def shown(cls, state: State, *, alive: bool) -> StageView | None:
        """How it stands in a run, whose file need not be executed; None: it is not on the page.

        Args:
            alive: somebody drives the run.
        """
        return None


class Plain(StageKind):
    """One function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


class Several(StageKind):
    """Functions by their names."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self.functions = functions
