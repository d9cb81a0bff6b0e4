"""A call of a task -> its result, in a folder of its own; it is an argument of other calls as a receipt."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from steersman.journal.calls import RESULT
from steersman.journal.run_directory import RunDirectory
from steersman.stages.task import unpack
from steersman.stages.workflow import Workflow
from steersman.steering.streams import call_seed
from steersman.system import node
from steersman.system.errors import DamagedFile
from steersman.system.files import replace_file
from steersman.system.random_numbers import drawing
from steersman.worker.known import keep

PRINTED = "printed.txt"  # what a call printed, and the programs that it started


class Receipt(NamedTuple):
    """Where a result lies, and what it is to be."""

    call: str
    sha256: str
    node: str = ""
    took_s: float = 0.0
    size: int = 0


def result(directory: RunDirectory, receipt: Receipt) -> Any:
    """Raises: DamagedFile: it is not loaded, for pickle would run what somebody else wrote."""
    file = directory.task(receipt.call) / RESULT
    pickled = file.read_bytes() if file.is_file() else b""  # once: what is checked is what is loaded
    if hashlib.sha256(pickled).hexdigest() != receipt.sha256:
        raise DamagedFile(
            f"{file} is missing or was changed since it was made, and is not loaded; `resume` makes it again"
        )
    return pickle.loads(pickled)


def done(
    directory: RunDirectory, workflow: Workflow, call: str, name: str, packed: bytes, needs: tuple[Receipt, ...]
) -> Receipt:
    """Do a call: of a task, or of a plan, whose result is what it gave with the results in it."""
    began, folder = time.monotonic(), directory.task(call)
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that did not come to its end
    folder.mkdir(parents=True)
    known = {receipt.call: receipt for receipt in needs}
    with contextlib.chdir(folder), _printing_to(folder / PRINTED):
        args, options = unpack(packed, lambda key: result(directory, known[key]))
        with drawing(call_seed(directory.settings()["seed"], call)):  # else workers, which are forks, draw the same
            value = workflow.tasks[name].function(*args, **options) if name in workflow.tasks else args[0]
        pickled = pickle.dumps(value)
    if (folder / PRINTED).stat().st_size == 0:
        (folder / PRINTED).unlink()
    if workflow.before_plan and name == workflow.before_plan.__name__:
        keep(directory, value)
    replace_file(folder / RESULT, pickled, sync=True, mode=0o600)
    took_s = time.monotonic() - began
    return Receipt(call, hashlib.sha256(pickled).hexdigest(), node.name(), took_s, len(pickled))


@contextlib.contextmanager
def _printing_to(file: Path) -> Iterator[None]:
    """Let all that this process and its children print go to a file, and then where it went before."""
    streams = [(stream, os.dup(stream.fileno())) for stream in (sys.stdout, sys.stderr)]
    with file.open("ab") as target:
        _each(streams, lambda stream, _: os.dup2(target.fileno(), stream.fileno()))
    try:
        yield
    finally:
        _each(streams, lambda stream, saved: os.dup2(saved, stream.fileno()))
        _each(streams, lambda _, saved: os.close(saved))


def _each(streams: list[tuple[Any, int]], act: Callable[[Any, int], object]) -> None:
    for stream, saved in streams:
        stream.flush()
        act(stream, saved)
