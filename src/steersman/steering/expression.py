"""What a person wrote as arguments of `wf.steer` -> the steering: `Novelty("z") | Random(), explore=0.2`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from steersman import steering
from steersman.steering.decide import Steering, steered
from steersman.steering.opes import Opes
from steersman.steering.protocols import Policy, SegmentRule
from steersman.system.errors import BadInput, BadValue, UnknownName

EXAMPLE = 'write e.g. Novelty("z"), explore=0.2'


def parse(text: str, names: Mapping[str, Any] | None = None) -> Steering:
    """Make what `wf.steer(...)` would from its arguments, e.g. 'Novelty("z"), explore=0.2, fallback=Random()'.

    Args:
        names: what else may be named, e.g. the policies of a workflow file; those of steersman.steering, which other
            packages add to, always may.
    Raises: BadValue, UnknownName: they are not what it takes. BadInput: what another package adds cannot be used.
    """
    known = _Known(names or {})
    try:
        # The words of the person who owns this process.
        found: Steering = eval(f"steer({text})", {"__builtins__": {}}, known)
    except NameError as error:
        if str(error.name).islower() and not re.search(rf"\b{error.name}\s*\(", text):  # policies begin with a capital
            raise BadValue(
                "--policy", text, f'{error.name} is no policy; a score stands in quotes: "{error.name}"'
            ) from None
        is_rule = f"prune={error.name}" in text.replace(" ", "")
        what, kind = ("prune rule", SegmentRule) if is_rule else ("policy", Policy)
        raise UnknownName(what, str(error.name), known.of(kind)) from None
    except BadInput:
        raise
    except Exception as error:  # a constructor may refuse its arguments in any way
        raise BadValue("--policy", text, f"{type(error).__name__}: {error}; {EXAMPLE}") from None
    return found


class _Known(dict[str, Any]):
    """What an expression may name: policies and prune rules of a workflow file, of ours and of other packages."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        super().__init__({name: each for name, each in names.items() if _is(each, Policy, SegmentRule)})
        self.update(steer=steered, Opes=Opes)
        self._ours = dir(steering)

    def __missing__(self, name: str) -> Any:
        kind = getattr(steering, name, None)
        if not _is(kind, Policy, SegmentRule):
            raise KeyError(name)
        return kind

    def of(self, base: type) -> list[str]:
        """Names of the subclasses of a class, but those of other packages that cannot be used."""
        names = list[str]()
        for name in (*self, *self._ours):
            with suppress(KeyError, BadInput):
                if _is(self[name], base):
                    names.append(name)
        return names


def _is(given: object, *bases: type) -> bool:
    return isinstance(given, type) and issubclass(given, bases) and given not in bases
