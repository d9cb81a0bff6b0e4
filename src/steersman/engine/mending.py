"""A workflow file that a person mended -> that of a run which has been going, or is over, if its loop is the same.

So what comes after the loop, a figure or a yardstick can be put right without simulating again.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steersman.engine.errors import OtherLoop
from steersman.engine.people import who
from steersman.journal import file as journal
from steersman.journal.calls import RESULT, TASKS, Call
from steersman.journal.recorder import Recorder
from steersman.journal.records import Damaged, Prepared, Start
from steersman.journal.run_directory import RunDirectory, sha256
from steersman.journal.state import State
from steersman.stages import loading, modules, trust
from steersman.stages.versions import MAY_DIFFER, differing
from steersman.stages.workflow import Workflow
from steersman.system.files import replace_file


@dataclass(frozen=True)
class Mended:
    """
    Args:
        modules: what the file imports from its folder, by names in it.
        changed: functions and modules that are others now, or use such.
    """

    workflow: Workflow
    text: bytes
    modules: Mapping[Path, bytes]
    changed: frozenset[str]


def asked(directory: RunDirectory, source: Path) -> Mended | None:
    """What a person wants a run to have as its workflow file; None: it has it.

    Raises: OtherLoop: a simulation, a training or a decision would not be what it was. BadWorkflow.
    """
    workflow, text = loading.load(source), source.read_bytes()
    others = modules.differing(source, directory.modules)
    begun = next(journal.read(directory.journal, Start, Prepared), None)
    may = MAY_DIFFER if begun else MAY_DIFFER | {"before", "prepare"}
    loop, changed = differing(directory.workflow.read_bytes(), text, others, may)
    if loop:
        raise OtherLoop(str(directory.path), str(source), tuple(sorted(loop)))
    if text == directory.workflow.read_bytes() and not others:
        loading.adopt(directory.workflow, workflow)
        return None
    return Mended(workflow, text, modules.beside(source), frozenset(changed | others))


def take(mended: Mended, directory: RunDirectory, recorder: Recorder) -> None:
    """Give a run its workflow file, and have the calls made again whose task is another now."""
    file, new = directory.workflow, f", with new {', '.join(sorted(mended.changed))}" if mended.changed else ""
    reason = f"{who()} continues the run with another {file.name}{new}"
    stale = _stale(recorder.state, mended.changed)
    recorder.record_all([
        Damaged(file=file.name, sha256=hashlib.sha256(mended.text).hexdigest(), reason=reason),
        *(
            Damaged(file=name, sha256=digest, reason=f"{name} is another")
            for name, digest in _digests(mended.modules).items()
            if recorder.state.run.files.get(name) != digest
        ),
        *(Damaged(file=f"{TASKS}/{call.key}/{RESULT}", reason=f"{call} is called again") for call in stale),
    ])  # fmt: skip
    aside = directory.path / "aside" / f"workflow-{sha256(file)[:8]}"
    aside.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, aside / file.name)
    shutil.copytree(directory.modules, aside / modules.FOLDER, symlinks=True, dirs_exist_ok=True)
    modules.put(mended.modules, directory.modules)
    replace_file(file, mended.text, sync=True)
    loading.adopt(file, mended.workflow)
    trust.trust(file)


def _digests(files: Mapping[Path, bytes]) -> dict[str, str]:
    """SHA-256 of modules, by their names in a run directory."""
    return {str(Path(modules.FOLDER) / name): hashlib.sha256(data).hexdigest() for name, data in files.items()}


def _stale(state: State, changed: frozenset[str]) -> list[Call]:
    """Calls of tasks that are others now, and calls that were given what these made."""
    found = dict[str, Call]()
    for key, call in state.calls.items():  # in the order in which they were made
        if call.called.task in changed or not found.keys().isdisjoint(call.called.needs):
            found[key] = call
    return list(found.values())
