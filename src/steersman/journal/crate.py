"""A run directory -> ro-crate-metadata.json: what was run, by whom, on what, from when to when, and what came of it.

It follows the Process Run Crate profile 0.5, https://w3id.org/ro/wfrun/process/0.5, and passes what roc-validator 0.13
requires of it. The licence is for the owner of the data to choose; until then the crate says that there is none.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

from steersman.journal.run_directory import LEARNED, UNKNOWN, RunDirectory
from steersman.journal.state import State
from steersman.system.files import replace_file

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
TERMS = "https://w3id.org/ro/terms/workflow-run/context"
DONE, FAILED = "http://schema.org/CompletedActionStatus", "http://schema.org/FailedActionStatus"
RESULTS = (
    ("frames.zarr", "", "frames of the simulations, Zarr groups of one walker or of several"),
    ("topology.pdb", "chemical/x-pdb", "atoms and bonds of the frames, and the prepared start"),
    ("scores.zarr", "", "scores of the frames, a Zarr group for each model"),
    *((folder, "", what) for folder, what in LEARNED.items()),
    ("journal.jsonl", "application/jsonl", "everything that happened, record after record"),
    ("decisions.jsonl", "application/jsonl", "every choice of a start with the alternatives"),
    ("report.html", "text/html", "report of the run"),
)
OTHERWISE = ("workflow", "source", "site", "params")  # settings that are no parameters of the action, or several
NO_LICENCE = "The owner of the data has not chosen a licence yet; until then all rights are reserved."


def write_crate(directory: RunDirectory, state: State) -> None:
    """Describe a run that has ended, beside its files."""
    from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]  # half a second to import

    assert state.end is not None
    settings = directory.settings()
    try:
        environment = directory.environment()
    except ValueError:  # damaged, as `verify` says
        environment = UNKNOWN
    name = f"{settings['workflow']} in {directory.path.name}"
    crate = ROCrate(version="1.1")
    crate.metadata.extra_contexts.append(TERMS)
    crate.name, crate.description = name, f"A run of the Steersman workflow {settings['workflow']}"
    crate.datePublished = _time(state.end.t)
    profile = _entity(crate, PROFILE, "CreativeWork", name="Process Run Crate", version="0.5")
    crate.root_dataset["conformsTo"] = profile
    crate.root_dataset["license"] = _entity(
        crate, "#licence", "CreativeWork", name="no licence yet", description=NO_LICENCE
    )
    engine = _entity(
        crate,
        "#steersman",
        "SoftwareApplication",
        name="Steersman",
        softwareVersion=environment["packages"].get("steersman") or "unknown",
    )
    workflow = crate.add_file(
        directory.workflow, dest_path="workflow.py",
        properties={"@type": ["File", "SoftwareSourceCode"], "name": settings["workflow"],
                    "encodingFormat": "text/x-python", "version": _digest(directory.workflow)},
    )  # fmt: skip
    workflow["softwareRequirements"] = engine
    given = {key: each for key, each in settings.items() if key not in OTHERWISE} | settings["params"]
    action = crate.add_action(
        workflow,
        "#run",
        object=[_value(crate, f"#parameter/{key}", key, value) for key, value in given.items()],
        result=[_data(crate, directory, *each) for each in RESULTS if (directory.path / each[0]).exists()],
        properties={
            "name": f"{name}: {state.end.reason}",
            "description": f"{state.ended.total()} segments of {state.run.slots} walkers, {state.frames} frames",
            "startTime": _time(state.sessions[0].t),
            "endTime": _time(state.end.t),
            "actionStatus": {"@id": DONE if state.finished else FAILED},
        },
    )
    if not state.finished:
        action["error"] = state.end.reason
    user = environment["user"] or "unknown"
    action["agent"] = crate.root_dataset["author"] = _entity(crate, f"#{user}", "Person", name=user)
    facts = {key: environment[key] for key in ("python", "platform", "processors", "git_commit")}
    installed = {**facts, **environment["packages"]}
    action["environment"] = [
        _value(crate, f"#environment/{key}", key, value) for key, value in installed.items() if value is not None
    ]
    crate.root_dataset["mentions"] = action
    replace_file(directory.crate, json.dumps(crate.metadata.generate(), indent=1))


def _entity(crate: Any, identifier: str, kind: str, **properties: Any) -> Any:
    from rocrate.model.contextentity import ContextEntity  # type: ignore[import-untyped]

    return crate.add(ContextEntity(crate, identifier, properties={"@type": kind, **properties}))


def _value(crate: Any, identifier: str, name: str, value: Any) -> Any:
    plain = value if isinstance(value, (bool, int, float, str)) else json.dumps(value)
    return _entity(crate, identifier, "PropertyValue", name=name, value=plain)


def _data(crate: Any, directory: RunDirectory, file: str, encoding: str, what: str) -> Any:
    path = directory.path / file
    if path.is_dir():
        return crate.add_dataset(path, dest_path=f"{file}/", properties={"name": what})
    return crate.add_file(path, dest_path=file, properties={"name": what, "encodingFormat": encoding})


def _digest(file: Path) -> str:
    """The version of a file that has no other: its content."""
    return f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"


def _time(t: float) -> str:
    return datetime.datetime.fromtimestamp(t, tz=datetime.UTC).isoformat(timespec="seconds")
