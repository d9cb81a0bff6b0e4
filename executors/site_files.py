"""A site's name or path -> its checked Site."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from steersman.executors.errors import BadSite
from steersman.executors.executor import ROLES, Blockless
from steersman.executors.schedulers.registry import SCHEDULERS
from steersman.executors.site import KINDS, Node, Site, own, read_site, sites
from steersman.executors.values import seconds
from steersman.executors.workers import Mpi, Walkers
from steersman.system.errors import BadValue

TYPES = {kind.__name__: kind for kinds in KINDS.values() for kind in kinds}
MODELS: dict[str, type[BaseModel]] = {"node": Node, "simulation": Walkers, "mpi": Mpi, **SCHEDULERS, **TYPES}


def load_site(name_or_path: str, changes: Mapping[str, Any] | None = None) -> Site:
    """Read a site file, shipped or the user's own; a name is looked up in both.

    Args:
        changes: values to use instead of the file's, e.g. {"simulation.nodes": 8}; "account" and "queue" are those of
            the site's scheduler, whatever its words for them; "walltime_s" is that of all blocks.
    Raises: BadSite: unknown name or key (with the nearest valid one), wrong type or range.
    """
    path = file_of(name_or_path)
    if path.suffix == ".py":
        return _python_site(path, changes)
    try:
        values = read_site(path)
    except OSError as error:
        raise BadSite(name_or_path, f"cannot be read{_source(name_or_path)}: {error.strerror}") from None
    except (yaml.YAMLError, TypeError) as error:
        raise BadSite(name_or_path, f"this is not YAML of the form `key: value`: {error}") from None
    return changed(name_or_path, values, changes or {})


def file_of(name_or_path: str) -> Path:
    """Where a site is described. Raises: BadSite: there is no site of this name."""
    if is_path(name_or_path):
        return Path(name_or_path)
    known = sites()
    if name_or_path in known:
        return known[name_or_path]
    if Path(name_or_path).is_file():
        raise BadSite(name_or_path, "a site is described in a file that ends with .yaml or .py")
    near = difflib.get_close_matches(name_or_path, known, n=1, cutoff=0.3)
    hint = f"did you mean {near[0]!r}? " if near else ""
    words = f"this site does not exist{_source(name_or_path)}; {hint}known sites: {', '.join(known)}"
    raise BadSite(name_or_path, f"{words}; put your own into {own()}")


def _source(name: str) -> str:
    """Who asked for a site, where a person may not know it."""
    return " (STEERSMAN_SITE names it)" if os.environ.get("STEERSMAN_SITE") == name else ""


def is_path(name_or_path: str) -> bool:
    """Whether a site is given as a file of its own."""
    return name_or_path.endswith((".yaml", ".yml", ".py"))


def changed(name: str, values: Mapping[str, Any], changes: Mapping[str, Any]) -> Site:
    """Make a site from plain values with changes, as of `load_site`. Raises: BadSite."""
    if changes and values.get("parsl"):
        raise BadSite(name, _unchangeable(changes))
    values = dict(values)
    if changes.get("inside"):
        values = _in_a_job(values)
    for key, value in changes.items():
        for *within, last in _paths(name, values, key):
            part = values
            for each in within:
                part[each] = part = dict(part.get(each) or {})
            part[last] = value
    return checked(name, values)


def _in_a_job(values: Mapping[str, Any]) -> dict[str, Any]:
    """A site's file without what its scheduler is asked for: nodes and time are those of the job."""
    asked = (*SCHEDULERS, "together", "needs", "queues")
    kept = {key: value for key, value in values.items() if key not in asked}
    for role in ROLES:
        if role in kept:
            left_out = (
                "walltime_s",
                "ahead_s",
                "blocks",
                "asks",
                *["nodes"] * (role == "simulation"),
            )  # it has all other nodes
            kept[role] = {key: value for key, value in (kept[role] or {}).items() if key not in left_out}
    return kept


def checked(name: str, values: Mapping[str, Any]) -> Site:
    """Make a site from plain values. Raises: BadSite: named so, with the first thing that is wrong."""
    try:
        return Site.model_validate(values)
    except ValidationError as error:
        raise BadSite(name, _first_problem(error)) from None


def _python_site(path: Path, changes: Mapping[str, Any] | None) -> Site:
    from steersman.executors.python_site import site  # Parsl's import takes a second

    if changes:
        raise BadSite(str(path), _unchangeable(changes))
    return site(path)


def _unchangeable(changes: Mapping[str, Any]) -> str:
    return f"{', '.join(changes)} cannot be changed on the command line: change the Python file of the site"


def _paths(site: str, values: Mapping[str, Any], key: str) -> list[list[str]]:
    """Where in a site file a change belongs."""
    if key == "walltime_s":
        others = [role for role in ROLES[1:] if _has_blocks(values.get(role) or {})]
        return [[role, key] for role in ("simulation", *others)]
    return [_of_scheduler(site, values, key) if key in ("account", "queue") else key.split(".")]


def _has_blocks(executor: Mapping[str, Any]) -> bool:
    return bool(executor.get("nodes") or executor.get("walltime_s"))


def _of_scheduler(site: str, values: Mapping[str, Any], key: str) -> list[str]:
    named = next((name for name in SCHEDULERS if isinstance(values.get(name), Mapping)), None)
    if named is None:
        checked(site, values)  # one that cannot be used says why
        raise BadSite(site, f"--{key} has no effect: the site names no scheduler ({', '.join(SCHEDULERS)})")
    return [named, SCHEDULERS[named].queue_key(values[named]) if key == "queue" else key]


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    *within, last = (str(part) for part in first["loc"] or ("",))
    key = ".".join(part for part in (*within, last) if part.isidentifier() and part not in TYPES)
    if first["type"] == "value_error":  # a rule of ours
        return f"{key}: " * bool(key) + first["msg"].removeprefix("Value error, ")
    if first["type"] != "extra_forbidden":
        quote = "; put it in quotes, so that it stays as it is written" if first["type"] == "string_type" else ""
        return f"{key} = {first['input']!r}: {first['msg']}{quote}"
    model = next((MODELS[part] for part in reversed(within) if part in MODELS), Site)
    others = [kind for kind in KINDS.get(within[0] if within else "", ()) if kind is not model and len(within) == 2]
    if issubclass(model, Blockless) and any(last in other.model_fields for other in others):
        return f"{key}: there is none with `{model.KEY}`; leave it out. Valid: {', '.join(model.model_fields)}"
    valid = [*model.model_fields, *(other.KEY for other in others if issubclass(other, Blockless))]
    near = difflib.get_close_matches(last, valid, n=1, cutoff=0.5)
    return f"there is no key {key!r}; " + (f"did you mean {near[0]!r}? " if near else "") + f"Valid: {', '.join(valid)}"


def walltime_s(text: str) -> float:
    """Of 90s, 30m, 2h, 02:00:00 or 1-12:00:00. Raises: BadValue."""
    try:
        return seconds(text)
    except ValueError as wrong:
        raise BadValue("--walltime", text, str(wrong)) from None
