"""A run describes itself as a Process Run Crate; read back with the rocrate package."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]

from steersman.engine.crate import PROFILE
from steersman.engine.run_directory import RunDirectory
from steersman.engine.state import State

from .conftest import completed

pytestmark = pytest.mark.slow
Described = tuple[RunDirectory, State, Any]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Described:
    cwd = tmp_path_factory.mktemp("described")
    directory, state, _ = completed("double_well", "--set", "frames=600", "--seed", 2, cwd=cwd, code=None)
    return directory, state, ROCrate(directory.path)


def test_it_is_a_process_run_crate(described: Described) -> None:
    """What the profile says that a crate MUST: conformsTo, and an action whose instrument is an application."""
    _, _, crate = described
    assert crate.root_dataset["conformsTo"].id == PROFILE
    assert crate.dereference(PROFILE).type == "CreativeWork"
    assert crate.metadata["conformsTo"] == "https://w3id.org/ro/crate/1.1"
    assert crate.root_dataset["name"]
    assert crate.root_dataset["datePublished"]
    assert crate.root_dataset["license"]["description"]
    (action,) = crate.get_by_type("CreateAction")
    assert crate.root_dataset["mentions"] == [action] or crate.root_dataset["mentions"] == action
    assert action["instrument"].id == "workflow.py"
    assert "SoftwareSourceCode" in action["instrument"].type
    assert action["agent"].type == "Person"


def test_it_tells_parameters_results_times_and_environment(described: Described) -> None:
    directory, state, crate = described
    (action,) = crate.get_by_type("CreateAction")
    given = {each["name"]: each["value"] for each in action["object"]}
    assert given == {"seed": 2, "rounds": False, **directory.settings()["params"]}
    began, ended = (datetime.fromisoformat(action[key]) for key in ("startTime", "endTime"))
    assert began.timestamp() == pytest.approx(state.sessions[0]["t"], abs=1)
    assert state.end is not None
    assert ended.timestamp() == pytest.approx(state.end["t"], abs=1)
    assert action["actionStatus"] == "http://schema.org/CompletedActionStatus"
    results = {each.id for each in action["result"]}
    assert {"frames.zarr/", "models/", "report.html"} <= results
    assert all((directory.path / name).exists() for name in results)
    environment = {each["name"]: each["value"] for each in action["environment"]}
    assert {"python", "numpy", "torch", "git_commit"} <= set(environment)


def test_nothing_hangs_in_the_air(described: Described) -> None:
    """Every entity that is referred to is there, and every file that is described exists."""
    directory, _, crate = described
    known = {entity.id for entity in crate.get_entities()}
    for entity in crate.get_entities():
        for value in entity.properties().values():
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict) and "@id" in each and not each["@id"].startswith("http"):
                    assert each["@id"] in known
    for entity in crate.data_entities:
        assert (Path(directory.path) / entity.id).exists()
