"""Names of scores that a text says are those that the stage returns; what it does not say is not guessed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steersman import Params, Workflow, budget
from steersman.engine import campaign
from steersman.stages import loading, score_names
from steersman.stages.errors import BadWorkflow
from steersman.steering import Opes


def both(p: Any, model: Any, frames: Any) -> dict[str, Any]:
    if model is None:
        return {"x": 1, "early": 2}

    def helper() -> int:
        return 3

    return {"x": helper(), "z": [1 for _ in range(2)]}


def added(p: Any, model: Any, frames: Any) -> dict[str, Any]:
    return {"x": 1, **frames}


def built(p: Any, model: Any, frames: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"x": 1}
    found["y"] = 2
    return found


def sometimes(p: Any, model: Any, frames: dict[str, Any]) -> dict[str, Any]:
    if model is None:
        return frames
    return {"x": 1}


def more(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*given: Any) -> Any:
        return function(*given) | {"y": 2}

    return wrapped


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (both, {"x", "early", "z"}), (added, None), (built, None), (sometimes, None), (more(both), None), (len, None),
        (functools.partial(both, 1), None), (lambda p, model, frames: {"x": 1}, None),
    ],
)  # fmt: skip
def test_names_are_known_where_all_of_them_are_written_out(
    function: Callable[..., Any], names: set[str] | None
) -> None:
    assert score_names.written(function) == names


@pytest.mark.parametrize("file", sorted(Path(loading.__file__).parents[1].joinpath("workflows").glob("[!_]*.py")))
def test_every_shipped_workflow_is_given_what_it_asks_for(file: Path) -> None:
    workflow = loading.load(file)
    names = score_names.written(workflow.scoring.function) if workflow.scoring else None
    assert names is None or score_names.lacking(workflow, workflow.steering_rule(workflow.params()), names) == ""


SCORED = """
from steersman import Params, Workflow, budget
from steersman.steering import Novelty, Redundant

wf = Workflow("named", Params, stop=budget(frames=10))

@wf.simulate()
def simulate(p, start, out): out.append(x=1.0)

@wf.score
def score(p, model, frames):
    return {"x": frames["x"]}

wf.steer(Novelty("x"), prune=Redundant("y"))
"""


def test_a_run_whose_steering_asks_for_another_name_does_not_begin(tmp_path: Path) -> None:
    file = tmp_path / "named.py"
    file.write_text(SCORED)
    with pytest.raises(BadWorkflow) as refused:
        campaign.plan(str(file))
    assert refused.value.line == 1 + SCORED.splitlines().index("@wf.score")
    assert "'y'" in refused.value.problem
    file.write_text(SCORED.replace('"y"', '"x"'))
    assert campaign.plan(str(file)).workflow.name == "named"


def test_a_score_with_the_name_of_a_column_is_told() -> None:
    """`weight` is a column of biased runs alone."""
    wf = Workflow("mine", stop=budget(frames=1))
    assert score_names.lacking(wf, wf.steering_rule(Params()), {"x", "weight"}) == ""
    assert score_names.lacking(wf, wf.steering_rule(Params()), {"x", "time"}) != ""
    wf.steer(bias=Opes("x", barrier_kT=10))
    assert score_names.lacking(wf, wf.steering_rule(Params()), {"x", "weight", "energy_kT"}) != ""
