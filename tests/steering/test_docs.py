"""The reference page names every policy and rule, with the arguments that it has."""

import inspect
import re
from pathlib import Path

from steersman import steering
from steersman.steering import Policy, SegmentRule

PAGE = Path(__file__).parents[2] / "docs" / "steering.md"
BASES = {Policy, SegmentRule, steering.Turns}  # `a | b` is written for Turns


def test_the_reference_lists_each_policy_and_rule_with_its_arguments() -> None:
    rows = dict(
        re.findall(r"^\| `(\w+)\((.*?)\)` \|", PAGE.read_text().partition("## What a policy,")[0], re.MULTILINE)
    )
    named = [getattr(steering, name) for name in dir(steering)]
    kinds = {each for each in named if inspect.isclass(each) and issubclass(each, (Policy, SegmentRule))} - BASES
    missing = ({kind.__name__ for kind in kinds} | {"budget", "plateau", "reached"}) ^ set(rows)
    assert not missing, f"{PAGE} and steering/ differ in these rows"
    for kind in kinds:
        known = inspect.signature(kind).parameters
        written = [
            word.partition("=")[0].strip() for word in rows[kind.__name__].split(", ") if word not in ("", "...")
        ]
        assert written == list(known)[: len(written)]
