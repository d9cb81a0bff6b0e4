"""A run, as its driver has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steersman.engine.process import Interrupts
from steersman.executors.site import Site
from steersman.journal.lock import Lock
from steersman.journal.recorder import Recorder
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.stages.kinds.stage import Rules
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.steering import StopRule

Show = Callable[[State, StopRule], None]


@dataclass(kw_only=True)
class Driven:
    """A run, as it is driven.

    Args:
        recorder: journal and state; the state is empty for a new run, replayed for a resumed one.
        rounds: synchronous order that repeats bit for bit from the seed.
        show: called with the state and the stop rule a few times a second.
    """

    directory: RunDirectory
    workflow: Workflow
    params: Params
    site: Site
    recorder: Recorder
    seed: int
    rounds: bool = False
    show: Show = lambda state, rule: None

    def __post_init__(self) -> None:
        assert self.workflow.simulation is not None
        self.state, self.simulation = self.recorder.state, self.workflow.simulation
        self.slots = self.site.simulation.count
        self.lock, self.interrupts = Lock(self.directory.path), Interrupts()
        self._rules: tuple[dict[str, Any], Rules] | None = None

    @property
    def rules(self) -> Rules:
        """By the parameters as people have set them by now."""
        if self._rules is None or self._rules[0] != self.state.wishes.settings:
            settings = dict(self.state.wishes.settings)
            self._rules = settings, self.workflow.rules(loading.changed(self.workflow, self.params, settings))
        return self._rules[1]
