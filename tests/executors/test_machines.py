"""The shipped files of machines: what they ask for, and what `check` says of it; no machine is asked."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from steersman.executors.errors import BadSite
from steersman.executors.launcher import enough
from steersman.executors.parsl_config import submit_scripts
from steersman.executors.preflight import findings
from steersman.executors.registration import ENDED
from steersman.executors.schedulers.registry import SCHEDULERS
from steersman.executors.site import SHIPPED, Site
from steersman.executors.site_files import changed, load_site
from steersman.executors.values import seconds
from steersman.executors.workers import Walkers
from tests.executors.conftest import Commands

MACHINES = (
    "aurora",
    "crux",
    "daint",
    "delta",
    "frontier",
    "juwels",
    "leonardo",
    "lumi",
    "perlmutter",
    "polaris",
    "vista",
)
GENERIC = tuple(sorted(SCHEDULERS))
NODES = {"nodes": 2, "workers": 4, "walltime_s": 600}


def site(**more: Any) -> Site:
    return changed("m", {"name": "m", "slurm": {}, "simulation": NODES} | more, {})


@pytest.mark.parametrize("name", [*MACHINES, *GENERIC])
def test_nothing_computes_where_the_driver_runs(name: str) -> None:
    """Login nodes end what computes: training has a node, in the same job unless the file says why not."""
    loaded = load_site(name)
    assert all(wanted.nodes for wanted in loaded.workers.values())
    assert len(submit_scripts(loaded)) == (1 if loaded.together else 2)


@pytest.mark.parametrize("name", MACHINES)
def test_a_machines_file_names_its_source_and_when_it_was_read(name: str) -> None:
    head = "".join(line for line in (SHIPPED / f"{name}.yaml").read_text().splitlines() if line.startswith("#"))
    assert "2026-11-2" in head
    assert "Not yet run there" in head or "not yet run there" in head


@pytest.mark.parametrize("name", [*MACHINES, *GENERIC])
def test_walkers_of_a_node_share_no_core(name: str) -> None:
    """Not even by its second thread, whose number is that of the first and half of all."""
    walkers = load_site(name).simulation
    if not walkers.affinity.startswith("list:"):
        return
    each = [
        {core for part in cores.split(",") for low, _, high in [part.partition("-")]
         for core in range(int(low), int(high or low) + 1)}
        for cores in walkers.affinity.removeprefix("list:").split(":")
    ]  # fmt: skip
    assert len(each) == walkers.workers
    assert sum(map(len, each)) == len(set.union(*each))
    half = {"aurora": 104, "crux": 128, "perlmutter": 64, "polaris": 32}.get(name)
    if half:
        assert all({core % half for core in mine} == {core for core in mine if core < half} for mine in each)


@pytest.mark.parametrize(
    ("name", "changes", "wrong"),
    [
        ("aurora", {"queue": "debug"}, ""),
        ("aurora", {"queue": "prod"}, "prod: 1 nodes, but its limits are 256 to 10624"),
        ("aurora", {"queue": "prod", "simulation.nodes": 256}, ""),
        (
            "polaris",
            {"queue": "prod", "walltime_s": "30h"},
            "1 nodes, but its limits are 10 to 496; 30 h, but its limit is 3 h",
        ),
        ("polaris", {"queue": "prod", "walltime_s": "6h", "simulation.nodes": 25}, ""),
        ("frontier", {"walltime_s": "12h", "simulation.nodes": 183}, "12 h, but its limit is 6 h"),
        ("frontier", {"walltime_s": "12h", "simulation.nodes": 184}, ""),
        ("frontier", {"queue": "debug"}, ""),
        (
            "frontier",
            {"queue": "debug", "simulation.blocks": 2},
            "2 jobs, but its limit is 1 for a user",
        ),
        ("crux", {"queue": "debug", "simulation.nodes": 7}, ""),
        ("daint", {"queue": "debug"}, ""),
        ("vista", {"queue": "nowhere"}, None),
    ],
)
def test_what_a_job_asks_for_is_held_against_its_queue(
    name: str, changes: Mapping[str, Any], wrong: str | None, commands: Commands
) -> None:
    found = [each for each in findings(load_site(name, changes)) if each.what.startswith("queue of ")]
    if wrong is None:
        assert found == [], "nothing is known of it"
        return
    (finding,) = found
    assert finding.ok == (not wrong)
    assert wrong in finding.found


def test_an_executor_asks_for_a_partition_an_account_and_gpus_of_its_own() -> None:
    asks = {"partition": "gpu", "account": "lab_g", "options": ["--gpus-per-node=4"]}
    made = site(slurm={"partition": "cpu", "account": "lab"}, training=NODES | {"workers": 1, "asks": asks})
    scripts = {role: script.splitlines() for role, script in submit_scripts(made).items()}
    assert {"#SBATCH --partition=cpu", "#SBATCH --account=lab"} <= set(scripts["simulation"])
    own = {"#SBATCH --partition=gpu", "#SBATCH --account=lab_g", "#SBATCH --gpus-per-node=4"}
    assert own <= set(scripts["training"])
    assert not own & set(scripts["simulation"])
    assert Site.model_validate(made.model_dump(mode="json")) == made


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ({"training": NODES | {"asks": {"partion": "gpu"}}}, "training.asks: Slurm has no key 'partion'"),
        ({"training": NODES | {"asks": {"partition": "a b"}}}, "training.asks: partition = 'a b'"),
        ({"training": {"asks": {"partition": "gpu"}}}, "training.asks: this needs a scheduler"),
        (
            {"together": True, "training": NODES | {"asks": {"partition": "gpu"}}},
            "training.asks: this needs a scheduler and `nodes`",
        ),
    ],
)
def test_what_an_executor_cannot_ask_for_is_refused(more: dict[str, Any], key: str) -> None:
    with pytest.raises(BadSite) as caught:
        site(**more)
    assert key in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("02:00:00", 7200), ("1-12:00:00", 129600)],
)
def test_times_are_read_alike_everywhere(text: str, value: float) -> None:
    assert seconds(text) == value
    made = site(simulation=NODES | {"walltime_s": text}, margin_s="1m", starts_s="10m", lease_s="20s")
    assert (made.simulation.walltime_s, made.margin_s, made.starts_s, made.lease_s) == (value, 60, 600, 20)
    with pytest.raises(ValueError, match="2h"):
        seconds(f"{text} or so")


def test_nodes_that_are_shared_are_asked_for_a_cpu_for_each_worker_and_keep_the_environment() -> None:
    """Else four workers have one, and after `--export=NONE` none of what `worker_init` sets."""
    shared = submit_scripts(site(slurm={"exclusive": False}))["simulation"].splitlines()
    assert "#SBATCH --cpus-per-task=4" in shared
    assert "#SBATCH --exclusive" not in shared
    asked = submit_scripts(site(slurm={"cpus": 56}))["simulation"].splitlines()
    assert "#SBATCH --cpus-per-task=56" in asked
    assert asked.index("export SLURM_EXPORT_ENV=ALL") < next(
        n for n, line in enumerate(asked) if line.startswith("srun")
    )
    assert "--cpus-per-task" not in submit_scripts(site())["simulation"]


def test_workers_bound_to_more_cores_than_a_job_sees_do_not_start() -> None:
    """They would crash and be started again for ever."""
    line = enough(Walkers(nodes=1, workers=100_000, affinity="block"))
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "100000 workers" in done.stderr
    assert (
        subprocess.run(["bash", "-c", enough(Walkers(nodes=1, workers=1, affinity="block"))], check=True).returncode
        == 0
    )
    assert enough(Walkers(nodes=1, workers=100_000)) == ""


def test_a_node_says_that_its_workers_did_not_end_well() -> None:
    """The very words that registration.py looks for."""
    script = submit_scripts(site())["simulation"]
    lines = script.split("<<'EOF'\n")[1].split("\nEOF\n")[0].splitlines()
    ran = "\n".join(["false", *lines[-1:]])
    done = subprocess.run(["bash", "-c", ran], capture_output=True, text=True, check=False)
    node = subprocess.run(["uname", "-n"], capture_output=True, text=True, check=True).stdout.strip()
    found = ENDED.search(f"some words\n2: {done.stderr}")
    assert found is not None
    assert (found["label"], found["node"], done.returncode) == ("2: ", node, 1)


@pytest.mark.parametrize("name", [*MACHINES, *GENERIC])
def test_in_a_job_a_machine_keeps_what_its_nodes_are_and_asks_for_nothing(name: str) -> None:
    usual, inside = load_site(name), load_site(name, {"inside": True})
    assert (inside.scheduler, inside.needs, inside.simulation.nodes) == (None, (), 0)
    assert inside.training.nodes == usual.training.nodes  # type: ignore[union-attr]
    kept = ("interface", "launcher", "worker_init", "margin_s", "node")
    assert [getattr(inside, key) for key in kept] == [getattr(usual, key) for key in kept]
    for key in ("workers", "gpus", "affinity", "scratch"):
        assert getattr(inside.simulation, key) == getattr(usual.simulation, key)
    assert submit_scripts(inside) == {}


@pytest.mark.parametrize("ports", [[50000, 50100], [50000, 50004], [80, 90], [50100, 50000]])
def test_a_range_of_ports_is_kept_or_refused(ports: list[int]) -> None:
    if ports == [50000, 50100]:
        assert site(ports=ports, tunnel="10.0.0.1").ports == (50000, 50100)
        for wrong in ({"tunnel": "10.0.0.1"}, {"ports": ports, "tunnel": "$(gateway)"}):
            with pytest.raises(BadSite):
                site(**wrong)
        return
    with pytest.raises(BadSite):
        site(ports=ports)
