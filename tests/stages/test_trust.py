"""Whose code it is: known by its content, from a list outside of all runs."""

import os
import py_compile
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steersman.stages import loading, modules, trust
from steersman.stages.errors import UntrustedCode
from steersman.system.files import state_folder

FLOW = """
import helper
from steersman import Workflow, budget
wf = Workflow("mine", stop=budget(frames=1))

@wf.simulate()
def simulate(p, start, out): pass
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory, as far as code goes."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(trust, "_here", set())
    (tmp_path / "source" / "package").mkdir(parents=True)
    (tmp_path / "source" / "mine.py").write_text(FLOW)
    (tmp_path / "source" / "helper.py").write_text("import package")
    (tmp_path / "source" / "package" / "__init__.py").write_text("")
    return begun(tmp_path / "source" / "mine.py", tmp_path / "run")


def begun(source: Path, run: Path) -> Path:
    run.mkdir()
    shutil.copy(source, run / "workflow.py")
    modules.keep(source, run)
    return run


def asked_anew(workflow: Path) -> bool:
    """Whether another process would trust it."""
    trust._here.clear()
    return trust.trusted(workflow)


def test_what_was_run_here_is_known_wherever_it_lies(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UntrustedCode):
        trust.load(run / "workflow.py")
    trust.trust(run / "workflow.py")
    assert asked_anew(run / "workflow.py")
    assert trust.load(run / "workflow.py").name == "mine"
    run.rename(tmp_path / "moved")
    assert asked_anew(tmp_path / "moved" / "workflow.py")
    shutil.copytree(tmp_path / "moved", tmp_path / "copied")  # its links become files
    assert asked_anew(tmp_path / "copied" / "workflow.py")
    assert asked_anew(begun(tmp_path / "source" / "mine.py", tmp_path / "again") / "workflow.py")
    shutil.copytree(tmp_path / "moved", tmp_path / "backup", ignore=shutil.ignore_patterns("__pycache__"))
    assert asked_anew(tmp_path / "backup" / "workflow.py")
    list_ = tmp_path / "state" / "steersman" / "trusted"
    assert (list_.stat().st_mode & 0o777, len(list_.read_text().splitlines())) == (0o600, 1)


def a_line(run: Path) -> None:
    with (run / "workflow.py").open("a") as file:
        file.write("\n")


def bytecode(folder: str) -> Callable[[Path], None]:
    """Of other code, which says that it is of this file."""

    def plant(run: Path) -> None:
        place = run / folder
        (place / "__pycache__").unlink(missing_ok=True)
        (place / "__pycache__").mkdir()
        name = "helper.py" if folder else "workflow.py"
        evil = run.parent / name
        evil.write_text("#".ljust((place / name).stat().st_size))
        os.utime(evil, ns=(0, (place / name).stat().st_mtime_ns))
        cached = place / "__pycache__" / f"{evil.stem}.{sys.implementation.cache_tag}.pyc"
        py_compile.compile(str(evil), str(cached))

    return plant


CHANGES: dict[str, Callable[[Path], object]] = {
    "a line": a_line,
    "a module": lambda run: (run / "workflow" / "helper.py").write_text("import  package"),
    "a module of a package": lambda run: (run / "workflow" / "package" / "__init__.py").write_text(" "),
    "another module": lambda run: (run / "workflow" / "numpy.py").touch(),
    "a module less": lambda run: (run / "workflow" / "helper.py").unlink(),
    "two that changed names": lambda run: (run / "workflow" / "helper.py").rename(run / "workflow" / "helped.py"),
    "bytecode": bytecode("workflow"),
    "a folder that is a link": lambda run: (run / "workflow" / "other").symlink_to(run.parent),
    "a file that is a link": lambda run: (run / "workflow" / "other.py").symlink_to("/etc/hostname"),
    "a pipe": lambda run: os.mkfifo(run / "workflow" / "other.py"),
    "no folder": lambda run: shutil.rmtree(run / "workflow"),
    "another link": lambda run: (run / "workflow" / "steersman_workflow.py").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_code_that_is_other_is_not_known_in_the_same_place(change: str, run: Path) -> None:
    """As of an archive that was unpacked over one's own run."""
    trust.trust(run / "workflow.py")
    assert asked_anew(run / "workflow.py")
    CHANGES[change](run)
    assert not asked_anew(run / "workflow.py")


def test_bytecode_beside_a_workflow_file_is_not_run(run: Path) -> None:
    trust.trust(run / "workflow.py")
    bytecode("")(run)
    assert trust.load(run / "workflow.py").name == "mine"


def test_no_process_leaves_bytecode_in_a_run(run: Path) -> None:
    """It would be other code, and the run unknown."""
    trust.trust(run / "workflow.py")
    code = "import steersman_workflow, package"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(run / "workflow")}, check=True)
    assert asked_anew(run / "workflow.py")


def test_what_an_older_version_wrote_is_allowed_for_this_process(run: Path) -> None:
    """Nothing says what else it imports."""
    shutil.rmtree(run / "workflow")
    trust.trust(run / "workflow.py")
    assert trust.trusted(run / "workflow.py")
    assert not asked_anew(run / "workflow.py")


@pytest.mark.parametrize("list_", ["none", "a folder", "read-only", "damaged"])
def test_who_has_no_list_works_all_the_same(list_: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run.parent / "state" / "steersman"
    if list_ == "none":
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
        assert state_folder() is None
    elif list_ == "a folder":
        (folder / trust.LIST).mkdir(parents=True)
    elif list_ == "read-only":
        folder.parent.mkdir()
        folder.write_text("no folder")
    else:
        folder.mkdir(parents=True)
        (folder / trust.LIST).write_bytes(b"\xff\n\n")
    assert not trust.trusted(run / "workflow.py")
    trust.trust(run / "workflow.py")
    assert trust.trusted(run / "workflow.py")
    assert asked_anew(run / "workflow.py") == (list_ == "damaged")


def test_the_shipped_workflows_are_no_exception(tmp_path: Path, run: Path) -> None:
    """What is known is what somebody ran."""
    shipped = begun(loading.shipped()["double_well"], tmp_path / "shipped")
    assert not trust.trusted(shipped / "workflow.py")
