"""The decorators of a workflow."""

import math
import re
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import Field, create_model

from steersman.stages.kinds import KINDS
from steersman.stages.outline import outline, problems
from steersman.stages.params import Params
from steersman.stages.rules import Every, doubling, every, until_used
from steersman.stages.workflow import Workflow
from steersman.steering import (
    Dbscan,
    Diverse,
    Frontier,
    Novelty,
    Random,
    Scores,
    Steering,
    Unsteered,
    Unsure,
    WeightedEnsemble,
    budget,
    reached,
)
from steersman.store import Variable
from steersman.system.errors import BadInput

PAGE = Path(__file__).parents[2] / "docs" / "workflows.md"
WORDS: dict[str, dict[str, Any]] = {
    "train": {"when": every(frames=1)},
    "figure": {"title": "a"},
    "panel": {"title": "a"},
}
PLAIN = KINDS.keys() - WORDS.keys() - {"task"}


def test_every_kind_of_stage_has_its_row_in_the_documentation() -> None:
    cells = "".join(re.findall(r"^\| (`@wf.*?) \|", PAGE.read_text(), re.MULTILINE))
    assert set(re.findall(r"`@wf\.(\w+)", cells)) == KINDS.keys(), "the table of stages in docs/workflows.md"


@pytest.mark.parametrize("name", sorted(PLAIN))
@pytest.mark.parametrize("brackets", ["", "()"])
def test_brackets_that_hold_nothing_may_be_left_out(name: str, brackets: str) -> None:
    wf = Workflow("x", stop=budget(frames=1))
    found = {"wf": wf}
    exec(f"@wf.{name}{brackets}\ndef f({', '.join(KINDS[name].arguments or ())}): return 7", found)
    assert [each for each, kind in KINDS.items() if getattr(wf, kind.kept)] == [name]
    assert callable(found["f"]), "it stays what it was"
    with pytest.raises(TypeError, match=f"@wf.{name}"):
        exec(f"@wf.{name}{brackets}\ndef f(): pass", found)


@pytest.mark.parametrize(
    ("words", "cure"),
    [("wf.train", r"@wf\.train\(when="), ("wf.train()", r"@wf\.train\(when="), ("wf.figure", r'@wf\.figure\("')],
)
def test_a_decorator_that_needs_words_names_them(words: str, cure: str) -> None:
    with pytest.raises(TypeError, match=cure):
        exec(f"@{words}\ndef f(p, frames, last): pass", {"wf": Workflow("x", stop=budget(frames=1)), "every": every})


@pytest.mark.parametrize(
    "given", [{}, [1.0], {"point": np.float64(1)}, {"a": np.zeros(2), "b": np.zeros(3)}, {"point": np.array([np.nan])}]
)
def test_what_cannot_be_drawn_from_is_refused(given: object) -> None:
    workflow = Workflow("drawn", stop=budget(frames=1))
    workflow.held_out(lambda p: given)
    with pytest.raises(BadInput):
        workflow.held_out_draws(Params())


def test_draws_are_the_rows_of_what_the_stage_returns() -> None:
    workflow = Workflow("drawn", stop=budget(frames=1))
    assert workflow.held_out_draws(Params()) == []
    workflow.held_out(lambda p: {"point": np.arange(6.0).reshape(3, 2), "dose": [1, 2, 3]})
    draws = workflow.held_out_draws(Params())
    assert [(draw["point"], draw["dose"]) for draw in draws] == [([0, 1], 1), ([2, 3], 2), ([4, 5], 3)]


def test_nothing_is_held_out_of_a_weighted_ensemble() -> None:
    workflow = Workflow("drawn", stop=budget(frames=1))
    workflow.simulate(lambda p, start, out: None)
    workflow.score(lambda p, model, frames: {})
    workflow.held_out(lambda p: {"point": np.zeros((1, 1))})
    workflow.steer(WeightedEnsemble("x", edges=(0.0, 1.0)))
    assert any("held_out" in problem for problem in problems(workflow))


def test_a_workflow_that_says_nothing_of_steering_continues_every_segment() -> None:
    assert Workflow("plain", stop=budget(frames=1)).steering == Steering(Unsteered(), 0.0, Unsteered())
    assert Steering() == Steering(Unsteered(), 0.0, Unsteered())


@pytest.mark.parametrize("verb", KINDS)
def test_a_second_function_for_a_stage_is_refused_and_does_not_replace_the_first(verb: str) -> None:
    wf = Workflow("mine", stop=budget(frames=1))
    decorate = getattr(wf, verb)(**WORDS[verb]) if verb in WORDS else getattr(wf, verb)

    def one(*given: Any) -> Any: ...

    def other(*given: Any) -> Any: ...

    other.__name__ = one.__name__
    before = outline(wf)
    decorate(one)
    assert getattr(wf, KINDS[verb].kept)
    assert outline(wf) != before, "else a changed object would be taken for what its file says"
    with pytest.raises(TypeError):
        decorate(other)
    of_another: dict[str, Any] = {}
    exec("def one(*given): ...", of_another)
    decorate(of_another["one"])  # as a variant of a workflow that it imports


def test_a_workflow_is_steered_once_by_its_file() -> None:
    wf = Workflow("mine", stop=budget(frames=1))
    wf.steer(Unsteered())
    with pytest.raises(TypeError):
        wf.steer(Random())
    assert isinstance(wf.steering_rule(Params()).policy, Unsteered)
    exec("wf.steer(Random())", {"wf": wf, "Random": Random})  # as a variant of a workflow that it imports
    assert isinstance(wf.steering_rule(Params()).policy, Random)


def test_a_metric_that_would_hide_a_column_is_refused() -> None:
    def elapsed_s(scores: Scores) -> float:
        return 1.0

    with pytest.raises(TypeError):
        Workflow("mine", stop=budget(frames=1)).metric(elapsed_s)


def test_a_variable_that_is_described_by_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="Variable"):
        Workflow("mine", stop=budget(frames=1)).simulate(variables={"time": ((), "year")})(lambda p, start, out: None)  # type: ignore[dict-item]


NO_COUNTS = (-1, 2.5, float("nan"), "7", None)


@pytest.mark.parametrize("verb", ["simulate", "train", "score", "task"])
def test_a_number_of_a_decorator_that_makes_no_sense_is_refused_where_it_is_written(verb: str) -> None:
    decorate = getattr(Workflow("mine", stop=budget(frames=1)), verb)
    known, numbers = WORDS.get(verb, {}), {"gpus", "retries", "hang_s", "window", "ranks", "batch"}
    for name in numbers & signature(decorate).parameters.keys():
        for wrong in NO_COUNTS:
            if (name, wrong) != ("hang_s", 2.5):
                with pytest.raises(ValueError, match=name):
                    decorate(**known, **{name: wrong})
    with pytest.raises(ValueError, match="most_failures"):
        Workflow("mine", stop=budget(frames=1), most_failures=0)


@pytest.mark.parametrize("make", [every, doubling])
def test_a_count_of_frames_that_is_none_is_refused(make: Any) -> None:
    for name in signature(make).parameters:
        for wrong in (0, float("nan"), "7"):
            with pytest.raises(ValueError, match=name):
                make(**({"frames": 1} if make is every else {"first": 1}) | {name: wrong})


@pytest.mark.parametrize(
    ("rule", "trained"),
    [
        (every(frames=3), [3, 6, 9, 12, 15, 18, 21, 24, 27, 30]),
        (every(frames=7, first=2, last=15), [2, 9, 16]),
        (every(frames=7, first=2, last=16), [2, 9, 16]),
        (every(frames=7, first=2, last=17), [2, 9, 16, 23]),
        (doubling(first=3), [3, 6, 12, 24]),
        (doubling(first=3, last=12), [3, 6, 12]),
        (doubling(first=3, last=13), [3, 6, 12, 24]),
        (doubling(first=3, last=2), [3]),
    ],
)
def test_a_model_is_trained_at_so_many_frames_and_stays_after_the_last(rule: Every, trained: list[int]) -> None:
    """The last training is the first that begins with `last` frames or more."""
    found = list[int]()
    for frames in range(31):
        if rule.due(frames, found[-1] if found else None):
            found.append(frames)
    assert found == trained


def new(**given: Any) -> Workflow:
    return Workflow("mine", stop=budget(frames=1), **given)


WRONG: dict[str, Callable[[], Any]] = {
    "a word for True": lambda: new().simulate(exact="no"),  # type: ignore[call-overload]
    "early": lambda: new().score(early="x"),  # type: ignore[call-overload]
    "less": lambda: new().yardstick(less="no"),  # type: ignore[call-overload]
    "below": lambda: reached("most", 3, below="no"),  # type: ignore[arg-type]
    "levels": lambda: new().yardstick(levels=[math.nan]),
    "gate": lambda: new().train(when=every(frames=1), gate=5),  # type: ignore[arg-type]
    "a bar that is no number": lambda: new().train(when=every(frames=1), most=math.nan),
    "a first training after the last": lambda: until_used(first=5000, last=3333),
    "a budget that is True": lambda: budget(frames=True),
    "a share that is True": lambda: new().steer(explore=True),
    "parameters that are no class": lambda: new(params={"frames": 3}),
    "a parameter that is not kept": lambda: new(params=create_model("P", k=(float, Field(1.0, exclude=True)))),
    "parameters of another kind": lambda: new(params=int),
    "no function": lambda: new().simulate({"x": Variable()}),  # type: ignore[call-overload]
    "a rule and a name": lambda: budget(frames=1) | "most",  # type: ignore[operator]
    "a policy and a name": lambda: Novelty("z") | "Random",  # type: ignore[operator]
    "a name of a policy": lambda: Frontier("z"),  # type: ignore[arg-type]
    "a score for a policy": lambda: Diverse("z", "z"),  # type: ignore[arg-type]
    "a policy of rounds in another": lambda: Frontier(WeightedEnsemble("z", edges=(0.0, 1.0))),
    "a policy that draws in another": lambda: Diverse(Unsure("z", 2), "z"),
    "a share above 1": lambda: Dbscan("z", share=2),
    "edges that are one number": lambda: WeightedEnsemble("z", edges=3),  # type: ignore[arg-type]
    "points that are no function": lambda: Variable(points=[1, 2]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_what_makes_no_sense_is_refused_where_it_is_written(make: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as told:
        make()
    assert not isinstance(told.value, AttributeError)


def test_a_stage_whose_call_does_nothing_is_refused() -> None:
    async def waits(*given: Any) -> None: ...
    def yields(*given: Any) -> Any:
        yield 1

    for function in (waits, yields):
        with pytest.raises(TypeError, match="yield"):
            Workflow("mine", stop=budget(frames=1)).simulate(function)


@pytest.mark.parametrize("wrong", [{"explore": "0.1"}, {"explore": -0.1}, {"explore": float("nan")}])
def test_a_share_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="explore"):
        Workflow("mine", stop=budget(frames=1)).steer(Unsteered(), **wrong)
    with pytest.raises(ValueError, match="budget"):
        budget(frames="300")  # type: ignore[arg-type]
