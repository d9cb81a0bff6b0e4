"""The folders are the architecture: table, links and folders agree, and imports point down."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "steersman"
AT_ROOT = {"apps", "executors", "models", "site_configs", "workflows"}  # to which a user adds
MAY_IMPORT = {
    "system": set(),
    "bus": {"system"},
    "store": {"system"},
    "steering": {"system", "store"},
    "journal": {"system", "store", "steering"},
    "models": {"system", "bus", "store"},
    "stages": {"system", "store", "steering", "journal", "models", "workflows"},
    "apps": {"system", "store", "steering", "models", "stages"},
    "executors": {"system", "bus", "site_configs"},
    "worker": {"system", "bus", "store", "steering", "journal", "models", "stages", "executors"},
    "engine": {"system", "bus", "store", "steering", "journal", "models", "stages", "executors", "worker"},
    "checks": {"system", "bus", "store", "steering", "journal", "stages", "executors", "worker", "engine"},
    "remote": {"system", "journal", "stages", "executors", "engine", "data", "dashboard"},
    "workflows": {"stages", "apps", "models", "steering", "store"},
    "data": {"system", "store", "steering", "journal", "stages"},
    "dashboard": {"system", "store", "steering", "journal", "stages", "executors", "data"},
    "calls": {"system", "steering", "journal", "stages", "executors", "engine", "dashboard", "data"},
    "analysis": {
        "system",
        "store",
        "steering",
        "journal",
        "stages",
        "executors",
        "engine",
        "checks",
        "data",
        "dashboard",
    },
    "site_configs": set(),
    "client": set(),
}
MAY_IMPORT |= {room: {*MAY_IMPORT, "benchmarks", "cli"} for room in ("benchmarks", "cli")}
ROOMS = tuple(MAY_IMPORT)


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("not a checkout")
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]  # type: ignore[no-any-return]


def test_every_room_is_there_and_those_at_the_root_are_linked_packed_and_guarded(
    project: dict[str, dict],  # type: ignore[type-arg]
) -> None:
    build, lint = project["hatch"]["build"], project["ruff"]["lint"]
    assert set(build["targets"]["wheel"]["sources"]) == {"src/steersman", *AT_ROOT}
    assert set(build["only-include"]) == {"src", *AT_ROOT}
    assert set(build["exclude"]) == {f"src/steersman/{room}" for room in AT_ROOT}
    assert set(lint["flake8-tidy-imports"]["banned-api"]) == AT_ROOT
    assert {each.name for each in PACKAGE.iterdir() if each.is_symlink()} == AT_ROOT
    assert {each.parent.name for each in PACKAGE.glob("*/__init__.py")} == set(ROOMS)
    assert all((ROOT / room / "__init__.py").exists() for room in AT_ROOT)


@pytest.mark.usefixtures("project")
def test_the_table_of_rooms_in_contributing_says_what_each_may_import() -> None:
    rows = dict(re.findall(r"^\| `(\w+)/` \|.*\| (.*) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    assert rows.keys() ^ MAY_IMPORT.keys() == set(), "rooms that are in one of CONTRIBUTING.md and MAY_IMPORT alone"
    for room, cell in rows.items():
        listed = set(ROOMS) if cell == "everything" else set(re.findall(r"`(\w+)", cell))
        assert listed ^ MAY_IMPORT[room] == set(), f"the row of {room} in CONTRIBUTING.md and MAY_IMPORT differ"


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_down(room: str) -> None:
    for file in sorted((PACKAGE / room).glob("**/*.py")):
        used = {name.split(".")[1] for name in imported(file) if name.startswith("steersman.")} & set(ROOMS) - {room}
        more = sorted(used - MAY_IMPORT[room])
        assert not more, (
            f"{file}: {room}/ may import {sorted(MAY_IMPORT[room])} and not {more}; move what is needed down"
        )


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_file_does_as_a_program_stands_last_in_it(room: str) -> None:
    """What is defined behind it is not there when it runs, though it is when the file is imported."""
    for file in sorted((PACKAGE / room).glob("**/*.py")):
        body = ast.parse(file.read_text()).body
        programs = [each for each in body if isinstance(each, ast.If) and "__main__" in ast.unparse(each.test)]
        assert programs in ([], body[-1:]), file


@pytest.mark.parametrize("room", ROOMS)
def test_imports_within_a_room_do_not_go_round(room: str) -> None:
    """Neither from file to file nor from folder to folder, imports within functions included."""
    files = {name_of(file): file for file in (PACKAGE / room).glob("**/*.py")}
    by_file = {name: within(file, files) - {name} for name, file in files.items()}
    no_round_trip(by_file)
    by_folder: dict[str, set[str]] = {}
    for name, used in by_file.items():
        by_folder.setdefault(folder(name, files), set()).update(folder(each, files) for each in used)
    no_round_trip({name: used - {name} for name, used in by_folder.items()})


def name_of(file: Path) -> str:
    return ".".join(("steersman", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


def within(file: Path, files: Mapping[str, Path]) -> set[str]:
    """The files of a room that one of them imports."""
    return {name if name in files else name.rpartition(".")[0] for name in imported(file)} & set(files)


def folder(name: str, files: Mapping[str, Path]) -> str:
    """A file's folder below its room; of a file in the room itself its own name."""
    return name if files[name].parent.parent == PACKAGE else ".".join(name.split(".")[:3])


def no_round_trip(uses: Mapping[str, set[str]]) -> None:
    try:
        tuple(TopologicalSorter(uses).static_order())
    except CycleError as error:
        pytest.fail(f"these import each other, so move what both need into a third: {' <- '.join(error.args[1])}")


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_words_that_start_no_job_and_walkers_do_not_wait_for_parsl_and_torch() -> None:
    code = "import sys, steersman.cli.__main__, steersman.worker.tasks, steersman.workflows.fold\n"
    code += "print(*{'parsl', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
