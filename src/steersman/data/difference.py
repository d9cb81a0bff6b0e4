"""Two runs -> what differs: parameters and settings, code, versions, outcome."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from steersman.data.facts import apart
from steersman.data.history import History
from steersman.journal.run_directory import RunDirectory
from steersman.system import reading
from steersman.system.plain import flat

NOT_COMPARED = ("params", "source", "workflow")  # parameters are a part of their own, and not the path of the code
LINK = "steersman_workflow.py"  # among the modules, to the workflow file; see stages/modules.py
OUTCOME = ("outcome", "reason", "frames", "simulated", "hours", "walkers", "tasks", "paused_by")
COUNTS = ("segments", "starts")

Different = dict[str, tuple[Any, Any]]


def difference(one: History, other: History) -> dict[str, Any]:
    """What differs between two runs; empty parts are those in which they agree.

    Returns: `params`, `settings` (seed, rounds, site), `versions` and `outcome`: key -> (of one, of the other), None
        where a run has no such key; and `code`, lines of unified diffs of the two workflow files and their modules.
    """
    return {
        "params": _different(one.params, other.params),
        "settings": _different(_settings(one), _settings(other)),
        "code": list(_code(one, other)),
        "versions": _different(*(flat(each.directory.environment()) for each in (one, other))),
        "outcome": _different(_outcome(one), _outcome(other)),
    }


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> Different:
    keys = dict.fromkeys([*one, *other])
    return {key: (one.get(key), other.get(key)) for key in keys if one.get(key) != other.get(key)}


def _settings(history: History) -> dict[str, Any]:
    return flat({key: value for key, value in history.settings().items() if key not in NOT_COMPARED})


def _code(one: History, other: History) -> Iterator[str]:
    a, b = one.directory.path, other.directory.path
    for name in sorted(_files(one.directory) | _files(other.directory)):
        before, after = (reading.text(run / name, run).splitlines() for run in (a, b))
        yield from difflib.unified_diff(before, after, str(a / name), str(b / name), lineterm="", n=1)


def _files(directory: RunDirectory) -> set[Path]:
    """The workflow file and the modules that it imports, by their names in the run directory."""
    paths = [directory.workflow, *(path for path in directory.modules.rglob("*.py") if path.name != LINK)]
    return {path.relative_to(directory.path) for path in paths}


def _outcome(history: History) -> dict[str, Any]:
    seen = history.overview()
    counts = {f"{key} {name}": number for key in COUNTS for name, number in getattr(seen, key).items()}
    for mode in history.state.modes:
        counts |= {f"{word} {how}": n for word, each in mode.counts.items() for how, n in each.items()}
    used = {"models used": sum(bool(model.accepted) for model in seen.models)}
    plain = seen.as_plain()
    known = {**{key: plain[key] for key in OUTCOME}, **counts, **used}
    return known | apart(seen.metrics, known)


def lines(differences: Mapping[str, Any]) -> Iterator[str]:
    """The same for a terminal."""
    if not any(differences.values()):
        yield "nothing differs"
    for part in ("params", "settings", "versions", "outcome"):
        width = max(map(len, differences[part]), default=0)
        for key, (one, other) in differences[part].items():
            yield f"{part:<9} {key:<{width}}  {_word(one)} -> {_word(other)}"
    yield from differences["code"]


def _word(value: Any) -> str:
    return "-" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)
