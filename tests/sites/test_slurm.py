"""Campaigns on a real Slurm: over nodes, through a cancelled block, a power failure and a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from steersman.engine import journal
from steersman.engine.journal import Record
from steersman.engine.run_directory import RunDirectory
from steersman.engine.state import State
from tests.sites.slurm import NETWORK, Cluster, missing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

WORKFLOW = """
import os, time
from steersman import Params, Workflow, budget

class P(Params): pass

wf = Workflow("ticks", P, stop=budget(hours=1))

@wf.simulate()
def ticks(p, start, out):
    for i in range(20):
        time.sleep(0.05)  # the simulation
        out.append(x=float(i), gpu=int(os.environ.get("CUDA_VISIBLE_DEVICES", -1)))
        if out.stopped: break
"""
SCORED = f"""{WORKFLOW}
@wf.score()
def place(p, model, frames): return {{"x": frames["x"]}}
"""
PROGRAM = """
import time
from mpi4py import MPI
world = MPI.COMM_WORLD
for step in range(20):
    nodes = len(set(world.allgather(MPI.Get_processor_name())))
    total = world.allreduce(world.rank + step)
    time.sleep(0.01)
    if world.rank == 0:
        print(total, world.size, nodes, file=open("frames.txt", "a"))
"""
RANKS = f"""
import os, shlex, sys
from steersman import Params, Workflow, budget
from steersman.apps.command import command, lines
from tempfile import TemporaryDirectory

class P(Params): pass

wf = Workflow("ranks", P, stop=budget(frames=20))    # one segment: to start ranks again and again takes processors

@wf.simulate()
def over_nodes(p, start, out):
    program = [*shlex.split(os.environ["PARSL_MPI_PREFIX"]), sys.executable, "-c", {PROGRAM!r}]
    with TemporaryDirectory() as folder:
        for line in command(program, reader=lines("frames.txt"), cwd=folder, stop=lambda: out.stopped):
            total, ranks, nodes = map(float, line.split())
            out.append(x=total, ranks=ranks, nodes=nodes)
"""
TRAINED = """
import os, platform, time
from pathlib import Path
import numpy as np
from steersman import Params, Workflow, budget, every
from steersman.models import CVAE

class P(Params): pass

wf = Workflow("trained", P, stop=budget(hours=1))

@wf.simulate()
def maps(p, start, out):
    random = np.random.default_rng(out.seed)
    for _ in range(20):
        time.sleep(0.05)  # the simulation
        contacts = random.random((6, 6)) < 0.4
        out.append(contacts=contacts | contacts.T)
        if out.stopped: break

@wf.train(when=every(frames=10**6, first=100), ranks=2, strategy="ddp")
def fit(p, frames, last):
    maps, own = frames["contacts"], os.listdir(os.environ["STEERSMAN_SCRATCH"])
    place = f"{platform.node()} {os.environ['MASTER_ADDR']} {os.environ['CUDA_VISIBLE_DEVICES']} {own[0]}"
    (Path(__file__).parent / f"rank{os.environ['RANK']}").write_text(place)
    return CVAE.fit(maps, latent=2, channels=4, batch=16, epochs=2)

@wf.score()
def place(p, model, frames):
    with (Path(__file__).parent / "scored_on").open("a") as file:
        print(platform.node(), file=file)
    z, error = model.encode(frames["contacts"])
    return {"z": z, "error": error}
"""
WORKFLOWS = {"mpi": "ranks.py", "pbs-mpi": "ranks.py", "together": "trained.py", "inside": "scored.py"}
SITES = {
    "together": """
together: true
simulation: {nodes: 1, workers: 1, walltime_s: 600}
training: {nodes: 2, workers: 1, gpus: 2, walltime_s: 600, scratch: /dev/shm/windows}
scoring: {nodes: 1, workers: 1, walltime_s: 600}
slurm: {partition: debug, options: ["--gpus-per-node=2"]}
""",
    "mpi": """
simulation: {nodes: 2, mpi: {nodes: 2, ranks: 2, launcher: srun, options: --mpi=pmi2}, walltime_s: 600}
training: {workers: 1}
slurm: {partition: debug}
""",
    "nodes": """
simulation: {nodes: 2, workers: 2, gpus: 2, walltime_s: 60, scratch: /dev/shm}
training: {workers: 1}
slurm: {partition: debug, options: ["--gpus-per-node=2"]}
margin_s: 15
""",
    "faults": """
simulation: {nodes: 1, blocks: 2, workers: 1, walltime_s: 600, scratch: /dev/shm/frames}    # each node has its own
training: {workers: 1}
slurm: {partition: debug}
""",
    "pbs": """
simulation: {nodes: 2, workers: 1, gpus: 1, walltime_s: 600}
training: {workers: 1}
pbs: {queue: workq, cpus: 2, select: ngpus=1}
worker_init: export PATH=$PBS_O_PATH    # a job begins with a clean environment
""",
    "pbs-mpi": """
simulation: {nodes: 2, mpi: {nodes: 2, ranks: 2, launcher: mpiexec}, walltime_s: 600}
training: {workers: 1}
pbs: {queue: workq, cpus: 2}
worker_init: export PATH=$PBS_O_PATH
""",
    "inside": """
inside: true
simulation: {workers: 1}
training: {nodes: 1, workers: 1}
""",
    "unreachable": """
simulation: {nodes: 1, workers: 1, walltime_s: 600}
slurm: {partition: debug}
interface: lo    # a node that is told so looks for the driver on itself
starts_s: 20
""",
    "blocked": """
simulation: {nodes: 1, workers: 1, walltime_s: 600}
slurm: {partition: debug}
worker_init: echo waiting for a licence >&2; sleep 600
starts_s: 20
""",
    "broken": """
simulation: {nodes: 1, workers: 1, walltime_s: 600}
training: {workers: 1}
pbs: {queue: workq}
worker_init: source /nowhere/bin/activate || exit 1
""",
}
IN_A_JOB = {"inside": ["salloc", "--nodes=3", "--time=10", "--exclusive"]}
PATIENCE_S = 120.0
# As the command line does, without drawing a report: that would be half of a small campaign's processor time.
DRIVE = """
import sys
from pathlib import Path
from steersman.engine import campaign
_, run = campaign.begin(campaign.plan(sys.argv[1], site=sys.argv[2]), run_dir=Path(sys.argv[3]))
run.execute()
"""
DOCTOR = """
simulation: {nodes: 2, workers: 1, gpus: 1, walltime_s: 600}
training: {workers: 1}
slurm: {partition: debug, options: ["--gpus-per-node=1"]}
launcher: srun --overlap --mpi=pmi2 --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if why := missing():
        pytest.skip(f"no real Slurm can be had here: {why}")
    with Cluster(tmp_path_factory.mktemp("slurm"), 24) as cluster:
        monkey = pytest.MonkeyPatch()
        monkey.setenv("PATH", f"{cluster.add_pbs()}:{os.environ['PATH']}")
        yield cluster
        monkey.undo()


@dataclass
class Campaign:
    """A run on the cluster, driven from its login host."""

    process: subprocess.Popen[bytes]
    directory: RunDirectory

    def records(self, kind: str) -> list[Record]:
        file = self.directory.journal
        return [record for record in journal.read(file) if record["kind"] == kind] if file.exists() else []

    def until(self, ready: Callable[[], bool]) -> None:
        """Wait for what the run writes down."""
        deadline = time.monotonic() + PATIENCE_S
        while not ready():
            log = self.directory.path.with_suffix(".log")
            assert self.process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)

    def joined(self, count: int) -> list[Record]:
        """The first `count` walkers, once they have begun; waits for them."""
        self.until(lambda: len(self.records("joined")) >= count)
        return self.records("joined")[:count]

    def interrupt(self) -> State:
        """End it as Ctrl-C does, and look at what it was."""
        driver = json.loads((self.directory.path / "driver.json").read_text())["pid"]
        os.kill(driver, signal.SIGINT)
        return self.ended("interrupted")

    def ended(self, outcome: str) -> State:
        """What it was, once it has ended."""
        assert self.process.wait(PATIENCE_S) == 0
        state = State(journal.read(self.directory.journal))
        assert state.end is not None
        assert state.end["outcome"] == outcome, state.end
        return state


@pytest.fixture(scope="module")
def campaigns(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Campaign]]:
    """One campaign on each site, side by side; they only sleep."""
    folder = tmp_path_factory.mktemp("campaigns")
    (folder / "ticks.py").write_text(WORKFLOW)
    (folder / "scored.py").write_text(SCORED)
    (folder / "ranks.py").write_text(RANKS)
    (folder / "trained.py").write_text(TRAINED)
    running = {}
    for name, text in SITES.items():
        (folder / f"{name}.yaml").write_text(text)
        workflow = folder / WORKFLOWS.get(name, "ticks.py")
        words = [*IN_A_JOB.get(name, []), sys.executable, "-c", DRIVE, workflow, folder / f"{name}.yaml", folder / name]
        command = cluster.on_login(*map(str, words))
        with (folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        running[name] = Campaign(process, RunDirectory(folder / name))
    yield running
    for campaign in running.values():
        if campaign.process.poll() is None:
            campaign.process.kill()
            campaign.process.wait()


@pytest.fixture(scope="module", autouse=True)
def doctor(campaigns: dict[str, Campaign], cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """At work beside the campaigns."""
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "site.yaml").write_text(DOCTOR)
    words = [sys.executable, "-m", "steersman.cli", "doctor", "--site", str(folder / "site.yaml"), "--json"]
    command = cluster.on_login("env", "-C", str(folder), *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def check_nothing_is_lost(state: State, directory: RunDirectory) -> None:
    """Every start counts at most once; what the journal counts is what the store holds."""
    counted = Counter(segment.start for segment in state.segments if segment.counts and segment.end is not None)
    assert set(counted.values()) <= {1}
    assert state.frames > 0
    for walker in directory.frames.walkers():
        assert state.walkers[int(walker[1:])].frames == directory.frames.count(walker)


def gpus_of_nodes(campaign: Campaign) -> dict[str, set[int]]:
    """Which GPUs the walkers of each node told in their frames, as far as these are published."""
    published = {record["walker"] for record in campaign.records("frames") if record["frames"]}
    found: dict[str, set[int]] = {}
    for walker in campaign.records("joined"):
        if walker["walker"] in published:
            frame = campaign.directory.frames.row(f"w{walker['walker']}", 0)
            found.setdefault(walker["node"], set()).add(int(frame["gpu"]))
    return found


def test_walkers_on_two_nodes_have_a_gpu_each(campaigns: dict[str, Campaign], cluster: Cluster) -> None:
    campaign = campaigns["nodes"]
    on_nodes = Counter(walker["node"] for walker in campaign.joined(4))
    assert sorted(on_nodes.values()) == [2, 2]
    campaign.until(lambda: list(gpus_of_nodes(campaign).values()).count({0, 1}) >= 2)
    bus = campaign.directory.bus / "bus.json"
    assert f"{NETWORK}.1" in bus.read_text(), "on the network that the nodes reach"
    assert bus.stat().st_mode & 0o777 == 0o600


def test_a_cancelled_block_and_a_dead_node_cost_nothing_that_was_committed(
    campaigns: dict[str, Campaign], cluster: Cluster
) -> None:
    campaign = campaigns["faults"]
    first, second = campaign.joined(2)
    assert first["node"] != second["node"]
    job = cluster.answer("squeue", "-h", "-w", first["node"], "-o", "%i")
    cluster.crash(second["node"])
    cluster.answer("scancel", job)
    later = campaign.joined(4)[2:]
    assert second["node"] not in {walker["node"] for walker in later}
    ran = {walker["walker"] for walker in later}
    campaign.until(lambda: ran <= {ended["walker"] for ended in campaign.records("ended")})
    state = campaign.interrupt()
    check_nothing_is_lost(state, campaign.directory)
    lost = campaign.records("lost")
    assert {each["walker"] for each in lost} == {first["walker"], second["walker"]}
    assert all("ManagerLost" in each["cause"] for each in lost)


def test_a_campaign_runs_on_pbs(campaigns: dict[str, Campaign], cluster: Cluster) -> None:
    """PBS's commands in front of Slurm: blocks over two nodes through PBSProProvider and mpiexec."""
    campaign = campaigns["pbs"]
    joined = campaign.joined(2)
    assert len({walker["node"] for walker in joined}) == 2
    campaign.until(lambda: len({ended["walker"] for ended in campaign.records("ended")}) == 2)
    check_nothing_is_lost(campaign.interrupt(), campaign.directory)
    assert not campaign.records("lost")


def test_a_campaign_runs_inside_a_job(campaigns: dict[str, Campaign], cluster: Cluster) -> None:
    """Its nodes and its end are the job's: nothing in the site file says them but that one of the three trains, which
    here only scores."""
    campaign = campaigns["inside"]
    joined = campaign.joined(2)
    job = cluster.answer("squeue", "-h", "-o", "%N", "-w", joined[0]["node"])
    nodes = cluster.answer("scontrol", "show", "hostnames", job).split()
    assert sorted(walker["node"] for walker in joined) == sorted(nodes[1:])
    assert all(300 < walker["block_ends"] - walker["t"] <= 600 for walker in joined), "it began when the machine let it"
    campaign.until(lambda: len({ended["walker"] for ended in campaign.records("ended")}) == 2)
    campaign.until(lambda: bool(campaign.records("scored")))
    check_nothing_is_lost(campaign.interrupt(), campaign.directory)


def test_an_environment_line_that_fails_on_the_node_ends_the_run_with_its_words(
    campaigns: dict[str, Campaign],
) -> None:
    end = campaigns["broken"].ended("failed").end
    assert end is not None
    assert "/nowhere/bin/activate: No such file" in end["reason"]
    assert ".stderr" in end["reason"], "the file to look at"


@pytest.mark.parametrize(
    ("site", "cause"),
    [
        ("unreachable", "they start there and do not reach 127.0.0.1; must `interface:` name another network?"),
        ("blocked", "they have not started there; does `worker_init` end"),
    ],
)
def test_a_job_whose_worker_never_comes_ends_the_run_with_the_cause(
    site: str, cause: str, campaigns: dict[str, Campaign]
) -> None:
    """Within the site's limit, where the scheduler itself sees nothing wrong: its job runs."""
    end = campaigns[site].ended("failed").end
    assert end is not None
    assert cause in end["reason"]
    assert ".stderr" in end["reason"], "the file to look at"
    assert ("waiting for a licence" in end["reason"]) == (site == "blocked")
    began = campaigns[site].records("session")[0]["t"]
    assert end["t"] - began < PATIENCE_S


@pytest.mark.parametrize("site", ["mpi", "pbs-mpi"])
def test_a_walker_is_an_mpi_program_over_two_nodes(site: str, campaigns: dict[str, Campaign], cluster: Cluster) -> None:
    """Two ranks on each of two nodes: their frames come through the walker, by Parsl's MPIExecutor, srun or mpiexec."""
    campaign = campaigns[site]
    check_nothing_is_lost(campaign.ended("budget"), campaign.directory)
    frames = campaign.directory.frames
    assert {(float(frames.row("w0", row)["ranks"]), float(frames.row("w0", row)["nodes"])) for row in range(20)} == {
        (4, 2)
    }
    assert [float(frames.row("w0", row)["x"]) for row in range(20)] == [6 + 4 * step for step in range(20)]


def test_one_allocation_is_shared_by_nodes_and_ranks_train_on_two_of_them(
    campaigns: dict[str, Campaign], cluster: Cluster
) -> None:
    """A job of four nodes: one simulates, one scores, and a rank on each of the others makes one model, of a window
    that they have brought to their own disks."""
    campaign = campaigns["together"]
    walker = campaign.joined(1)[0]
    jobs = cluster.answer("squeue", "-h", "-o", "%i %D", "-w", walker["node"]).splitlines()
    assert [job.split()[1] for job in jobs] == ["4"]
    campaign.until(lambda: bool(campaign.records("model")))
    model = campaign.records("model")[0]
    assert model["accepted"], model
    card = campaign.directory.card(1)
    assert card is not None
    assert all(record["SyncTime"] > 0 for record in card["history"])
    places = [(campaign.directory.path / f"rank{rank}").read_text().split() for rank in range(2)]
    nodes = [node for node, _, _, _ in places]
    assert len({walker["node"], *nodes}) == 3
    assert {address for _, address, _, _ in places} <= {cluster.address(node) for node in nodes}
    assert [(gpu, staged) for _, _, gpu, staged in places] == [("0", "contacts")] * 2
    campaign.until(lambda: bool(campaign.records("scored")))
    scored_on = set((campaign.directory.path / "scored_on").read_text().split())
    assert len(scored_on - {walker["node"], *nodes}) == 1, "and on a node that trains, where models are compared"
    check_nothing_is_lost(campaign.interrupt(), campaign.directory)


def test_a_time_limit_is_kept_and_the_next_block_goes_on(campaigns: dict[str, Campaign], cluster: Cluster) -> None:
    """Nobody is killed by the scheduler: the walker of the first block leaves in time."""
    campaign = campaigns["nodes"]
    first = campaign.joined(1)[0]
    campaign.until(lambda: any(walker["block_ends"] > first["block_ends"] for walker in campaign.records("joined")))
    later = next(walker for walker in campaign.records("joined") if walker["block_ends"] > first["block_ends"])
    campaign.until(lambda: any(ended["walker"] == later["walker"] for ended in campaign.records("ended")))
    lost = campaign.records("lost")  # a walker that comes while the run ends may be given up
    state = campaign.interrupt()
    check_nothing_is_lost(state, campaign.directory)
    left = next(record for record in campaign.records("left") if record["walker"] == first["walker"])
    assert left["reason"] == "its block ends"
    assert left["t"] < first["block_ends"]
    assert not lost


def test_a_site_is_checked_with_the_schedulers_own_test(campaigns: dict[str, Campaign], cluster: Cluster) -> None:
    file = campaigns["nodes"].directory.path.with_name("nodes.yaml")
    command = [sys.executable, "-m", "steersman.cli", "check", "double_well", "--site", str(file), "--json"]
    done = subprocess.run(cluster.on_login(*command), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {each["what"]: each["found"] for each in json.loads(done.stdout)}
    assert found["simulation nodes"] == "sbatch --test-only accepts it"
    assert "its lines work here" in found["worker_init"]
    assert "2 nodes; 0.0333 for each round of blocks" in found["node hours"]
    assert "#SBATCH --gpus-per-node=2" in found["slurm script of simulation"]


REFUSED = {
    "{partition: nowhere}": "invalid partition specified: nowhere",
    "{options: [--gpus-per-node=99]}": "Requested node configuration is not available",
    "{options: [--no-such-option]}": "unrecognized option '--no-such-option'",
}
ASK = """
import sys
from steersman.executors.errors import BadSite
from steersman.executors.preflight import ready
from steersman.executors.site_files import load_site
for file in sys.argv[1:]:
    try:
        ready(load_site(file))
    except BadSite as refused:
        print(refused)
"""


def test_what_slurm_refuses_is_told_before_the_run(cluster: Cluster, tmp_path: Path) -> None:
    """In its own words, one line each, and nothing is left behind."""
    files = [tmp_path / f"site{number}.yaml" for number in range(len(REFUSED))]
    for file, slurm in zip(files, REFUSED, strict=True):
        file.write_text(f"simulation: {{nodes: 1, workers: 1, walltime_s: 60}}\nslurm: {slurm}\n")
    told = cluster.answer(sys.executable, "-c", ASK, *map(str, files)).splitlines()
    assert len(told) == len(REFUSED)
    for line, words in zip(told, REFUSED.values(), strict=True):
        assert words in line
        assert "Slurm refuses the simulation nodes" in line
    run = ["run", "double_well", "--site", str(files[0]), "--run-dir", str(tmp_path / "run")]
    command = cluster.on_login(sys.executable, "-m", "steersman.cli", *run)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("invalid partition specified: nowhere")) == (2, 1)
    assert not (tmp_path / "run").exists()


def test_the_doctor_sees_both_nodes_and_tells_the_cure_of_what_is_wrong(doctor: subprocess.Popen[str]) -> None:
    """MPI between the nodes works; what Slurm calls a GPU here is none that torch could use."""
    stdout, stderr = doctor.communicate(timeout=PATIENCE_S)
    assert doctor.returncode == 4, stdout + stderr
    told = json.loads(stdout)
    found = {each["what"]: each for each in told["findings"]}
    assert {name for name, each in found.items() if not each["ok"]} == {"GPUs"}, told
    assert "torch sees 0 GPUs" in found["GPUs"]["found"]
    assert "ask the scheduler for GPUs" in found["GPUs"]["found"]
    assert "2 ranks on 2 nodes reach each other" in found["MPI"]["found"]
    assert found["workers"]["found"].startswith("3 of 3 on 3 nodes")
    assert len({each["node"] for each in told["probes"]}) == 3
    assert all(each["bus"] > 0 and each["store_write"] > 0 and each["store_read"] > 0 for each in told["probes"])
    folder = Path(str(doctor.args[-2])).parent  # type: ignore[index]
    assert list(folder.iterdir()) == [folder / "site.yaml"], "nothing is left"


def test_nothing_is_left_in_the_queue(campaigns: dict[str, Campaign], cluster: Cluster) -> None:
    assert all(campaign.process.poll() is not None for campaign in campaigns.values())
    deadline = time.monotonic() + 30
    while cluster.answer("squeue", "-h"):
        assert time.monotonic() < deadline, cluster.answer("squeue")
        time.sleep(0.2)
