"""What a package imports for type checkers -> the names that it gives, each imported when it is first asked for.

A workflow file is read in milliseconds, torch in seconds. The imports below `if TYPE_CHECKING:` say where a name is:

    from steersman.models.networks.pca import PCA as PCA

A package of parts also gives what a file of its folder defines and nobody has listed, and what other packages add.
"""

import difflib
import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from steersman.system.registry import Others

_HOME = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazy(package: str, group: str = "") -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__all__`, `__getattr__` and `__dir__`.

    Args:
        group: of the entry points by which other packages add parts.
    """
    source = sys.modules[package].__loader__.get_source(package)  # type: ignore[union-attr]
    homes = {name: home for home, name in _HOME.findall(source)}
    others = Others(group, taken=homes)

    def find(name: str) -> Any:
        if homes.get(name) == package:  # a module of its own
            return import_module(f"{package}.{name}")
        if name in homes:
            return getattr(import_module(homes[name]), name)
        near = list[str]()
        if name[0] != "_" and find_spec(f"{package}.{name}") is None:  # whoever asks for a module imports it
            if home := group and _home(package, name):
                return getattr(import_module(home), name)
            if group and name in others.entries:
                return others.load(name)
            near = difflib.get_close_matches(name, names(), n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module {package!r} has no attribute {name!r}{meant}")

    def names() -> list[str]:
        return [*homes, *(others.entries if group else ())]

    return [*homes], find, names


def _home(package: str, name: str) -> str:
    """The module of a folder that defines a class or a function; "" if none does."""
    folder, defined = Path(sys.modules[package].__path__[0]), re.compile(rf"^(?:class|def) {name}\b", re.MULTILINE)
    for file in sorted(folder.rglob("*.py")):
        if defined.search(file.read_text(encoding="utf-8")):
            return ".".join((package, *file.relative_to(folder).with_suffix("").parts))
    return ""
