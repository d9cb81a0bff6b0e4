"""Workflow file -> the modules of its folder that it imports: found, kept with a run, found again by every process.

A run directory has them in `workflow/`, beside the link `steersman_workflow.py` to its workflow file. So a child
process that is spawned, for a Pool say, imports the file: it is given its parent's sys.path and names of functions.
"""

from __future__ import annotations

import ast
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path

from steersman.journal.calls import TASKS
from steersman.journal.run_directory import LEARNED
from steersman.system.files import replace_file

MODULE = "steersman_workflow"  # the name a workflow file has as a module, in the driver and in every worker
FOLDER = "workflow"  # in a run directory
SUFFIXES = (*SOURCE_SUFFIXES, *EXTENSION_SUFFIXES)
ABSENT = (
    "a run has copies of the workflow file and of the modules that it imports, and not of other files beside them: "
    "give an absolute path, or make it a parameter"
)
OURS = (*LEARNED, TASKS, "frames.zarr", "scores.zarr")  # folders of a run that no function of a file names
MOST_DATA = 2**20  # bytes of another file of a package that is kept with it


def keep(source: Path, run: Path) -> None:
    """Copy what a workflow file imports from its own folder into a run directory."""
    kept = run / FOLDER
    kept.mkdir()
    (kept / f"{MODULE}.py").symlink_to(Path("..", "workflow.py"))
    put(beside(source), kept)


def put(files: Mapping[Path, bytes], kept: Path) -> None:
    """Write files, by their names in it, into the folder that a run has for them."""
    for name, data in files.items():
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        replace_file(kept / name, data)
    close(kept)


def close(kept: Path) -> None:
    """Let nothing be executed from the folder that a run has for modules but what the run put there."""
    for folder in [kept, *(path for path in kept.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").touch()  # no folder: Python neither writes bytecode there nor runs what another put


def beside(source: Path) -> dict[Path, bytes]:
    """What a workflow file imports from its folder, by names in it."""
    folder = source.resolve().parent
    return {path.relative_to(folder): path.read_bytes() for path in imported(source)}


def differing(source: Path, kept: Path) -> frozenset[str]:
    """The modules of its folder that a workflow file imports, and that are not what a run has kept of them, or import
    such."""
    folder = source.resolve().parent

    def same(file: Path) -> bool:
        copy = kept / file.relative_to(folder)
        return copy.is_file() and copy.read_bytes() == file.read_bytes()

    return frozenset(name for name in _names(source) if not all(map(same, reached(folder, {name}))))


def copied(source: Path, folder: Path) -> Path:
    """Copy a workflow file into a folder as a run does, with what it imports; returns the copy."""
    copy = folder / "workflow.py"
    shutil.copyfile(source, copy)
    keep(source, folder)
    return copy


def explained(text: str, folder: Path) -> str:
    """What a stage of a run in this folder says, with the reason where it misses a file there."""
    missed = re.search(f"No such file.*{re.escape(str(folder))}/([^/'\"]*)", text, re.DOTALL)
    return f"{text}; {ABSENT}" if missed and missed[1] not in OURS else text


def looks_beside(source: Path) -> bool:
    """Whether a workflow file asks where it lies, so that it may look for files there."""
    tree = ast.parse(source.read_bytes())
    return any(isinstance(node, ast.Name) and node.id == "__file__" for node in ast.walk(tree))


@dataclass(frozen=True)
class _Beside(MetaPathFinder):
    """Finds modules of a folder by these names, and no others: a script there may have the name of a library."""

    folder: str
    names: frozenset[str]

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [self.folder]) if path is None and name in self.names else None


def make_importable(path: Path) -> None:
    """Let this process import what a workflow file imports of its folder; of what was kept with a run, all, and also
    the processes that it spawns."""
    own = path.resolve().parent  # of a link too, as Python does
    kept = own / FOLDER
    if (kept / f"{MODULE}.py").exists():
        if str(kept) not in sys.path:
            sys.path.insert(0, str(kept))  # first, as Python does with the folder of a program
        return
    beside = _Beside(str(own), frozenset(file.relative_to(own).parts[0].partition(".")[0] for file in imported(path)))
    if beside not in sys.meta_path:
        sys.meta_path.insert(0, beside)


def imported(source: Path) -> set[Path]:
    """The files in the folder of a Python file that it imports, at once or later in a function; packages whole, with
    their data: files of up to 1 MiB each."""
    return reached(source.resolve().parent, _names(source))


def named(node: ast.AST) -> frozenset[str]:
    """First names of the modules that a part of a file imports."""
    names: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in each.names}
        elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
            names.add(each.module.partition(".")[0])
    return frozenset(names)


def reached(folder: Path, names: Iterable[str]) -> set[Path]:
    """The files in a folder that belong to modules of these names, or that those import."""
    files, waiting = set[Path](), set(names)
    while waiting:
        new = {file for name in waiting for file in _files(folder, name)} - files
        files |= new
        waiting = {name for file in new if file.name.endswith(tuple(SOURCE_SUFFIXES)) for name in _names(file)}
    return files


def _names(file: Path) -> frozenset[str]:
    """First names of what a file imports; none of one that is no Python, as a package may hold templates."""
    try:
        return named(ast.parse(file.read_bytes()))
    except (SyntaxError, ValueError):
        return frozenset()


def _files(folder: Path, name: str) -> Iterator[Path]:
    """What Python finds in a folder under a name: a clone of a package that is installed, say, is not found there."""
    here = folder.absolute()
    spec = PathFinder.find_spec(name, [str(here), *sys.path])
    if spec is None:
        return
    if str(here / name) in (spec.submodule_search_locations or ()):
        yield from (file for file in (folder / name).rglob("*") if file.is_file() and _belongs(file, folder))
    elif spec.origin and Path(spec.origin).parent == here:
        yield folder / Path(spec.origin).name


def _belongs(file: Path, folder: Path) -> bool:
    """To its package; bytecode and hidden files do not."""
    generated = any(part.startswith(".") or part == "__pycache__" for part in file.relative_to(folder).parts)
    return not generated and (file.name.endswith(SUFFIXES) or file.stat().st_size <= MOST_DATA)
