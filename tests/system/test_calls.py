"""A user's function that calls sys.exit() has failed; it does not end the driver, with no cause left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from steersman.data.overview import overview
from steersman.engine import ending
from steersman.journal.state import State
from steersman.stages.metric import measured
from steersman.stages.rules import chosen
from steersman.stages.yardstick import Yardstick
from steersman.steering import Decider, Policy, Progress, Random, Scores, Steering, StopRule, budget
from steersman.system.calls import called
from steersman.system.errors import EngineError

NONE = np.zeros(1, int)
SCORES = Scores(NONE, NONE, NONE, NONE, np.ones(1, bool), {"z": np.ones(1)})


def bye(*_: Any) -> Any:
    sys.exit(3)


class Exits(Policy):
    def rank(self, scores: Scores, rng: np.random.Generator) -> Any:
        bye()


@dataclass(frozen=True)
class Ends(StopRule):
    def reason(self, progress: Progress) -> Any:
        bye()


CALLS: dict[str, Callable[[], Any]] = {
    "metric": lambda: measured(bye, SCORES),
    "yardstick": lambda: Yardstick(bye).rows("y", None, SimpleNamespace(rows=1)),  # type: ignore[arg-type]
    "rule": lambda: chosen("stop", bye, StopRule, None),
    "function": lambda: called(bye),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_it_has_raised_an_exception(call: Callable[[], Any]) -> None:
    with pytest.raises(EngineError) as refused:
        call()
    assert refused.value.values == {"code": 3}


def test_the_fallback_chooses_where_a_policy_exits() -> None:
    decider = Decider(Steering(Exits(), fallback=Random()))
    assert decider.choose(SCORES, np.random.default_rng(0)).policy == "Random"
    assert isinstance(decider.trouble, EngineError)


@pytest.mark.parametrize("rule", [Ends(), budget(frames=1) | Ends()], ids=str)
def test_a_run_whose_stop_rule_exits_ends_with_the_cause(rule: StopRule, tmp_path: Any) -> None:
    """Without one it would not end; and who looks at it sees why."""
    end = ending.met(State(), rule, 0.0)
    assert end is not None
    assert end.outcome == "failed"
    assert "sys.exit(3)" in end.reason
    parts = overview(State(), tmp_path, rule=rule, now=0.0).budget.parts
    assert "sys.exit(3)" in parts[-1].met
