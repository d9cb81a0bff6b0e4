"""Whose code it is: the workflow files that this user ran, submitted or allowed, in a list outside of all runs.

A run directory that came from elsewhere looks like one's own, whatever it says of itself. So code is known by its
content: the SHA-256 of the workflow file and of all that was kept with it. A run that was moved or copied is known; one
into which a line of code was written is not, wherever it lies.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from steersman.stages import loading
from steersman.stages.errors import UntrustedCode
from steersman.stages.modules import FOLDER, MODULE
from steersman.stages.workflow import Workflow
from steersman.system import reading
from steersman.system.errors import EngineError
from steersman.system.files import state_folder

if TYPE_CHECKING:
    from steersman.models import Model

LIST = "trusted"  # a line for each code: its SHA-256, and the workflow file that had it first
MOST_BYTES = 2**30  # of a file that is kept with a workflow: an extension module, say

_here: set[str] = set()  # what this process was told, also where there is no list


def trust(workflow: Path) -> None:
    """Allow the code of a run from now on: it is about to be run here, or somebody asked for it."""
    code = _code(workflow)
    if code in _here or code in _listed():
        return
    _here.add(code or _path(workflow))
    folder = state_folder()
    if folder is None or not code:
        return
    with suppress(OSError):  # a full or read-only home: it is asked again
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / LIST, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "ab", buffering=0) as file:  # one write: others append at the same moment
            file.write(f"{code} {_path(workflow)!r}\n".encode())


def trusted(workflow: Path) -> bool:
    """Whether looking at a run may execute its workflow file."""
    code = _code(workflow)
    return (code or _path(workflow)) in _here or (bool(code) and code in _listed())


def load(workflow: Path) -> Workflow:
    """As `loading.load`, of the workflow file of a run that somebody looks at. Raises: UntrustedCode. BadWorkflow."""
    if not trusted(workflow):
        raise UntrustedCode(str(workflow))
    return loading.load(workflow)


def load_model(folder: Path, workflow: Path) -> Model:
    """The model of a folder; one with code of its own only where that of the workflow file is allowed."""
    from steersman.models import Model  # torch, for those who ask

    return Model.load(folder, trusted=trusted(workflow))


def _path(workflow: Path) -> str:
    return os.path.realpath(workflow)


def _listed() -> set[str]:
    folder = state_folder()
    with suppress(OSError, EngineError):
        if folder is not None:
            return {
                line.partition(b" ")[0].decode("ascii", "replace")
                for line in reading.read(folder / LIST, folder).splitlines()
            }
    return set()


def _code(workflow: Path) -> str:
    """The SHA-256 of a workflow file and of what is kept with it; "" where it may load something else, too."""
    if not (workflow.parent / FOLDER / f"{MODULE}.py").exists():
        return ""  # of an older Steersman, or none: all that lies beside it is imported
    hashed = hashlib.sha256()
    try:
        for path in _files(workflow):
            with reading.opened(path, workflow.parent) as file:
                if os.fstat(file.fileno()).st_size > MOST_BYTES:
                    return ""
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            hashed.update(f"{path.relative_to(workflow.parent)}\0{digest}\0".encode(errors="surrogateescape"))
    except (OSError, EngineError):
        return ""
    return hashed.hexdigest()


def _files(workflow: Path) -> Iterator[Path]:
    """What is executed of a run. Raises: OddFile: links to folders, pipes and the like."""
    yield workflow
    for folder, folders, names in os.walk(workflow.parent / FOLDER):
        folders.sort()
        for name in folders:
            if not stat.S_ISDIR(os.lstat(Path(folder, name)).st_mode):
                raise reading.OddFile(str(Path(folder, name)), "it is a symbolic link to a folder")
        yield from (Path(folder, name) for name in sorted(names) if name != "__pycache__")  # a file, see `modules.keep`
