"""Site files: what is shipped is valid, what a user writes is checked, and Parsl gets what was asked for."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steersman.cli.__main__ import app
from steersman.executors import preflight
from steersman.executors.errors import BadSite
from steersman.executors.launcher import BINARIES, SHORT_TMPDIR
from steersman.executors.network import driver_address
from steersman.executors.parsl_config import parsl_config, submit_scripts
from steersman.executors.place import changes
from steersman.executors.preflight import findings, ready
from steersman.executors.schedulers import commands as asking
from steersman.executors.schedulers.slurm import Slurm
from steersman.executors.site import Site, sites
from steersman.executors.site_files import changed, load_site
from steersman.executors.workers import Trainers, Walkers
from steersman.worker import tasks


@pytest.mark.parametrize("name", sites())
def test_a_shipped_site_is_valid_and_has_the_name_of_its_file(name: str) -> None:
    assert load_site(name).name == name


def test_a_site_of_the_user_has_a_name_and_wins_over_a_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "steersman" / "sites"
    folder.mkdir(parents=True)
    for name in ("mine", "laptop"):
        (folder / f"{name}.yaml").write_text("simulation: {workers: 3}")
    (folder / "broken.yaml").write_text("simulaton: {}")  # codespell:ignore
    assert {load_site(name).simulation.workers for name in ("mine", "laptop")} == {3}
    listed = json.loads(CliRunner().invoke(app, ["sites", "--json"]).stdout)
    assert listed["mine"]["simulation"]["workers"] == 3
    assert "simulaton" in listed["broken"]["problem"], "it does not hide the others"  # codespell:ignore
    assert listed["slurm"]["slurm"]


def test_the_site_of_the_environment_is_used_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEERSMAN_SITE", "nowhere")
    done = CliRunner().invoke(app, ["check", "double_well"])
    assert isinstance(done.exception, BadSite)
    assert done.exception.site == "nowhere"
    assert "STEERSMAN_SITE" in str(done.exception), "who is not named is looked for in vain"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5h", 5400), ("02:00:00", 7200), ("48:00:30", 172830), ("1-12:00:00", 129600)]
)
def test_a_walltime_is_written_as_people_and_schedulers_write_it(text: str, seconds: float) -> None:
    assert changes({"walltime": text}) == {"walltime_s": seconds}


@pytest.mark.parametrize(("nodes", "servers", "lease_s"), [(1, 1, 15.0), (100, 1, 19.2), (1000, 5, 192.0)])
def test_servers_and_leases_follow_the_walkers(nodes: int, servers: int, lease_s: float) -> None:
    """Where the site's file does not say them."""
    blocks = {"nodes": nodes, "workers": 32, "walltime_s": 600}
    many = Site.model_validate({"name": "ours", "slurm": {}, "simulation": blocks})
    assert (many.servers, many.lease) == (servers, lease_s)
    said = many.model_copy(update={"bus_servers": 2, "lease_s": 20.0})
    assert (said.servers, said.lease) == (2, 20.0)


def test_a_site_that_was_checked_can_be_changed_again() -> None:
    """As `resume --walltime` does: only executors that have blocks get the time."""
    site = load_site("slurm", {"simulation.nodes": 2, "account": "me"})
    again = changed("slurm", site.model_dump(mode="json"), {"walltime_s": 60.5, "queue": "debug"})
    assert again.simulation.walltime_s == 60.5
    assert isinstance(again.scheduler, Slurm)
    assert (again.scheduler.partition, again.scheduler.account) == ("debug", "me")
    plain = changed("laptop", load_site("laptop").model_dump(mode="json"), {"walltime_s": 60.5})
    assert isinstance(plain.training, Trainers)
    assert (plain.simulation.walltime_s, plain.training.walltime_s) == (60.5, None)


def test_the_workers_of_aurora_have_a_tile_and_cores_of_their_own() -> None:
    simulation = load_site("aurora").simulation
    groups = simulation.affinity.removeprefix("list:").split(":")
    cores = [core for group in groups for part in group.split(",") for core in _range(part)]
    assert len(groups) == len(set(simulation.gpu_names)) == simulation.workers
    assert len(set(cores)) == len(cores) == 12 * 16
    assert not {0, 52, 104, 156} & set(cores), "reserved for the system"


def _range(part: str) -> range:
    first, last = map(int, part.split("-"))
    return range(first, last + 1)


@pytest.mark.parametrize(("name", "word"), [("perlmutter", "qos"), ("slurm", "partition"), ("polaris", "queue")])
def test_the_queue_of_the_command_line_is_what_the_scheduler_calls_one(name: str, word: str) -> None:
    asked = load_site(name, {"queue": "quick", "account": "lab"}).scheduler
    assert asked is not None
    assert (getattr(asked, word), asked.account, asked.queue_asked) == ("quick", "lab", "quick")


def test_a_queue_means_nothing_without_a_scheduler() -> None:
    with pytest.raises(BadSite, match="--queue"):
        load_site("laptop", {"queue": "debug"})


def test_what_a_site_needs_is_asked_for_before_anything_else() -> None:
    with pytest.raises(BadSite, match="--account and --queue"):
        ready(load_site("polaris"))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"simulation.gpus": 5}, "gpus = 5, but a node has 4"),
        ({"simulation.workers": 40, "simulation.gpus": 0}, "workers = 40, but a node has 32 cores"),
        ({"simulation.gpus": 0, "simulation.mps": True}, "mps: walkers share GPUs by it, so name `gpus`"),
        ({"slurm": {}}, "one of .*slurm.* can be named"),
        ({"lease_s": math.inf}, "lease_s"),
        ({"begins_s": math.nan}, "begins_s"),
    ],
)
def test_what_a_node_does_not_have_is_refused(changes: dict[str, object], told: str) -> None:
    with pytest.raises(BadSite, match=told):
        load_site("polaris", changes)


def test_a_site_is_looked_at_where_its_scheduler_is_not() -> None:
    """What is missing is named, and what would be submitted is shown."""
    found = {finding.what: finding for finding in findings(load_site("polaris", {"account": "lab", "queue": "debug"}))}
    assert not found["scheduler"].ok
    assert "qsub, qstat, qdel" in found["scheduler"].found
    assert "#PBS -l select=1:ncpus=64:ngpus=4:system=polaris" in found["script of simulation and training"].found
    assert "1 nodes; 1" in found["node hours"].found
    assert "2 workers, 2 GPUs" in found["training, scoring, labelling"].found


@pytest.mark.parametrize("line", ["module load nowhere", "source /nowhere/bin/activate", "exit 3"])
def test_an_environment_line_is_tried(line: str) -> None:
    site = Site(name="m", worker_init=line)
    found = next(finding for finding in findings(site) if finding.what == "worker_init")
    assert not found.ok, found


def test_the_laptop_has_one_slot_for_each_core() -> None:
    assert load_site("laptop").simulation.count == len(os.sched_getaffinity(0))


def test_workers_from_the_command_line_replace_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("simulation: {workers: 3, gpus: 8}\n")
    assert load_site(str(path)).simulation.count == 3
    changed = load_site(str(path), {"simulation.workers": 5}).simulation
    assert (changed.count, changed.gpus) == (5, 8)


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("")
    assert load_site(str(tmp_path / "mine.yaml")) == Site(name="mine")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSite, match=r"gone\.yaml: .*No such"):
        load_site(str(tmp_path / "gone.yaml"))


def test_parsl_gets_the_workers_the_gpus_and_one_thread_each(tmp_path: Path) -> None:
    site = Site.model_validate({"name": "m", "simulation": {"workers": 2, "gpus": 2}, "worker_init": "module load x"})
    executors = {executor.label: executor for executor in parsl_config(site, tmp_path).executors}
    assert executors["simulation"].max_workers_per_node == 2
    assert executors["simulation"].launch_cmd.startswith("env STEERSMAN_GPUS='0 1' steersman-steady ")
    assert "STEERSMAN_GPUS" not in executors["training"].launch_cmd
    assert executors["training"].max_workers_per_node == 2
    started = executors["simulation"].provider.worker_init
    assert "OMP_NUM_THREADS=1" in started
    assert "module load x" in started


@pytest.mark.parametrize(
    ("workers", "gpus", "each"),
    [
        (16, 4, "0000111122223333"),
        (6, 4, "001223"),
        (2, 4, "01"),
        (3, ["MIG-a", "MIG-b"], ("MIG-a", "MIG-a", "MIG-b")),
        (2, 0, ""),
    ],
)
def test_walkers_share_the_gpus_of_a_node_evenly(
    workers: int, gpus: object, each: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker of each rank sees, and what `check` says; a GPU that is shared is held once."""
    wanted = {"workers": workers, "gpus": gpus, "mps": bool(gpus)}
    site = Site.model_validate({"name": "m", "simulation": wanted})
    (executor, *_) = parsl_config(site, tmp_path).executors
    words = shlex.split(executor.launch_cmd)
    assert (words[:3:2] == ["env", "STEERSMAN_MPS=1"]) == bool(gpus)
    if gpus:
        monkeypatch.setenv(*words[1].split("=", 1))
    for name in tasks.VISIBLE:
        monkeypatch.delenv(name, raising=False)
    for rank in range(workers):
        monkeypatch.setenv("PARSL_WORKER_RANK", str(rank))
        tasks.begin(str(tmp_path), 0, int)
        assert os.environ.get("CUDA_VISIBLE_DEVICES") == (each[rank] if each else None)
    assert site.gpus == len(site.simulation.gpu_names)
    said = next(found.found for found in findings(site) if found.what == "simulation")
    assert ("4 GPUs (4 workers on each, by MPS)" in said) == (workers == 16)


@pytest.mark.parametrize(
    ("name", "changes", "gpus"),
    [
        ("workstation", {}, 2),
        ("polaris", {"simulation.nodes": 3}, 12),
        ("polaris", {"simulation.gpus": ["0", "1"], "simulation.workers": 2, "training.gpus": ["1", "2"]}, 3),
        ("polaris", {"training.nodes": 1, "walltime_s": 3600}, 6),
        ("frontier", {"inside": True, "simulation.nodes": 2}, 16),
    ],
)
def test_a_gpu_that_executors_share_is_held_once(name: str, changes: dict[str, object], gpus: int) -> None:
    assert load_site(name, changes).gpus == gpus


ON_NODES = {"nodes": 2, "workers": 3, "blocks": 2, "walltime_s": 90}


def test_slots_are_counted_over_nodes_and_blocks() -> None:
    site = Site.model_validate({"name": "m", "simulation": ON_NODES, "slurm": {"partition": "p"}})
    assert (site.simulation.count, site.nodes) == (12, 4)
    assert load_site("laptop").nodes == 1


def test_away_from_a_login_node_one_is_told_where_to_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    site = Site.model_validate({"name": "m", "interface": "lo", "simulation": ON_NODES, "slurm": {}})
    with pytest.raises(BadSite, match="sbatch, squeue, scancel"):
        ready(site)
    ready(Site(name="laptop"))


def test_workers_are_given_an_address_in_numbers_or_one_is_told_which_networks_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parsl's workers hang on a host name; many a machine has its own name on loopback."""
    site = Site.model_validate({"name": "m", "simulation": ON_NODES, "slurm": {}})
    monkeypatch.setattr("socket.gethostbyname", lambda name: "10.1.2.3")
    assert driver_address(site) == "10.1.2.3"
    monkeypatch.setattr("socket.gethostbyname", lambda name: "127.0.1.1")
    with pytest.raises(BadSite, match=r"`interface:` .*\blo\b"):
        driver_address(site)
    assert driver_address(site.model_copy(update={"interface": "lo"})) == "127.0.0.1"
    with pytest.raises(BadSite, match=r"interface = hsn9.*lo"):
        driver_address(site.model_copy(update={"interface": "hsn9"}))


def test_a_tunnel_that_leads_nowhere_is_told_of_before_a_run() -> None:
    """At the first of its ports that no other run has. That of ssh is tried in tests/sites."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = taken.getsockname()[1]
        tunnels = {"simulation": ON_NODES, "slurm": {}, "ports": [first, first + 9]}
        site = Site.model_validate({"name": "m", "tunnel": "127.0.0.1", **tunnels})
        assert preflight._network(site).ok
        found = preflight._network(site.model_copy(update={"tunnel": "127.0.0.2"}))
    assert not found.ok
    assert "connection to 127.0.0.2:" in found.found
    assert f"127.0.0.2:{first}" not in found.found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("simulation", "wrong"),
    [
        ({"workers": 1, "affinity": "list:0"}, ""),
        ({"workers": 2, "affinity": "list:0,1-2:3"}, ""),
        ({"workers": 1, "affinity": "list:0,99"}, "no core 99; it has 0-3"),
        ({"workers": 1, "affinity": "list:3-5,7"}, "no core 4-5,7; it has 0-3"),
        ({"workers": 2, "affinity": "list:0"}, "cores for 1 worker"),
        ({"workers": 1, "affinity": "list:3-2"}, "before it begins"),
        ({"workers": 5, "affinity": "block"}, "5 workers, but this machine has 4 cores"),
        ({"workers": 5}, ""),
        ({"workers": 1, "scratch": "/dev/null/frames"}, "/dev/null is no folder"),
        ({"workers": 1, "scratch": "$NO_SUCH_DISK"}, "not all of its variables"),
        ({"workers": 1, "scratch": "here/frames"}, ""),
    ],
)
def test_cores_and_folders_that_this_machine_does_not_have_are_told_of(
    simulation: dict[str, object], wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3})
    site = Site.model_validate({"name": "mine", "simulation": simulation, "training": {"workers": 1}})
    assert Site.model_validate(site.model_dump()) == site, "a run of another machine can be looked at"
    told = "; ".join(each.found for each in findings(site) if not each.ok)
    assert wrong in told if wrong else not told
    if wrong:
        with pytest.raises(BadSite, match=re.escape(wrong)):
            ready(site)
    on_nodes = simulation | {"nodes": 1, "walltime_s": 600}
    cluster = Site.model_validate({"name": "mine", "interface": "lo", "simulation": on_nodes, "slurm": {}})
    there = [each for each in findings(cluster) if each.what in ("affinity", "scratch") and not each.ok]
    assert bool(there) == (wrong in ("cores for 1 worker", "before it begins")), "nodes may have others"


@pytest.mark.parametrize("affinity", ["list:", "list:-1", "list:1:", "list:1-2-3", "list:a", "list"])
def test_cores_that_parsl_could_not_read_are_refused(affinity: str) -> None:
    with pytest.raises(BadSite, match="affinity"):
        load_site("laptop", {"simulation.affinity": affinity})


def test_gpus_that_this_machine_does_not_have_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "GPU_DEVICES", ("no-such-gpu[0-9]*",))
    [gpus] = preflight._gpus(load_site("workstation"))
    assert not gpus.ok
    assert gpus.found.startswith("2 requested, but /dev shows none: ")
    monkeypatch.setattr(preflight, "GPU_DEVICES", ("null", "zero", "[nz]?[lr][lo]"))
    assert [each.ok for each in preflight._gpus(load_site("workstation"))] == [True]
    for asked, there in ((3, False), (["1.1"], True), (["1", "2.0"], False), (["MIG-7", "GPU-9a", "9a"], True)):
        [gpus] = preflight._gpus(Site.model_validate({"name": "mine", "simulation": {"workers": 1, "gpus": asked}}))
        assert gpus.ok == there
    assert not list(preflight._gpus(load_site("laptop")))


def test_more_workers_than_this_machine_can_hold_are_refused() -> None:
    """97,000 of them took 24 GB of a laptop, and could not be stopped for minutes."""
    cores = len(os.sched_getaffinity(0))
    most = preflight.WORKERS_OF_A_CORE * cores
    ready(Site(name="laptop", simulation=Walkers(workers=most - 1), training=Trainers(workers=1)))
    too_many = Site(name="laptop", simulation=Walkers(workers=most), training=Trainers(workers=1))
    with pytest.raises(BadSite, match=f"{most + 1:,} workers.*{cores} cores?"):
        ready(too_many)
    assert not next(each for each in findings(too_many) if each.what == "workers").ok


def test_a_scheduler_that_hangs_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for command in Slurm.COMMANDS:
        (tmp_path / command).write_text("#!/bin/sh\nexec /bin/sleep 60\n")
        (tmp_path / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(asking, "ANSWER_S", 1)
    site = Site.model_validate({"name": "m", "interface": "lo", "simulation": ON_NODES, "slurm": {}})
    with pytest.raises(BadSite, match="did not answer"):
        ready(site)


def test_the_submit_script_says_what_the_site_file_says(tmp_path: Path) -> None:
    values = {"account": "m1234", "partition": "debug", "options": ["--gpus-per-node=2"]}
    site = Site.model_validate({"name": "m", "interface": "lo", "simulation": ON_NODES, "slurm": values})
    script = submit_scripts(site)["simulation"].splitlines()
    for option in ("account=m1234", "partition=debug", "no-requeue", "gpus-per-node=2", "nodes=2", "time=2"):
        assert f"#SBATCH --{option}" in script
    executor = next(each for each in parsl_config(site, tmp_path).executors if each.label == "simulation")
    assert (executor.provider.nodes_per_block, executor.provider.init_blocks) == (2, 2)
    assert (executor.heartbeat_period, executor.heartbeat_threshold) == (15, 120)


def test_the_other_nodes_of_a_block_go_on_when_one_dies() -> None:
    """Slurm ends all of a job and of a step otherwise; ranks of an MPI program cannot go on."""
    script = submit_scripts(load_site("slurm", {"together": False}))["simulation"]
    assert "#SBATCH --no-kill" in script.splitlines()
    assert "--no-kill --kill-on-bad-exit=0 /bin/bash" in script
    one = load_site("slurm", {"together": False, "simulation.nodes": 1})
    assert "--no-kill" not in submit_scripts(one)["simulation"]


@pytest.mark.parametrize("role", ["simulation", "labelling"])
def test_workers_over_several_nodes_share_a_block_by_nodes(tmp_path: Path, role: str) -> None:
    mpi = {"nodes": 6, "blocks": 2, "walltime_s": 600, "mpi": {"nodes": 2, "ranks": 4, "launcher": "srun"}}
    site = Site.model_validate({"name": "m", "interface": "lo", role: mpi, "slurm": {}})
    assert site.workers[role].count == 6
    assert role == "labelling" or site.nodes == 2, "the walkers are on the first node of a block"
    executor = next(each for each in parsl_config(site, tmp_path).executors if each.label == role)
    assert executor.max_workers_per_block == 3
    assert executor.resources == {"num_nodes": 2, "ranks_per_node": 4, "launcher_options": "--kill-on-bad-exit=1"}
    script = submit_scripts(site)[role]
    assert "srun" not in script, "the workers run on the first node, and start ranks on the others"
    assert f"export PATH=$PATH:{BINARIES}" in script, "a mpiexec of this environment does not hide the site's"


def test_nodes_that_walkers_cannot_share_or_would_not_find_are_refused() -> None:
    with pytest.raises(BadSite, match=r"simulation.mpi: .*LSF"):
        load_site("lsf", {"simulation.mpi": {"nodes": 2}})
    with pytest.raises(BadSite, match=r"labelling.mpi: .*LSF"):
        load_site("lsf", {"labelling": {"nodes": 2, "walltime_s": 600, "mpi": {"nodes": 2}}})
    with pytest.raises(BadSite, match="nodes: 2"):
        load_site("slurm", {"simulation.nodes": 3, "simulation.mpi": {"nodes": 2}})


def test_scratch_is_a_folder_of_the_node_and_its_variables_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_site("laptop").scratch_here("simulation") is None
    site = Site(name="ours", simulation=Walkers(scratch="$NODE_DISK/frames"))
    monkeypatch.setenv("NODE_DISK", "/local")
    assert site.scratch_here("simulation") == Path("/local/frames")
    monkeypatch.delenv("NODE_DISK")
    with pytest.raises(BadSite, match=r"simulation.scratch = \$NODE_DISK/frames"):
        site.scratch_here("simulation")


@pytest.mark.parametrize("folder", ["short", "a" * 120])
def test_sockets_of_workers_have_room_in_any_tmpdir_and_files_lie_in_it(folder: str) -> None:
    code = "import os, multiprocessing as m, tempfile as t; m.Manager(); print(os.path.realpath(t.gettempdir()))"
    with tempfile.TemporaryDirectory(dir="/tmp") as top:  # a test's own folder may be too long by itself
        given = Path(top, folder)
        given.mkdir()
        script = f"export TMPDIR={given}\n{SHORT_TMPDIR}\n{sys.executable} -c '{code}'; echo $TMPDIR"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        there, short = done.stdout.split()
        assert Path(there) == given
        assert Path(short).exists() == (folder == "short"), "the other way to it is gone again"


def test_check_says_that_a_container_has_a_quota_of_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    local = load_site("workstation")
    for share, said in ((0.5, ["cores"]), (1e6, [])):
        monkeypatch.setattr(preflight, "quotas", lambda share=share: iter([share]))
        assert [each.what for each in preflight._crowd(local) if each.ok] == said
