"""Run directory -> what a run has so far, as its workflow's own figures look at it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.journal import published
from steersman.stages import trust
from steersman.stages.workflow import Workflow
from steersman.steering import Scores
from steersman.store import Window
from steersman.store.names import walker_name


def place_of(results: Results, workflow: Workflow) -> str:
    """The score that says where a frame lies: the one with the most dimensions; of several, one that steering needs."""
    scores, needs = results.scores, results.history.steering(workflow).policy.needs
    return max(scores.values, key=lambda each: (scores.matrix(each).shape[1], each in needs))


def placed(results: Results, workflow: Workflow, name: str) -> Callable[[Any, Mapping[str, np.ndarray]], np.ndarray]:
    """A score under a run's newest model, if there is one: (params, frames) -> (n, d) float64."""
    assert workflow.scoring
    score = workflow.scoring.function
    model = results.model if results.history.state.models.newest else None  # of scores that need none

    def place(params: Any, frames: Mapping[str, np.ndarray]) -> np.ndarray:
        value = np.asarray(score(params, model, frames)[name], np.float64)
        return value.reshape(len(value), -1)

    return place


class Results:
    """What there is of a run; read when it is asked for."""

    def __init__(self, history: History) -> None:
        self.history, self._directory, self._state = history, history.directory, history.state

    @functools.cached_property
    def scores(self) -> Scores:
        """Every frame under the model that the run used last; no values before there are any."""
        return self.history.scores

    @functools.cached_property
    def model(self) -> Any:
        """The newest `Model` that passed its gate. Raises: NothingToDraw: none did yet."""
        threadpool_limits(1)  # of a torch that comes within a drawing, too
        version = self._state.models.newest
        if not version:
            raise NothingToDraw("no model was accepted yet")
        return trust.load_model(self._directory.model(version), self._directory.workflow)

    @functools.cached_property
    def held_out(self) -> Window:
        """The frames that no training saw, in order of their starts. Raises: NothingToDraw: there are none yet."""
        if not (spans := published.spans(self._state, held_out=True)):
            raise NothingToDraw("no frame was held out yet")
        return Window(self._directory.frames, spans)

    def frame(self, index: int) -> dict[str, np.ndarray]:
        """The stored variables of the frame at a position of the scores."""
        walker, row = int(self.scores.walker[index]), int(self.scores.row[index])
        return dict(self._directory.frames.row(walker_name(walker), row))
