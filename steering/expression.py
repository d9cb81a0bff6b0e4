"""What a person wrote -> a policy: `Novelty("z") | Random()`, or the name of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman import steering
from steersman.steering.policies import Policy
from steersman.system.errors import BadValue, UnknownName


def parse(text: str, names: Mapping[str, Any] | None = None) -> Policy:
    """Make a policy from an expression.

    Args:
        names: what else may be named, e.g. the policies of a workflow file; those of steersman.steering always may.
    Raises: BadValue, UnknownName: this is no policy.
    """
    known: dict[str, Any] = {name: getattr(steering, name) for name in steering.__all__} | dict(names or {})
    policies = {name: each for name, each in known.items() if isinstance(each, type) and issubclass(each, Policy)}
    try:
        made = eval(text, {"__builtins__": {}}, policies)  # the words of the person who owns this process
        made = made() if isinstance(made, type) else made
    except NameError as error:
        raise UnknownName("policy", str(error.name), sorted(policies)) from None
    except Exception as error:  # a constructor may refuse its arguments in any way
        raise BadValue("--policy", text, f'{type(error).__name__}: {error}; write e.g. Novelty("z")') from None
    if not isinstance(made, Policy):
        raise BadValue("--policy", text, 'this is no policy; write e.g. Novelty("z")')
    return made
