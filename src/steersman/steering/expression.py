"""What a person wrote as arguments of `wf.steer` -> the steering: `Novelty("z") | Random(), explore=0.2`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from steersman import steering
from steersman.steering.decide import Steering, steered
from steersman.steering.opes import Opes
from steersman.steering.protocols import Policy, SegmentRule
from steersman.system.errors import BadValue, UnknownName

EXAMPLE = 'write e.g. Novelty("z"), explore=0.2'


def parse(text: str, names: Mapping[str, Any] | None = None) -> Steering:
    """Make what `wf.steer(...)` would from its arguments, e.g. 'Novelty("z"), explore=0.2, fallback=Random()'.

    Args:
        names: what else may be named, e.g. the policies of a workflow file; those of steersman.steering always may.
    Raises: BadValue, UnknownName: they are not what it takes.
    """
    known: dict[str, Any] = {name: getattr(steering, name) for name in dir(steering)} | dict(names or {})
    policies, rules = _kinds_of(Policy, known), _kinds_of(SegmentRule, known)
    try:
        # The words of the person who owns this process.
        found: Steering = eval(
            f"steer({text})", {"__builtins__": {}}, policies | rules | {"steer": steered, "Opes": Opes}
        )
    except NameError as error:
        if str(error.name).islower() and not re.search(rf"\b{error.name}\s*\(", text):  # policies begin with a capital
            raise BadValue(
                "--policy", text, f'{error.name} is no policy; a score stands in quotes: "{error.name}"'
            ) from None
        is_rule = f"prune={error.name}" in text.replace(" ", "")
        what, valid = ("prune rule", rules) if is_rule else ("policy", policies)
        raise UnknownName(what, str(error.name), valid) from None
    except Exception as error:  # a constructor may refuse its arguments in any way
        raise BadValue("--policy", text, f"{type(error).__name__}: {error}; {EXAMPLE}") from None
    return found


def _kinds_of(base: type, known: Mapping[str, Any]) -> dict[str, type]:
    return {
        name: each
        for name, each in known.items()
        if isinstance(each, type) and issubclass(each, base) and each is not base
    }
