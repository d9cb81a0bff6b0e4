"""Parts of one kind: those of a folder, a file each, and those of other packages, which entry points name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, TypeVar

from steersman.system.errors import BadInput, told

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = TypeVar("Kind")
log = logging.getLogger("steersman.registry")


def subclasses(package: str, base: type[Kind]) -> list[type[Kind]]:
    """Those of a class that the files of a folder define; each file is imported."""
    for file in iter_modules(import_module(package).__path__, f"{package}."):
        import_module(file.name)
    kinds = [base]
    for kind in kinds:
        kinds += [each for each in kind.__subclasses__() if each not in kinds]
    return [each for each in kinds[1:] if each.__module__.startswith(f"{package}.")]


class Others:
    """What other packages add, by name; a part is loaded when it is asked for.

    Args:
        group: of the entry points, e.g. `steersman.policies`.
        taken: names of parts of ours. An entry point of such a name is told in one line and left out.
        check: raises an error for an object that is no such part.
    """

    def __init__(self, group: str, taken: Collection[str] = (), check: Callable[[Any], object] = id) -> None:
        self.group, self._taken, self._check = group, taken, check

    @cached_property
    def entries(self) -> dict[str, EntryPoint]:
        """By name; nothing is loaded."""
        from importlib.metadata import entry_points  # takes longer than a list of names may

        entries: dict[str, EntryPoint] = {}
        for entry in entry_points(group=self.group):
            if entry.name in self._taken or entry.name in entries or entry.name.startswith("_"):
                log.warning("%s", self._left_out(entry, "there is another of this name, or it is none"))
            else:
                entries[entry.name] = entry
        return entries

    def load(self, name: str) -> Any:
        """Raises: BadInput: it cannot be used, and why, in one line."""
        entry = self.entries[name]
        try:
            part = entry.load()
            self._check(part)
        except (Exception, SystemExit) as error:  # another package's code may do anything
            raise BadInput(self._left_out(entry, told(error))) from None
        return part

    def loaded(self) -> tuple[dict[str, Any], dict[str, str]]:
        """All that can be used, and of each other one the line that says why not."""
        parts, problems = dict[str, Any](), dict[str, str]()
        for name in self.entries:
            try:
                parts[name] = self.load(name)
            except BadInput as unusable:
                problems[name] = str(unusable)
        return parts, problems

    def _left_out(self, entry: EntryPoint, problem: str) -> str:
        return f"{entry.value} ({self.group}: {entry.name}) cannot be used: {' '.join(problem.split())}"
