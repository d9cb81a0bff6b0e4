"""Who scores: the training workers, or an executor of its own; and which executors a workflow uses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor

from steersman.executors.allocation import Allocation, settled
from steersman.executors.errors import BadSite
from steersman.executors.globus import Endpoint
from steersman.executors.launcher import words
from steersman.executors.parsl_config import parsl_config, providers, submit_scripts
from steersman.executors.preflight import findings
from steersman.executors.site import Site
from steersman.executors.site_files import checked, load_site
from steersman.executors.threads import Threads
from tests.executors.globus_service import ENDPOINT

ON_A_NODE = {"nodes": 1, "workers": 1, "walltime_s": 600}


def site(**given: Any) -> Site:
    return Site.model_validate({"name": "m", "interface": "lo"} | given)


@pytest.mark.parametrize(
    ("scoring", "stages", "executors"),
    [
        (None, ["simulation", "training", "scoring"], ["simulation", "training"]),
        (None, ["simulation", "scoring"], ["simulation", "training"]),
        (None, ["simulation"], ["simulation"]),
        ({}, ["simulation", "training", "scoring"], ["simulation", "training", "scoring"]),
        ({}, ["simulation", "scoring"], ["simulation", "scoring"]),
        ({"threads": 1}, ["simulation"], ["simulation"]),
    ],
)
def test_executors_that_a_workflow_does_not_use_are_not_started(
    scoring: dict[str, Any] | None, stages: list[str], executors: list[str], tmp_path: Path
) -> None:
    used = site(scoring=scoring).serving(stages)
    assert [executor.label for executor in parsl_config(used, tmp_path).executors] == executors
    assert Site.model_validate(used.model_dump(mode="json")) == site(scoring=scoring), "what a run keeps is the file's"


@pytest.mark.parametrize(
    ("rounds", "given", "workers"),
    [
        (True, {}, 1),
        (False, {}, 2),
        (True, {"training": {"workers": 3}}, 1),
        (True, {"training": {"workers": 3}, "scoring": {}}, 3),
    ],
)
def test_in_rounds_one_worker_trains_and_scores(
    rounds: bool, given: dict[str, Any], workers: int, tmp_path: Path
) -> None:
    """Each of several would import torch, though the one that trains waits for the one that scores."""
    used = site(**given).serving(["simulation", "training", "scoring"], one_worker=rounds)
    learns = next(each for each in parsl_config(used, tmp_path).executors if each.label == "training")
    assert learns.max_workers_per_node == workers
    assert used.model_dump(mode="json") == site(**given).model_dump(mode="json"), "what a run keeps is the file's"


def test_scoring_runs_on_workers_on_an_endpoint_or_in_threads(tmp_path: Path) -> None:
    def kind(**scoring: Any) -> Any:
        return parsl_config(site(scoring=scoring), tmp_path).executors[-1]

    workers = kind(workers=2, gpus=2, affinity="block")
    assert isinstance(workers, HighThroughputExecutor)
    assert workers.max_workers_per_node == 2
    assert workers.launch_cmd.startswith("env STEERSMAN_GPUS='0 1' steersman-steady ")
    threads = kind(threads=3)
    assert isinstance(threads, ThreadPoolExecutor)
    assert threads.max_threads == 3
    assert site(scoring={"globus": ENDPOINT}).executors["scoring"] == Endpoint(globus=ENDPOINT)


@pytest.mark.parametrize(
    ("scoring", "key"),
    [
        ({"threads": 1, "workers": 2}, "scoring.workers: there is none with `threads`"),
        ({"threads": 1, "affinity": "block"}, "scoring.affinity: there is none with `threads`"),
        ({"threads": 1, "globus": str(ENDPOINT)}, "scoring.threads: there is none with `globus`"),
        ({"globus": str(ENDPOINT), "nodes": 1}, "scoring.nodes: there is none with `globus`"),
        ({"nodes": 2, "workers": 1, "walltime_s": 60}, "scoring.nodes = 2: "),
        ({"scratch": "/tmp"}, "there is no key 'scoring.scratch'"),
        ({"mpi": {"nodes": 2}}, "there is no key 'scoring.mpi'"),
    ],
)
def test_what_scoring_has_no_use_for_is_refused(scoring: dict[str, Any], key: str) -> None:
    """Each of the types that may score has its own keys."""
    with pytest.raises(BadSite) as refused:
        checked("mine", {"name": "m", "scoring": scoring, "slurm": {}})
    assert refused.value.problem.startswith(key)


def test_a_run_of_an_earlier_version_wrote_down_the_keys_of_all_types() -> None:
    said = {"gpus": 0, "affinity": "none", "scratch": "", "mpi": None, "nodes": 0, "blocks": 1, "walltime_s": None}
    both = {"globus": None, "threads": 0}
    assert site(scoring=said | both | {"workers": 1}) == site(scoring={})
    assert site(scoring=said | both | {"workers": 1, "threads": 2}) == site(scoring={"threads": 2})
    far = said | {"workers": 2, "globus": str(ENDPOINT)}
    assert site(training=far) == site(training={"globus": ENDPOINT})


def test_a_key_that_is_none_of_its_section_is_told_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("scoring: {thread: 1}\n")
    with pytest.raises(BadSite, match=r"'scoring\.thread'.*'threads'"):
        load_site(str(tmp_path / "mine.yaml"))


@pytest.mark.slow
def test_what_would_run_where_is_what_the_workflow_needs() -> None:
    def where(stages: list[str], **given: Any) -> dict[str, str]:
        found = {each.what: each.found for each in findings(site(**given).serving(stages))}
        return {what: found[what] for what in found if set(what.split(", ")) <= {"simulation", "training", "scoring"}}

    assert list(where(["simulation"])) == ["simulation"]
    assert list(where(["simulation", "scoring"])) == ["simulation", "scoring"], "and nothing that trains"
    assert list(where(["simulation", "training", "scoring"])) == ["simulation", "training, scoring"]
    own = where(["simulation", "training", "scoring"], scoring={"threads": 1})
    assert list(own) == ["simulation", "training", "scoring"]
    assert own["scoring"].startswith("in a thread of the driver")


def test_node_hours_are_those_of_what_is_used() -> None:
    asked = site(simulation=ON_A_NODE, training=ON_A_NODE, scoring=ON_A_NODE, slurm={})
    told = {each.what: each.found for each in findings(asked.serving(["simulation", "scoring"]))}
    assert told["node hours"].startswith("2 nodes; 0.333 for each round of blocks")
    assert set(submit_scripts(asked)) == {"simulation", "training", "scoring"}


def test_three_executors_share_an_allocation_by_nodes() -> None:
    """The first nodes train, the next one scores, walkers have the rest."""
    walkers = ON_A_NODE | {"nodes": 4}
    shared = site(together=True, simulation=walkers, training=ON_A_NODE | {"nodes": 2}, scoring=ON_A_NODE, slurm={})
    assert [shared.first_node(role) for role in ("training", "scoring", "simulation")] == [0, 2, 3]
    assert "--relative=2 --nodes=1" in words(shared, "scoring")
    (script,) = submit_scripts(shared).values()
    assert "#SBATCH --nodes=7" in script
    assert "for role in simulation training scoring; do" in script
    in_threads = shared.model_copy(update={"scoring": Threads(threads=1)})
    assert set(providers(in_threads)) == {"simulation", "training"}
    assert in_threads.first_node("simulation") == 2
    alone = shared.serving(["simulation"])
    assert (alone.shares, alone.first_node("simulation")) == (False, 0)


def test_nodes_of_a_job_that_score_do_not_simulate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steersman.executors.allocation.allocation", lambda: Allocation(4, None))
    inside = site(inside=True, training={"nodes": 1, "workers": 1}, scoring={"nodes": 1})
    assert settled(inside).simulation.nodes == 2
    assert settled(inside.serving(["simulation"])).simulation.nodes == 4, "nobody trains or scores"


def test_a_walltime_from_the_command_line_is_that_of_all_blocks() -> None:
    def limits(name: str) -> list[float | None]:
        changed = load_site(name, {"walltime_s": 90.0})
        return [executor.walltime_s for executor in changed.workers.values()]

    assert limits("polaris") == [90.0, 90.0]
    assert limits("slurm") == [90.0, 90.0]
    assert limits("laptop") == [90.0, None, None], "others have no blocks there"
