"""Values that somebody wrote as arguments, checked by their annotation where they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, partial
from math import inf
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

from annotated_types import Ge, Gt, Interval

from steersman.system.errors import BadValue

Count = Annotated[int, Ge(0)]
Whole = Annotated[int, Ge(1)]
Finite = Annotated[float, Interval(gt=-inf, lt=inf)]
NotNegative = Annotated[float, Interval(ge=0, lt=inf)]
Positive = Annotated[float, Interval(gt=0, lt=inf)]
Seconds = Annotated[float, Gt(0)]  # inf: without a limit
Share = Annotated[float, Interval(ge=0, le=1)]

C = TypeVar("C")


def check(where: str, kind: Any, **given: Any) -> None:
    """Raises: BadValue: one of these is not of this kind. True is no number; one of numpy's is as one of Python's."""
    from pydantic import ValidationError

    for name, value in given.items():
        try:
            _validated(kind)(_plain(value))
        except ValidationError as error:
            problem = " or ".join(dict.fromkeys(each["msg"] for each in error.errors()))
            raise BadValue(f"{where}({name})", f"{value!r:.60}", problem) from None


@dataclass_transform(frozen_default=True)
def checked(kind: type[C]) -> type[C]:
    """A frozen dataclass that raises BadValue where a field is not what its annotation says, before `__post_init__`."""
    own: Callable[[Any], None] = getattr(kind, "__post_init__", lambda _: None)
    hints = cache(partial(get_type_hints, kind, include_extras=True))  # when one is made: names may be defined below

    def __post_init__(self: Any) -> None:
        for field in fields(kind):  # type: ignore[arg-type]
            check(kind.__name__, hints()[field.name], **{field.name: getattr(self, field.name)})
        own(self)

    kind.__post_init__ = __post_init__  # type: ignore[attr-defined]
    return dataclass(frozen=True)(kind)


@cache
def _validated(kind: Any) -> Callable[[Any], Any]:
    from pydantic import ConfigDict, TypeAdapter  # takes longer than all of steering, and few processes make a policy

    return TypeAdapter(kind, config=ConfigDict(strict=True, arbitrary_types_allowed=True)).validate_python


def _plain(value: Any) -> Any:
    value = value.tolist() if hasattr(value, "tolist") else value
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value
