"""A workflow file that a person mended -> that of a run which has been going, or is over, if its loop is the same.

So what comes after the loop, a figure or a yardstick can be put right without simulating again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from steersman.engine.errors import OtherLoop
from steersman.engine.people import who
from steersman.journal.calls import RESULT, TASKS, Call
from steersman.journal.recorder import Recorder
from steersman.journal.records import Damaged
from steersman.journal.run_directory import RunDirectory, sha256
from steersman.journal.state import State
from steersman.stages import loading, modules, trust
from steersman.stages.versions import differing
from steersman.stages.workflow import Workflow
from steersman.system.files import replace_file


@dataclass(frozen=True)
class Mended:
    """
    Args:
        changed: functions that are others now, or use such.
    """

    workflow: Workflow
    text: bytes
    changed: frozenset[str]


def asked(directory: RunDirectory, source: Path) -> Mended | None:
    """What a person wants a run to have as its workflow file; None: it has it.

    Raises: OtherLoop: a simulation, a training or a decision would not be what it was. BadWorkflow.
    """
    workflow, text = loading.load(source), source.read_bytes()
    loop, changed = differing(directory.workflow.read_bytes(), text)
    folder = source.resolve().parent
    files = {each.relative_to(folder): each.read_bytes() for each in modules.imported(source)}
    loop |= {str(name) for name, data in files.items() if not _holds(directory.modules / name, data)}
    if loop:
        raise OtherLoop(str(directory.path), str(source), tuple(sorted(loop)))
    if text == directory.workflow.read_bytes():
        loading.adopt(directory.workflow, workflow)
        return None
    return Mended(workflow, text, frozenset(changed))


def take(mended: Mended, directory: RunDirectory, recorder: Recorder) -> None:
    """Give a run its workflow file, and have the calls made again whose task is another now."""
    file, new = directory.workflow, f", with new {', '.join(sorted(mended.changed))}" if mended.changed else ""
    reason = f"{who()} continues the run with another {file.name}{new}"
    stale = _stale(recorder.state, mended.changed)
    recorder.record_all([
        Damaged(file=file.name, sha256=hashlib.sha256(mended.text).hexdigest(), reason=reason),
        *(Damaged(file=f"{TASKS}/{call.key}/{RESULT}", reason=f"{call} is called again") for call in stale),
    ])  # fmt: skip
    kept = directory.path / "aside" / f"workflow-{sha256(file)[:8]}.py"
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(file.read_bytes())
    replace_file(file, mended.text, sync=True)
    loading.adopt(file, mended.workflow)
    trust.trust(file)


def _stale(state: State, changed: frozenset[str]) -> list[Call]:
    """Calls of tasks that are others now, and calls that were given what these made."""
    found = dict[str, Call]()
    for key, call in state.calls.items():  # in the order in which they were made
        if call.called.task in changed or not found.keys().isdisjoint(call.called.needs):
            found[key] = call
    return list(found.values())


def _holds(file: Path, data: bytes) -> bool:
    return file.is_file() and file.read_bytes() == data
