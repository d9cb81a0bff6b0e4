"""A workflow file that a person mended -> that of a run which has been going, or is over, if its loop is the same.

So what comes after the loop, a figure or a yardstick can be put right without simulating again.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
from steersman.system.errors import BadInput
from steersman.system.files import replace_file, sync_tree


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

    Raises: BadInput: a simulation, a training or a decision would not be what it was. BadWorkflow.
    """
    workflow, text = loading.load(source), source.read_bytes()
    others = modules.differing(source, directory.modules)
    begun = next(journal.read(directory.journal, Start, Prepared), None)
    may = MAY_DIFFER if begun else MAY_DIFFER | {"before", "prepare"}
    loop, changed = differing(directory.workflow.read_bytes(), text, others, may)
    if loop:
        raise BadInput(
            "{path} holds another run: its file and {source} differ in {differs}. A run goes on with a file in which "
            "only functions under @wf.task, after, yardstick, figure or panel differ, and the functions and modules "
            "beside it that these alone use; until a start is prepared, before and prepare, too. For another loop "
            "start a new run",
            path=directory.path, source=source, differs=", ".join(sorted(loop)),
        )  # fmt: skip
    if text == directory.workflow.read_bytes() and not others:
        loading.adopt(directory.workflow, workflow)
        return None
    return Mended(workflow, text, modules.beside(source), frozenset(changed | others))


def take(mended: Mended, directory: RunDirectory, recorder: Recorder) -> None:
    """Give a run its workflow file, and have the calls made again whose task is another now.

    The journal's records are what counts. Before them the files lie ready; behind them `settle` puts them into their
    places, also when who did this was killed.
    """
    file, new = directory.workflow, f", with new {', '.join(sorted(mended.changed))}" if mended.changed else ""
    reason = f"{who()} continues the run with another {file.name}{new}"
    known, stale = recorder.state.run.files, _stale(recorder.state, mended.changed)
    files = {Path(file.name): mended.text} | {Path(modules.FOLDER, name): data for name, data in mended.modules.items()}
    digests = {str(name): hashlib.sha256(data).hexdigest() for name, data in files.items()}
    gone = [name for name in known if name.startswith(f"{modules.FOLDER}/") and name not in digests]
    _keep(directory, known)
    shutil.rmtree(directory.ready, ignore_errors=True)
    for name, data in files.items():
        (directory.ready / name).parent.mkdir(parents=True, exist_ok=True)
        replace_file(directory.ready / name, data)
    sync_tree(directory.ready)
    recorder.record_all([
        Damaged(file=file.name, sha256=digests[file.name], reason=reason),
        *(
            Damaged(file=name, sha256=digest, reason=f"{name} is another")
            for name, digest in digests.items()
            if name != file.name and known.get(name) != digest
        ),
        *(Damaged(file=name, reason=f"{name} is not imported any more") for name in gone),
        *(Damaged(file=f"{TASKS}/{call.key}/{RESULT}", reason=f"{call} is called again") for call in stale),
    ])  # fmt: skip
    recorder.journal.sync()
    settle(directory, recorder.state)
    loading.adopt(file, mended.workflow)
    trust.trust(file)


def settle(directory: RunDirectory, state: State) -> None:
    """Put the files that lie ready into their places, as far as the journal has them."""
    ready = {path.relative_to(directory.ready): path for path in directory.ready.rglob("*") if path.is_file()}
    files = {name: directory.read(path, path.stat().st_size) for name, path in ready.items()}
    for name, data in files.items():
        if state.run.files.get(str(name)) == hashlib.sha256(data).hexdigest():
            (directory.path / name).parent.mkdir(parents=True, exist_ok=True)
            replace_file(directory.path / name, data, sync=True)
    if state.run.files.get(directory.workflow.name) == sha256(directory.workflow):
        for path in [path for path in directory.modules.rglob("*") if path.is_file() and not path.is_symlink()]:
            if path.name != "__pycache__" and str(path.relative_to(directory.path)) not in state.run.files:
                path.unlink()  # `aside/` has it
        modules.close(directory.modules)
    shutil.rmtree(directory.ready)


def _keep(directory: RunDirectory, known: Mapping[str, str]) -> None:
    """Copy the file and its modules to `aside/`, where each version has a folder of its own."""
    code = sorted(f"{name} {digest}" for name, digest in known.items() if name.startswith(directory.modules.name))
    aside = directory.path / "aside" / f"workflow-{hashlib.sha256(''.join(code).encode()).hexdigest()[:8]}"
    shutil.rmtree(aside, ignore_errors=True)  # the same, or a part of it
    aside.mkdir(parents=True)
    shutil.copyfile(directory.workflow, aside / directory.workflow.name)
    shutil.copytree(directory.modules, aside / modules.FOLDER, symlinks=True)


def _stale(state: State, changed: frozenset[str]) -> list[Call]:
    """Calls of tasks that are others now, and calls that were given what these made."""
    stale = dict[str, Call]()
    for key, call in state.calls.items():  # in the order in which they were made
        if call.called.task in changed or not stale.keys().isdisjoint(call.called.needs):
            stale[key] = call
    return list(stale.values())
