"""Parameters and rules of a workflow: which value counts, and which one is refused by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import field_validator

from steersman.stages import loading
from steersman.stages.errors import BadWorkflow
from steersman.stages.params import Params
from steersman.stages.rules import Every, every
from steersman.stages.workflow import STEERS, Workflow
from steersman.steering import (
    Doubtful,
    Novelty,
    Opes,
    Progress,
    StopRule,
    Unsteered,
    WeightedEnsemble,
    budget,
    trusted,
)
from steersman.store import Variable
from steersman.system.errors import BadInput, BadValue


class Values(Params):
    count: int = 1


def test_precedence_is_defaults_then_file_then_set(tmp_path: Path) -> None:
    workflow = Workflow("values", Values, stop=budget(frames=1))
    file = tmp_path / "params.yaml"
    file.write_text("count: 2")
    assert loading.parameters(workflow, None, []) == Values(count=1)
    assert loading.parameters(workflow, file, []) == Values(count=2)
    assert loading.parameters(workflow, file, ["count=3"]) == Values(count=3)
    for text in (b"count: [", b"- count", b"\xff", b"count: !!timestamp 2021-02-30"):
        file.write_bytes(text)
        with pytest.raises(BadInput, match=r"params\.yaml"):
            loading.parameters(workflow, file, [])


def test_a_rule_that_raises_is_refused_whatever_it_raises() -> None:
    workflow = Workflow("rules", Values, stop=lambda p: budget(frames=100 // p.count))
    workflow.train(when=lambda p: every(frames=p.count - 1))(lambda params, frames, last: None)
    loading.check_rules(workflow, Values(count=2))
    for count, told in ((0, "division"), (1, "every")):
        with pytest.raises(BadInput, match=told):
            loading.check_rules(workflow, Values(count=count))


def test_steering_follows_the_parameters_but_not_where_frames_have_weights_by_it() -> None:
    workflow = Workflow("steers", Values, stop=budget(frames=1))
    workflow.simulate()(lambda params, start, out: None)
    workflow.score(lambda p, model, frames: {})
    workflow.steer(lambda p: Novelty("z", bins=p.count), explore=lambda p: p.count / 10)
    first, second = (workflow.steering_rule(Values(count=count)) for count in (1, 2))
    assert (first.policy, second.policy, second.explore) == (Novelty("z", bins=1), Novelty("z", bins=2), 0.2)
    loading.check_rules(workflow, Values(count=2), first)
    with pytest.raises(BadValue):
        loading.check_rules(workflow, Values(count=11), first)
    biased = Workflow("biased", Values, stop=budget(frames=1))
    biased.simulate()(lambda params, start, out: None)
    biased.score(lambda p, model, frames: {})
    biased.steer(bias=lambda p: Opes("z", barrier_kT=10.0 + p.count))
    before = biased.steering_rule(Values())
    loading.check_rules(biased, Values(count=1), before)
    with pytest.raises(BadValue):
        loading.check_rules(biased, Values(count=2), before)


@pytest.mark.parametrize("given", [{"a": (1.0,), "b": [2, 3, 4]}, lambda p: {"a": [p.count], "b": (2, 3.0, 4)}])
def test_conditions_are_all_combinations_in_turn(given: Any) -> None:
    workflow = Workflow("conditions", Values, stop=budget(frames=1))
    workflow.simulate(conditions=given)(lambda params, start, out: None)
    loading.check_rules(workflow, Values())
    taken = [workflow.condition(Values(), turn) for turn in range(6)]
    assert taken == 2 * [{"a": 1.0, "b": b} for b in (2.0, 3.0, 4.0)]
    workflow.score(lambda p, model, frames: {})
    workflow.steer(bias=Opes("z", barrier_kT=10))
    with pytest.raises(BadValue, match="conditions"):
        loading.check_rules(workflow, Values())


@pytest.mark.parametrize("given", [{"a": ()}, {"a": 300}, {"a": ["hot"]}, {"a": [np.nan]}, lambda p: None, [1]])
def test_conditions_that_are_none_are_refused(given: Any) -> None:
    workflow = Workflow("conditions", Values, stop=budget(frames=1))
    workflow.simulate(conditions=given)(lambda params, start, out: None)
    with pytest.raises(BadValue) as refused:
        loading.check_rules(workflow, Values())
    assert refused.value.name == "conditions"


@pytest.mark.parametrize("missing", ["variable", "score"])
def test_nothing_may_be_missing_where_frames_have_weights(missing: str) -> None:
    steers: tuple[dict[str, Any], ...] = (
        {"policy": WeightedEnsemble("z", edges=(0.0,))},
        {"policy": Novelty("z")},
        {"bias": Opes("z", barrier_kT=10)},
    )
    for number, words in enumerate(steers):
        workflow = Workflow("missing", Values, stop=budget(frames=1))
        variables = {"x": Variable(missing=missing == "variable")}
        workflow.simulate(variables=variables)(lambda params, start, out: None)
        workflow.score(missing=("z",) * (missing == "score"))(lambda p, model, frames: {})
        workflow.steer(**words)
        if number == 1:
            loading.check_rules(workflow, Values())
            continue
        with pytest.raises(BadValue, match="missing"):
            loading.check_rules(workflow, Values())


def test_a_label_rule_of_the_parameters_needs_a_label_stage_as_any_does() -> None:
    workflow = Workflow("labels", Values, stop=budget(frames=1))
    workflow.simulate()(lambda params, start, out: None)
    workflow.score(lambda p, model, frames: {})
    workflow.steer(label=lambda p: Doubtful("z", above=p.count))
    with pytest.raises(BadInput):
        loading.check_rules(workflow, Values())


class Nameless(StopRule):
    def met(self, progress: Progress) -> str | None:
        return None


class Late(StopRule):
    def reason(self, progress: Progress) -> str | None:
        return "done" if progress.metrics["x"][-1] > 1 else None


@pytest.mark.parametrize("rule", [Nameless(), Late(), budget(frames=5) | Late()], ids=lambda rule: type(rule).__name__)
def test_a_rule_that_fails_when_it_is_first_asked_is_refused_before_a_run(rule: StopRule) -> None:
    workflow = Workflow("rules", Values, stop=rule)
    with pytest.raises(BadValue) as refused:
        loading.check_rules(workflow, Values())
    assert refused.value.name == "stop"


@pytest.mark.parametrize("unit", ["1", "tau", "picosecs", ""])
def test_a_budget_of_simulated_time_in_an_unknown_unit_is_refused(unit: str) -> None:
    rule = budget(frames=1) | budget(sim_ns=1)
    for stop in (rule, lambda p: rule):
        workflow = Workflow("times", Values, stop=stop)
        workflow.simulate(variables={"time": Variable((), unit)} if unit else {})(lambda params, start, out: None)
        with pytest.raises(BadValue) as refused:
            loading.check_rules(workflow, Values())
        assert refused.value.name == "stop"
        assert repr(unit or "1") in refused.value.problem
    workflow = Workflow("times", Values, stop=rule)
    workflow.simulate(variables={"time": Variable((), "picosecond")})(lambda params, start, out: None)
    loading.check_rules(workflow, Values())


@pytest.mark.parametrize(
    "rule",
    [budget(labels=1), budget(frames=1) | trusted(below=1.0), budget(frames=1) & budget(labels=1), every(labels=1)],
)
def test_a_rule_that_counts_labels_is_refused_where_nothing_gives_any(rule: Any) -> None:
    stop, when = (budget(frames=1), rule) if isinstance(rule, Every) else (rule, every(frames=1))
    workflow = Workflow("labels", Values, stop=stop)
    workflow.train(when=when)(lambda params, frames, last: None)
    with pytest.raises(BadValue):
        loading.check_rules(workflow, Values())
    workflow.label(error=lambda model, frame, answer: 0.0)(lambda params, frame: {})
    workflow.steer(Unsteered(), label=Doubtful("x", above=1.0, audits=0.1))
    loading.check_rules(workflow, Values())


@pytest.mark.parametrize(("error", "audits"), [(None, 0.1), (lambda model, frame, answer: 0.0, 0.0)])
def test_a_run_that_nothing_can_show_to_be_trusted_is_refused_for_it_would_not_end(error: Any, audits: float) -> None:
    workflow = Workflow("labels", Values, stop=trusted(below=1.0))
    workflow.label(error=error)(lambda params, frame: {})
    workflow.steer(Unsteered(), label=Doubtful("x", above=1.0, audits=audits))
    with pytest.raises(BadValue):
        loading.check_rules(workflow, Values())


@pytest.mark.parametrize("rule", ["stop", "when", *STEERS])
@pytest.mark.parametrize("given", ["400", None])
def test_a_function_that_gives_no_rule_is_refused_with_its_line(rule: str, given: object) -> None:
    rules: dict[str, Any] = {"stop": budget(frames=1), "when": every(frames=1)} | {rule: lambda p: given}
    workflow = Workflow("rules", Values, stop=rules["stop"])
    workflow.train(when=rules["when"])(lambda params, frames, last: None)
    workflow.steer(**{"policy": Unsteered(), **{name: rules[name] for name in STEERS if name in rules}})
    with pytest.raises(BadValue) as refused:
        loading.check_rules(workflow, Values())
    assert refused.value.name == (rule if rule in ("stop", "when") else "steer")
    assert f"({__file__}, line " in str(refused.value.value)
    assert repr(given) in refused.value.problem


def test_a_default_of_the_wrong_type_is_refused_by_its_name() -> None:
    class Wrong(Params):
        count: int = "many"  # type: ignore[assignment]

    with pytest.raises(BadValue) as refused:
        loading.checked(Workflow("wrong", Wrong, stop=lambda p: budget(frames=p.count)), {})
    assert (refused.value.name, refused.value.value) == ("count", "'many'")


class Shares(Params):
    parts: int = 2

    @field_validator("parts")
    @classmethod
    def whole(cls, parts: int) -> int:
        return parts if 100 % parts == 0 else parts + 1


def test_a_validator_that_raises_is_refused_whatever_it_raises() -> None:
    """Also of a parameter that is set while the run goes on: its driver must not end."""
    workflow = Workflow("shares", Shares, stop=budget(frames=1))
    with pytest.raises(BadValue, match="ZeroDivisionError"):
        loading.checked(workflow, {"parts": 0})
    with pytest.raises(BadValue, match="ZeroDivisionError"):
        loading.changed(workflow, Shares(), {"parts": 0})


class Kinds(Params):
    count: int = 1
    share: float | None = None
    flag: bool = False
    either: int | bool = 1


@pytest.mark.parametrize("key", ["count", "share"])
def test_true_is_no_number(key: str) -> None:
    """And no budget of one frame."""
    workflow = Workflow("kinds", Kinds, stop=budget(frames=1))
    with pytest.raises(BadValue) as refused:
        loading.parameters(workflow, None, [f"{key}=true"])
    assert (refused.value.name, refused.value.value) == (key, "True")
    assert loading.parameters(workflow, None, ["flag=true", "either=true", "share=2", "count=1e3"]) == Kinds(
        count=1000, share=2.0, flag=True, either=True
    )


@pytest.mark.parametrize("kind", ["np.ndarray", "list[np.ndarray]", "Other"])
def test_a_field_of_another_type_is_refused_in_words_of_parameters(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        f"import numpy as np\nfrom steersman import Params\nclass Other: ...\nclass P(Params):\n    x: {kind}\n"
    )
    with pytest.raises(BadWorkflow) as refused:
        loading.load(file)
    assert refused.value.line == 4
    assert "pydantic" not in refused.value.problem
    assert kind.rpartition(".")[2].strip("]") in refused.value.problem
