"""Steering as a person writes it on the command line, for `compare` and `replay` alike."""

import pytest

from steersman.steering import Novelty, Policy, Random, Redundant, Steering, Turns
from steersman.steering.expression import parse
from steersman.system.errors import BadInput, BadValue, UnknownName


class Mine(Policy):
    pass


NAMES = {"Mine": Mine, "Policy": Policy, "NUMBER": 3}  # of a workflow file


@pytest.mark.parametrize(
    ("words", "steering"),
    [
        ('Novelty("z", bins=5)', Steering(Novelty("z", bins=5))),
        ('Novelty("z") | Random()', Steering(Turns((Novelty("z"), Random())))),
        ('Novelty("z"), explore=0.2, fallback=Random()', Steering(Novelty("z"), 0.2, Random())),
        ('Novelty("z"), prune=Redundant("z")', Steering(Novelty("z"), prune=Redundant("z"))),
    ],
)
def test_steering_is_written_as_in_a_workflow_file(words: str, steering: Steering) -> None:
    assert parse(words, NAMES) == steering


@pytest.mark.parametrize(
    "wrong",
    ["Novelty", "Novelty()", "Novelty(", "3", "explore=0.2", 'Novelty("z"), explore=2', 'Novelty("z"), fallback=3',
     'Novelty("z"), prune=Random()', "NUMBER", "Policy()", "__import__('os')"],
)  # fmt: skip
def test_nothing_else_is_taken(wrong: str) -> None:
    with pytest.raises(BadInput):
        parse(wrong, NAMES)


def test_a_name_that_is_none_is_told_those_that_could_stand_there() -> None:
    with pytest.raises(UnknownName) as told:
        parse('Nvelty("z")', NAMES)
    assert {"Novelty", "Mine"} < set(told.value.valid)
    assert not {"Policy", "SegmentRule", "Redundant", "Hopeless", "Steering", "NUMBER"} & set(told.value.valid)
    with pytest.raises(UnknownName) as told:
        parse('Novelty("z"), prune=Redundunt("z")', NAMES)
    assert told.value.valid == ("Hopeless", "Redundant")


def test_a_score_without_quotes_is_no_policy_of_another_name() -> None:
    with pytest.raises(BadValue):
        parse("Novelty(z), explore=0.2")
    with pytest.raises(UnknownName):
        parse("Novelti('z')")
