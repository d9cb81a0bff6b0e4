"""What a person wrote -> a policy: `Novelty("z") | Random()`, or the name of one; or all that `wf.steer` takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman import steering
from steersman.steering.decide import Steering
from steersman.steering.policies import Policy
from steersman.steering.pruning import SegmentRule
from steersman.system.errors import BadValue, UnknownName


def parse(text: str, names: Mapping[str, Any] | None = None) -> Policy:
    """Make a policy from an expression.

    Args:
        names: what else may be named, e.g. the policies of a workflow file; those of steersman.steering always may.
    Raises: BadValue, UnknownName: this is no policy.
    """
    made = _evaluated(text, text, names)
    made = made() if isinstance(made, type) else made
    if not isinstance(made, Policy):
        raise BadValue("--policy", text, 'this is no policy; write e.g. Novelty("z")')
    return made


def parse_steering(text: str, names: Mapping[str, Any] | None = None) -> Steering:
    """Make what `wf.steer(...)` would from its arguments, e.g. 'Novelty("z"), explore=0.2, fallback=Random()'.

    Raises: BadValue, UnknownName: they are not what it takes.
    """
    made: Steering = _evaluated(f"Steering({text})", text, names)
    if not isinstance(made.policy, Policy) or not isinstance(made.fallback, Policy):
        raise BadValue("--policy", text, 'this is no policy; write e.g. Novelty("z"), explore=0.2')
    return made


def _evaluated(code: str, text: str, names: Mapping[str, Any] | None) -> Any:
    known: dict[str, Any] = {name: getattr(steering, name) for name in steering.__all__} | dict(names or {})
    kinds = (Policy, SegmentRule)
    allowed = {name: each for name, each in known.items() if isinstance(each, type) and issubclass(each, kinds)}
    try:
        # The words of the person who owns this process.
        return eval(code, {"__builtins__": {}}, allowed | {"Steering": Steering})
    except NameError as error:
        raise UnknownName("policy", str(error.name), sorted(allowed)) from None
    except Exception as error:  # a constructor may refuse its arguments in any way
        raise BadValue("--policy", text, f'{type(error).__name__}: {error}; write e.g. Novelty("z")') from None
