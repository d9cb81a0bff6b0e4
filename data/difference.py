"""Two runs -> what differs: parameters and settings, code, versions, outcome."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from steersman.journal.facts import summary
from steersman.journal.history import History
from steersman.system.files import text_of

NOT_COMPARED = ("params", "source", "workflow")  # parameters are a part of their own, and not the path of the code
NO_OUTCOME = ("workflow", "seed", "guided", "time_unit", "models", "metrics", "segments", "starts")

Different = dict[str, tuple[Any, Any]]


def difference(one: History, other: History) -> dict[str, Any]:
    """What differs between two runs; empty parts are those in which they agree.

    Returns: `params`, `settings` (seed, rounds, site), `versions` and `outcome`: key -> (of one, of the other), None
        where a run has no such key; and `code`, lines of a unified diff of the two workflow files.
    """
    return {
        "params": _different(one.params, other.params),
        "settings": _different(_settings(one), _settings(other)),
        "code": _code(one, other),
        "versions": _different(*(_flat(each.directory.environment()) for each in (one, other))),
        "outcome": _different(_outcome(one), _outcome(other)),
    }


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> Different:
    keys = dict.fromkeys([*one, *other])
    return {key: (one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)}


def _settings(history: History) -> dict[str, Any]:
    return _flat({key: value for key, value in history.settings().items() if key not in NOT_COMPARED})


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """site: {walltime_s: 60} -> site.walltime_s: 60."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _code(one: History, other: History) -> list[str]:
    (a, name_a), (b, name_b) = (
        (text_of(each.directory.workflow).splitlines(), str(each.directory.workflow)) for each in (one, other)
    )
    return list(difflib.unified_diff(a, b, name_a, name_b, lineterm="", n=1))


def _outcome(history: History) -> dict[str, Any]:
    found = summary(history.state)
    counts = {f"{key} {name}": number for key in ("segments", "starts") for name, number in found[key].items()}
    used = {"models used": sum(bool(model["accepted"]) for model in found["models"])}
    plain: dict[str, Any] = {key: value for key, value in found.items() if key not in NO_OUTCOME}
    return {**plain, **counts, **used, **found["metrics"]}


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The same for a terminal."""
    if not any(found.values()):
        yield "nothing differs"
    for part in ("params", "settings", "versions", "outcome"):
        width = max(map(len, found[part]), default=0)
        for key, (one, other) in found[part].items():
            yield f"{part:<9} {key:<{width}}  {_word(one)} -> {_word(other)}"
    yield from found["code"]


def _word(value: Any) -> str:
    return "-" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)
