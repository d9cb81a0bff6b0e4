"""What a package imports for type checkers -> the names that it gives, each imported when it is first asked for.

A workflow file is read in milliseconds, torch in seconds. The imports below `if TYPE_CHECKING:` are the only list:

    from steersman.models.networks.pca import PCA as PCA
"""

import difflib
import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_HOME = re.compile(r"^    from (\S+) import (\w+) as \2$", re.MULTILINE)


def lazy(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__all__`, `__getattr__` and `__dir__`."""
    source = sys.modules[package].__loader__.get_source(package)  # type: ignore[union-attr]
    homes = {name: home for home, name in _HOME.findall(source)}

    def find(name: str) -> Any:
        if name not in homes:
            near = [] if name.startswith("_") else difflib.get_close_matches(name, homes, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"module {package!r} has no attribute {name!r}{meant}")
        if homes[name] == package:  # a module of its own
            return import_module(f"{package}.{name}")
        return getattr(import_module(homes[name]), name)

    return [*homes], find, lambda: [*homes]
