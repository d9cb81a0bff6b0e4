"""The reference page names every policy and rule, with the arguments that it has."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

from steersman import steering
from steersman.steering import Policy, SegmentRule, StopRule

PAGE = Path(__file__).parents[2] / "docs" / "steering.md"
BASES = {Policy, SegmentRule, steering.Turns}  # `a | b` is written for Turns


def test_the_reference_lists_each_policy_and_rule_with_its_arguments() -> None:
    rows = dict(
        re.findall(r"^\| `(\w+)\((.*?)\)` \|", PAGE.read_text().partition("## What a policy,")[0], re.MULTILINE)
    )
    made = {each.__name__: each for name in dir(steering) if is_listed(each := getattr(steering, name))}
    assert rows.keys() - made.keys() == set(), "in docs/steering.md, and not in steering/__init__.py"
    assert made.keys() - rows.keys() == set(), "in steering/__init__.py, without a row in docs/steering.md"
    for name, each in made.items():
        known = inspect.signature(each).parameters
        written = [word.partition("=")[0].strip() for word in rows[name].split(", ") if word not in ("", "...")]
        if not any(argument.kind is argument.VAR_KEYWORD for argument in known.values()):
            assert written == list(known)[: len(written)], f"the arguments of {name} in docs/steering.md"


def is_listed(each: Callable[..., Any]) -> bool:
    """A policy, a rule of segments, or a function that makes a rule of runs."""
    if inspect.isclass(each):
        return issubclass(each, (Policy, SegmentRule)) and each not in BASES
    made = get_type_hints(each).get("return") if inspect.isfunction(each) else None
    return inspect.isclass(made) and issubclass(made, StopRule)
