"""A workflow -> what it is made of, and what of that does not fit together."""

from __future__ import annotations

import dis
import functools
import logging
import os
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from steersman.stages import modules
from steersman.stages.content import digest
from steersman.stages.kinds import KINDS
from steersman.stages.task import Task
from steersman.stages.workflow import Workflow
from steersman.steering import Steering

DESCRIPTORS = (property, classmethod, staticmethod, functools.cached_property)
GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)  # whose states are meant to differ


def outline(workflow: Workflow) -> dict[str, str]:
    """What two workflows of one file share, if nothing was changed since the file made them: a SHA-256 by part.

    Parts are what the workflow has, functions and classes by what they say; and the globals that these name, of the
    file and of the modules beside it.
    """
    parts: dict[str, Any] = {"name": workflow.name, "stop": workflow.stop, "steering": workflow.steers}
    parts |= {"most_failures": workflow.most_failures, "params": workflow.params}
    for name, kind in KINDS.items():
        kept = getattr(workflow, kind.kept)
        parts |= {f"{name} {each}": stage for each, stage in kept.items()} if isinstance(kept, dict) else {name: kept}
    return _Outline(Path(workflow.file or "")).of(parts)


class _Outline:
    def __init__(self, source: Path) -> None:
        beside = modules.imported(source) if source.is_file() else ()
        self._places = {os.path.realpath(file): f"{os.path.relpath(file, source.parent)}: " for file in beside}
        self._places[os.path.realpath(source)] = ""
        self._globals: dict[str, Any] = {}  # that functions name
        self._within: set[int] = set()  # functions and classes that are looked at; they may lead back to themselves

    def of(self, parts: Mapping[str, Any]) -> dict[str, str]:
        digests: dict[str, str] = {}
        while new := {name: value for name, value in {**parts, **self._globals}.items() if name not in digests}:
            digests |= {name: self._digest(value) for name, value in new.items()}
        return digests

    def _digest(self, value: Any) -> str:
        try:
            return digest(value, self._known)
        except Exception:  # a lock, an open file, or whatever a class of a user's does not allow
            return type(value).__qualname__

    def _known(self, value: Any) -> Any:
        """What stands for what pickle knows by its module's name alone, which is another in another process."""
        says: Iterator[Any] = iter(())
        match value:
            case Workflow() | ModuleType() | logging.Logger():
                pass
            case _ if isinstance(value, GENERATORS):
                pass
            case FunctionType():
                says = self._function(value)
            case Task():
                says = iter((value.function, value.retries))
            case type() if self._place(vars(sys.modules.get(value.__module__, dis))) is not None:
                says = self._class(value)
            case _ if isinstance(wrapped := getattr(value, "__wrapped__", None), FunctionType):
                says = iter((wrapped,))
            case _:
                return None
        if id(value) in self._within:
            return "itself", value.__qualname__
        self._within.add(id(value))
        try:
            return type(value).__qualname__, [self._digest(each) for each in says]
        finally:
            self._within.remove(id(value))

    def _function(self, function: FunctionType) -> Iterator[Any]:
        codes = list(_codes(function.__code__))
        if self._place(function.__globals__) is not None:
            self._take(codes, function.__globals__)
        yield from map(_says, codes)
        yield function.__defaults__, function.__kwdefaults__
        yield from (cell.cell_contents for cell in function.__closure__ or () if cell != CellType())

    def _class(self, of: type) -> Iterator[Any]:
        yield of.__qualname__, of.__bases__
        yield vars(of).get("__pydantic_fields__")
        for name, member in sorted(vars(of).items()):
            if isinstance(member, DESCRIPTORS):
                yield name, [getattr(member, each, None) for each in ("fget", "fset", "__func__", "func")]
            elif isinstance(member, FunctionType) or not name.startswith("__"):
                yield name, member

    def _take(self, codes: list[CodeType], of: Mapping[str, Any]) -> None:
        """The globals that code names, and of modules beside the file the attributes."""
        instructions = [each for code in codes for each in dis.get_instructions(code)]
        names = {each.argval for each in instructions if each.opname.startswith(("LOAD_ATTR", "LOAD_METHOD", "IMPORT"))}
        loaded = {each.argval for each in instructions if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        imported = {each.argval for each in instructions if each.opname == "IMPORT_NAME"}
        waiting = [(of, loaded), *((vars(sys.modules[name]), names) for name in imported & sys.modules.keys())]
        for at, wanted in waiting:
            place = self._place(at)
            for name in sorted(wanted & at.keys()) if place is not None else ():
                if isinstance(module := at[name], ModuleType) and (vars(module), names) not in waiting:
                    waiting.append((vars(module), names))
                if not name.startswith("__"):
                    self._globals[f"global {place}{name}"] = at[name]

    def _place(self, of: Mapping[str, Any]) -> str | None:
        """What tells the globals of a file from those of others; None: it is neither the workflow's nor beside it."""
        file = of.get("__file__")
        place = self._places.get(os.path.realpath(file)) if isinstance(file, str) else None
        return "__main__: " if place is None and of.get("__name__") == "__main__" else place


def _codes(code: CodeType) -> Iterator[CodeType]:
    """That of a function, and of those within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _says(code: CodeType) -> tuple[Any, ...]:
    """What it does, wherever it stands."""
    constants = [None if isinstance(each, CodeType) else each for each in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_name, code.co_code, code.co_exceptiontable, constants, *names, *counts


def problems(workflow: Workflow, steering: Steering | None = None) -> list[str]:
    """What is missing or does not fit together, as far as it is known how the workflow steers."""
    wrong = []
    if workflow.simulation is None:
        wrong.append("no simulate stage: decorate a function with @wf.simulate()")
    if workflow.training is not None and workflow.scoring is None:
        wrong.append("a train stage but no score stage: decorate a function with @wf.score()")
    if workflow.prepare_function and workflow.before_plan:
        wrong.append("both @wf.prepare and @wf.before make start.prepared: keep one, and call the other a task")
    for plan in filter(None, (workflow.before_plan, workflow.after_plan)):
        if plan.__name__ in workflow.tasks:
            wrong.append(f"{plan.__name__} is the name of a task and of a plan: rename one")
    if (steering := steering or workflow.steering) is None:
        return wrong
    if steering.label and workflow.labelling is None:
        wrong.append("a label rule but no label stage: decorate a function with @wf.label()")
    if workflow.held_out_function and steering.policy.rounds:
        wrong.append(f"{steering.policy.name} chooses every start, so no draw can be held out: remove @wf.held_out")
    needs = (*steering.needs, *steering.fallback.needs)
    if needs and workflow.scoring is None:
        wrong.append(f"steering needs scores {', '.join(dict.fromkeys(needs))} but there is no @wf.score()")
    return wrong
