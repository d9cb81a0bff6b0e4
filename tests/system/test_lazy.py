"""What a type checker is told that a package has is what it has, and no module takes the place of another thing."""

import ast
import inspect
import pkgutil
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["steersman", "steersman.models", "steersman.steering", "steersman.apps.alloys"])
def test_a_package_has_what_a_type_checker_sees(name: str) -> None:
    if name.endswith("alloys"):
        pytest.importorskip("ase")
    package = import_module(name)
    (guarded,) = (
        node for node in ast.parse(inspect.getsource(package)).body if isinstance(node, ast.If) and node.orelse
    )
    seen = [alias.name for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert sorted(seen) == dir(package)
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
    for each in seen:
        assert inspect.ismodule(getattr(package, each)) or each not in modules, "once imported, the module is found"
    with pytest.raises(AttributeError, match="nonesuch"):
        _ = package.nonesuch
