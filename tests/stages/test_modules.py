"""A workflow file of more than one module, and the processes that its stages start."""

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from steersman.journal import run_directory
from steersman.stages import loading
from steersman.stages.errors import BadWorkflow
from steersman.stages.modules import (
    ABSENT,
    FOLDER,
    MOST_DATA,
    copied,
    differing,
    explained,
    imported,
    keep,
    make_importable,
)
from steersman.stages.workflow import Workflow
from steersman.steering import budget

FILES = {
    "mine.py": """
        import numpy, first_helper
        from steersman import Workflow, budget
        from whole import part
        wf = Workflow("mine", stop=budget(frames=1))

        def double(x): return first_helper.TWO * x

        @wf.simulate()
        def simulate(p, start, out):
            import lazily
            from multiprocessing import get_context
            for method in ("spawn", "forkserver", "fork"):
                with get_context(method).Pool(1) as pool:
                    print(pool.map(double, [lazily.ONE, part.TWO]))
        """,
    "first_helper.py": "import second_helper\nTWO = second_helper.TWO",
    "second_helper.py": "import first_helper\nTWO = 2",
    "lazily.py": "ONE = 1",
    "whole/__init__.py": "",
    "whole/part.py": "from . import other\nTWO = other.TWO",
    "whole/other.py": "TWO = 2",
    "unused.py": "raise SystemExit('nobody imports it')",
}


def place_of(module: str) -> Path | None:
    """The folder in which this process would find it, had it not imported it."""
    found = next(filter(None, (finder.find_spec(module, None) for finder in sys.meta_path)), None)
    return Path(found.origin).parent if found and found.origin else None


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(textwrap.dedent(text))
    return tmp_path / "mine" / "mine.py"


def test_what_a_file_imports_from_its_folder_is_found_however_it_imports_it(source: Path) -> None:
    found = {str(path.relative_to(source.parent)) for path in imported(source)}
    assert found == FILES.keys() - {"mine.py", "unused.py"}


def test_what_python_would_not_take_from_the_folder_is_not_found(source: Path) -> None:
    """A clone beside the file, whose package is installed; and a package may hold files that are no Python."""
    for name in ("numpy/numpy/core.py", "steersman/engine/run.py"):
        (source.parent / name).parent.mkdir(parents=True)
        (source.parent / name).write_text("")
    (source.parent / "whole" / "template.py").write_text("{{ name }} = print 'of Python 2'")
    found = {str(path.relative_to(source.parent)) for path in imported(source)}
    assert found == FILES.keys() - {"mine.py", "unused.py"} | {"whole/template.py"}


def test_a_package_is_kept_with_its_data_unless_they_are_large(source: Path) -> None:
    for name, size in {
        "fields/a.xml": 9, "large.npy": MOST_DATA + 1, "__pycache__/part.pyc": 9, ".git/config": 9, "fields/.swp": 9
    }.items():  # fmt: skip
        (source.parent / "whole" / name).parent.mkdir(exist_ok=True)
        (source.parent / "whole" / name).write_bytes(b"<" * size)
    found = {str(path.relative_to(source.parent)) for path in imported(source)}
    assert found == FILES.keys() - {"mine.py", "unused.py"} | {"whole/fields/a.xml"}


def test_a_compiled_module_is_found_also_by_a_relative_path(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (f"fast{EXTENSION_SUFFIXES[0]}", f"whole/faster{EXTENSION_SUFFIXES[-1]}"):
        (source.parent / name).write_bytes(b"\x7fELF\0")
    source.write_text("import fast\n" + source.read_text())
    monkeypatch.chdir(source.parent)
    found = {str(path.relative_to(source.resolve().parent)) for path in imported(Path(source.name))}
    assert found == FILES.keys() - {"mine.py", "unused.py"} | {
        f"fast{EXTENSION_SUFFIXES[0]}", f"whole/faster{EXTENSION_SUFFIXES[-1]}"
    }  # fmt: skip


@pytest.mark.slow
def test_a_run_needs_its_source_no_more_and_pools_of_a_stage_work(source: Path, tmp_path: Path) -> None:
    """As in a worker: another process, another folder; a Pool that cannot import a function waits for ever."""
    directory = run_directory.create(tmp_path, "mine", tmp_path / "run")
    run_directory.write_settings(directory, {}, source)
    keep(source, directory.path)
    source.parent.rename(tmp_path / "elsewhere")
    code = "from steersman.stages import loading; from pathlib import Path\n"
    code += (
        f"if __name__ == '__main__': loading.load(Path({str(directory.workflow)!r})).simulation.function(*[None] * 3)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd="/")
    assert done.stdout == "[2, 4]\n" * 3, done.stderr
    assert {path.name for path in (directory.path / FOLDER).glob("*.py")} == {
        "steersman_workflow.py", "first_helper.py", "second_helper.py", "lazily.py"
    }  # fmt: skip


ONCE = """
import os, sys
from steersman import Workflow, budget
assert not hasattr(sys, "imported_once"), "this may be set once"
sys.imported_once = True
os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
wf = Workflow("once", stop=budget(frames=1))

@wf.simulate()
def simulate(p, start, out): pass
"""


@pytest.fixture
def once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that may be imported once in a process, and goes to the folder above its own."""
    monkeypatch.delattr(sys, "imported_once", raising=False)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "once.py").write_text(ONCE)
    monkeypatch.chdir(tmp_path / "own")
    yield Path("once.py")
    if hasattr(sys, "imported_once"):
        del sys.imported_once


def test_a_copy_of_what_is_loaded_is_not_imported_again(once: Path, tmp_path: Path) -> None:
    """But only if it is one, and of this workflow."""
    workflow = loading.load(once)
    copy = copied(once, tmp_path)
    loading.adopt(copy, Workflow("other", stop=budget(frames=1)))
    with pytest.raises(BadWorkflow, match="once"):
        loading.load(copy)
    loading.adopt(copy, workflow)
    assert loading.load(copy) is loading.load(copy) is workflow
    copy.write_text(copy.read_text() + "\n# changed")
    with pytest.raises(BadWorkflow, match="once"):
        loading.load(copy)


@pytest.mark.parametrize("moves", [False, True])
def test_a_file_that_changes_its_folder_changes_that_of_workers_alone(once: Path, moves: bool) -> None:
    before = Path.cwd()
    loading.load(once, moves=moves)
    assert Path.cwd() == (before.parent if moves else before)


def test_modules_lie_beside_the_file_that_a_link_leads_to(source: Path, tmp_path: Path) -> None:
    """As Python finds them."""
    (tmp_path / "mine_too").mkdir()
    link = tmp_path / "mine_too" / "linked.py"
    link.symlink_to(source)
    assert imported(link) == imported(source)
    make_importable(link)
    assert place_of("first_helper") == source.resolve().parent
    copy = copied(link, tmp_path)
    assert not copy.is_symlink()
    assert (tmp_path / FOLDER / "whole" / "other.py").read_text() == FILES["whole/other.py"]


def test_a_script_beside_a_workflow_file_hides_no_library(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One named click.py was run in place of the library, at the end of a run. What the file imports is found."""
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    (source.parent / "click.py").write_text("raise SystemExit('nobody imports it')")
    library = place_of("click")
    make_importable(source)
    assert place_of("click") == library != source.resolve().parent
    assert {place_of(name) for name in ("first_helper", "second_helper", "lazily")} == {source.resolve().parent}
    assert place_of("whole") == source.resolve().parent / "whole"
    source.write_text(f"import click\n{source.read_text()}")
    make_importable(source)
    assert place_of("click") == source.resolve().parent, "as its author means it"


def test_who_misses_a_file_of_the_run_is_told_of_copies(tmp_path: Path) -> None:
    assert explained("KeyError: 'x'", tmp_path) == "KeyError: 'x'"
    assert ABSENT in explained(f"[Errno 2] No such file or directory: '{tmp_path}/start.txt'", tmp_path)
    for ours in ("/elsewhere/start.txt", f"{tmp_path}/models/0002/model.json"):
        assert ABSENT not in explained(f"[Errno 2] No such file or directory: '{ours}'", tmp_path)


@pytest.mark.parametrize(
    ("changed", "names"),
    [("unused.py", set()), ("second_helper.py", {"first_helper"}), ("whole/other.py", {"whole"}), ("new.py", {"new"})],
)
def test_a_module_differs_from_the_one_that_a_run_keeps_if_a_file_does_that_it_imports(
    source: Path, tmp_path: Path, changed: str, names: set[str]
) -> None:
    (tmp_path / "run").mkdir()
    keep(source, tmp_path / "run")
    assert not differing(source, tmp_path / "run" / FOLDER)
    source.write_text(source.read_text() + "import new\n")
    (source.parent / changed).write_text("TWO = 3")
    assert differing(source, tmp_path / "run" / FOLDER) == names
