"""Campaigns on a real Slurm: over nodes, through a cancelled block, a power failure and a time limit."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steersman.bus.addresses import read as read_address
from steersman.executors.batch import job_title
from steersman.executors.steady import STEADY
from steersman.journal.file import read
from steersman.journal.records import End, Ended, Joined, Left, Lost, Note, Scored, Session, Start, Trained
from steersman.journal.state import State
from steersman.remote.submitted import Submitted
from steersman.remote.wire import decode
from steersman.store import Frames
from tests.sites import accounts
from tests.sites.campaigns import PATIENCE_S, Campaign, Campaigns, check_nothing_is_lost, request, resumed
from tests.sites.processes import gpus_of_nodes, of_run, stop_interchange
from tests.sites.slurm import NETWORK, Cluster, missing
from tests.sites.tunnel import tunnel
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

DOCTOR = """
simulation: {nodes: 2, workers: 1, gpus: 1, walltime_s: 600}
training: {nodes: 2, workers: 1, walltime_s: 600}
slurm: {partition: debug, options: ["--gpus-per-node=1"]}
launcher: srun --overlap --mpi=pmi2 --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1
"""


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
BUSY_S = 12.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if why := missing():
        pytest.skip(f"no real Slurm can be had here: {why}")
    with Cluster(tmp_path_factory.mktemp("slurm"), 24, apart=3) as cluster:
        cluster.hide(Path(sys.prefix), cluster.apart[-1])
        monkey = pytest.MonkeyPatch()
        folders = os.environ["PATH"].split(os.pathsep)  # not another clone's environment, which no node lacks
        others = [folder for folder in folders if not Path(folder, STEADY).exists()]
        monkey.setenv("PATH", os.pathsep.join([str(cluster.add_pbs()), *others]))
        with tunnel(cluster):
            yield cluster
        monkey.undo()


@pytest.fixture(scope="module")
def campaigns(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaigns]:
    campaigns = Campaigns(tmp_path_factory.mktemp("campaigns"), cluster)
    yield campaigns
    for campaign in campaigns.values():
        if campaign.process.poll() is None:
            campaign.process.kill()
            campaign.process.wait()


@pytest.fixture(scope="module", autouse=True)
def doctor(campaigns: Campaigns, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """At work beside the campaigns."""
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "site.yaml").write_text(DOCTOR)
    words = [sys.executable, "-m", "steersman.cli", "doctor", "--site", str(folder / "site.yaml"), "--json"]
    command = cluster.on_login("env", "-C", str(folder), *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_walkers_on_two_nodes_have_a_gpu_each(campaigns: Campaigns, cluster: Cluster) -> None:
    campaign = campaigns["nodes"]
    on_nodes = Counter(walker.node for walker in campaign.joined(4))
    assert sorted(on_nodes.values()) == [2, 2]
    campaign.until(lambda: list(gpus_of_nodes(campaign).values()).count({0, 1}) >= 2)
    stop_interchange(campaign, BUSY_S)  # the blocks survive this, as the test of the time limit sees
    bus = campaign.directory.bus / "bus.json"
    assert f"{NETWORK}.1" in bus.read_text(), "on the network that the nodes reach"
    assert bus.stat().st_mode & 0o777 == 0o600


def test_a_cancelled_block_and_a_dead_node_cost_nothing_that_was_committed(
    campaigns: Campaigns, cluster: Cluster
) -> None:
    campaign = campaigns["faults"]
    first, second = campaign.joined(2)
    assert first.node != second.node
    job = cluster.answer("squeue", "-h", "-w", first.node, "-o", "%i")
    cluster.crash(second.node)
    cluster.answer("scancel", job)
    later = campaign.joined(4)[2:]
    assert second.node not in {walker.node for walker in later}
    ran = {walker.walker for walker in later}
    campaign.until(lambda: ran <= {ended.walker for ended in campaign.records(Ended)})
    state = campaign.interrupt()
    check_nothing_is_lost(state, campaign.directory)
    lost = campaign.records(Lost)
    assert {each.walker for each in lost} == {first.walker, second.walker}
    assert all("ManagerLost" in each.cause for each in lost)


def test_a_submitted_campaign_runs_inside_a_job_and_leaves_nothing_when_it_is_cancelled(
    campaigns: Campaigns, cluster: Cluster
) -> None:
    """Its driver runs on the first of the job's nodes. Its nodes and its end are the job's: nothing in the site file
    says them but that one of the three trains, which here only scores."""
    campaign = campaigns["inside"]
    joined = campaign.joined(2)
    job, names = cluster.answer("squeue", "-h", "-o", "%i %N", "-w", joined[0].node).split()
    nodes = cluster.answer("scontrol", "show", "hostnames", names).split()
    assert sorted(walker.node for walker in joined) == sorted(nodes[1:])
    assert campaign.records(Session)[0].host == nodes[0]
    assert all(300 < (walker.block_ends or 0.0) - walker.t <= 600 for walker in joined), (
        "it began when the machine let it"
    )
    campaign.until(lambda: len({ended.walker for ended in campaign.records(Ended)}) == 2)
    campaign.until(lambda: bool(campaign.records(Scored)))
    assert len(of_run(campaign)) > 4, "the keeper, the driver, its walkers and its scorer"
    run = Submitted(str(campaign.directory.path.parent), campaign.directory.path.name)
    asked = cluster.on_login(sys.executable, "-m", "steersman.remote.there")
    cancelled = request(run, "cancel", within_s=PATIENCE_S)
    answer = decode(subprocess.run(asked, input=cancelled, capture_output=True, text=True, check=True).stdout)
    (found,) = answer["answers"]
    assert (found["state"], found["code"]) == ("ended", 130)
    check_nothing_is_lost(campaign.ended("interrupted"), campaign.directory)
    assert not campaign.records(Lost)
    until(lambda: not cluster.answer("squeue", "-h", "-j", job, "-o", "%i") and not of_run(campaign), look_s=0.2)


@pytest.mark.parametrize(
    ("site", "cause"),
    [
        ("unreachable", "they start there but do not reach 127.0.0.1; check whether `interface:`"),
        ("blocked", "they have not started there; check that `worker_init` ends"),
    ],
)
def test_a_job_whose_worker_never_comes_ends_the_run_with_the_cause(
    site: str, cause: str, campaigns: Campaigns
) -> None:
    """Within the site's limit, where the scheduler itself sees nothing wrong: its job runs."""
    end = campaigns[site].ended("failed").end
    assert end is not None
    assert cause in end.reason
    assert ".stderr" in end.reason, "the file to look at"
    assert ("waiting for a licence" in end.reason) == (site == "blocked")
    began = campaigns[site].records(Session)[0].t
    assert end.t - began < PATIENCE_S


def test_what_slurm_refuses_is_told_before_the_run(cluster: Cluster, tmp_path: Path) -> None:
    """In its own words, one line each, and nothing is left behind."""
    refused = REFUSED | (accounts.REFUSED if accounts.can_be_had() else {})
    files = [tmp_path / f"site{number}.yaml" for number in range(len(refused))]
    for file, slurm in zip(files, refused, strict=True):
        file.write_text(f"simulation: {{nodes: 1, workers: 1, walltime_s: 60}}\nslurm: {slurm}\n")
    told = cluster.answer(sys.executable, "-c", ASK, *map(str, files)).splitlines()
    assert len(told) == len(refused)
    for line, words in zip(told, refused.values(), strict=True):
        assert words in line
        assert "Slurm refuses the simulation nodes" in line
    run = ["run", "double_well", "--site", str(files[-1]), "--run-dir", str(tmp_path / "run")]
    command = cluster.on_login(sys.executable, "-m", "steersman.cli", *run)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count(list(refused.values())[-1])) == (2, 1)
    assert not (tmp_path / "run").exists()


def test_a_site_is_checked_with_the_schedulers_own_test(campaigns: Campaigns, cluster: Cluster) -> None:
    file = campaigns["nodes"].directory.path.with_name("nodes.yaml")
    command = [sys.executable, "-m", "steersman.cli", "check", "double_well", "--site", str(file), "--json"]
    done = subprocess.run(cluster.on_login(*command), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {each["what"]: each["found"] for each in json.loads(done.stdout)["checks"]}
    assert found["simulation nodes"] == "sbatch --test-only accepts it"
    assert "its lines work here" in found["worker_init"]
    assert "2 nodes; 0.0333 for each round of blocks" in found["node hours"]
    assert "#SBATCH --gpus-per-node=2" in found["script of simulation"]


def test_a_block_goes_on_without_the_node_that_lacks_the_environment(campaigns: Campaigns, cluster: Cluster) -> None:
    """Its name and its words are reported, and the starts of its slot are run by the other two: rounds go on.

    The nodes reach the driver through a tunnel of ssh only, at the ports that it carries.
    """
    campaign, node = campaigns["partly"], cluster.apart[-1]
    campaign.until(lambda: any("2 of 3 nodes" in note.text for note in campaign.records(Note)))
    (note,) = (note for note in campaign.records(Note) if "of 3 nodes" in note.text)
    assert f"have simulation workers, not {node}; the run goes on without the others: " in note.text
    assert f"steersman-steady: command not found steersman: workers on {node} ended" in note.text
    assert ".stderr)" in note.text, "the file to look at"
    campaign.until(lambda: any("worker_init" in note.text for note in campaign.records(Note)))
    (module,) = (note for note in campaign.records(Note) if "worker_init" in note.text)
    assert "block 0 of simulation: " in module.text
    assert "module: command not found steersman: worker_init on" in module.text, "what a node said, and no login host"
    assert f" {cluster.apart[0]} failed with exit code 127: module load licence (see " in module.text
    campaign.until(lambda: len(campaign.records(Start)) > 6)  # two rounds of three, and the next
    bus = read_address(campaign.directory.bus)
    assert (bus.host, 50000 <= bus.port <= 50008) == ("127.0.0.1", True)
    state = campaign.interrupt()
    check_nothing_is_lost(state, campaign.directory)
    assert {start.slot for start in campaign.records(Start)} == {0, 1, 2}
    assert {walker.node for walker in campaign.records(Joined)} == set(cluster.apart[:-1])


def test_a_time_limit_is_kept_and_the_next_block_goes_on(campaigns: Campaigns, cluster: Cluster) -> None:
    """Nobody is killed by the scheduler: the walkers of the first block leave in time. The next block is in the queue
    before the first one ends. Where there are accounts, a user may have one running job there: it waits."""
    campaign = campaigns["nodes"]
    first = campaign.joined(1)[0]
    assert first.block_ends is not None
    first_ends = first.block_ends

    def of_later_blocks() -> list[Joined]:
        return [walker for walker in campaign.records(Joined) if (walker.block_ends or 0.0) > first_ends]

    campaign.until(lambda: bool(of_later_blocks()))
    later = of_later_blocks()[0]
    campaign.until(lambda: any(ended.walker == later.walker for ended in campaign.records(Ended)))
    lost = campaign.records(Lost)  # a walker that comes while the run ends may be given up
    state = campaign.interrupt()
    check_nothing_is_lost(state, campaign.directory)
    of_first_block = {walker.walker for walker in campaign.records(Joined)} - {
        walker.walker for walker in of_later_blocks()
    }
    left = [record for record in campaign.records(Left) if record.walker in of_first_block]
    assert {record.reason for record in left} == {"its block ends"}
    assert max(record.t for record in left) < first_ends
    assert not lost
    if accounts.can_be_had():
        assert later.t > max(record.t for record in left)
    scripts = sorted(
        campaign.directory.path.glob("parsl/**/parsl.simulation.block-1.*"), key=lambda f: f.stat().st_mtime
    )
    assert scripts[0].stat().st_mtime < first_ends - 5, "block 1 was asked for ahead of the end of block 0"


def test_a_job_that_a_killed_driver_left_in_the_queue_is_reported_and_cancelled(
    campaigns: Campaigns, cluster: Cluster
) -> None:
    """Its jobs are held there; so they wait. Where there are accounts, it may have one: the other is refused."""
    campaign, most = campaigns["queued"], 1 if accounts.can_be_had() else 2

    def waiting() -> list[str]:
        title = job_title(campaign.directory.path)
        return sorted(cluster.answer("squeue", "-h", "--states=PENDING", f"--name={title}", "-o", "%i").split())

    campaign.until(lambda: len(waiting()) == most)
    jobs = waiting()
    campaign.until(lambda: most == 2 or bool(of_limit(campaign)))
    os.kill(json.loads((campaign.directory.path / "driver.json").read_text())["pid"], signal.SIGKILL)
    campaign.process.wait(PATIENCE_S)
    status = cluster.answer(sys.executable, "-m", "steersman.cli", "status", str(campaign.directory.path), "--json")
    assert sorted(json.loads(status)["jobs"]) == jobs
    later = resumed(campaign, cluster)
    later.until(lambda: len(waiting()) == most and not set(waiting()) & set(jobs))
    (note,) = (note for note in later.records(Note) if "an earlier driver left jobs" in note.text)
    assert note.text.endswith("; they were cancelled")
    assert set(re.findall(r"\d+", note.text)) == set(jobs)
    later.until(lambda: most == 2 or len(of_limit(later)) == 2)
    later.interrupt()


def of_limit(campaign: Campaign) -> list[Note]:
    """What a campaign tells of Slurm's limit to the jobs of a user."""
    return [note for note in campaign.records(Note) if "sbatch: error: QOSMaxSubmitJobPerUserLimit" in note.text]


def test_a_campaign_runs_on_pbs(campaigns: Campaigns, cluster: Cluster) -> None:
    """PBS's commands in front of Slurm: blocks over two nodes through PBSProProvider and mpiexec."""
    campaign = campaigns["pbs"]
    joined = campaign.joined(2)
    assert len({walker.node for walker in joined}) == 2
    campaign.until(lambda: len({ended.walker for ended in campaign.records(Ended)}) == 2)
    check_nothing_is_lost(campaign.interrupt(), campaign.directory)
    assert not campaign.records(Lost)


def test_an_environment_line_that_fails_on_the_node_ends_the_run_with_its_words(
    campaigns: Campaigns,
) -> None:
    end = campaigns["broken"].ended("failed").end
    assert end is not None
    assert "/nowhere/bin/activate: No such file" in end.reason
    assert re.search(r"worker_init on n\d+ failed with exit code 1", end.reason), "the node"
    assert ".stderr" in end.reason, "the file to look at"


@pytest.mark.parametrize("site", ["mpi", "pbs-mpi"])
def test_a_walker_is_an_mpi_program_over_two_nodes(site: str, campaigns: Campaigns, cluster: Cluster) -> None:
    """Two ranks on each of two nodes: their frames come through the walker, by Parsl's MPIExecutor, srun or mpiexec. A
    label worker has two nodes of its own."""
    campaign = campaigns[site]
    check_nothing_is_lost(campaign.ended("budget"), campaign.directory)
    frames = campaign.directory.frames
    assert {(float(frames.row("w0", row)["ranks"]), float(frames.row("w0", row)["nodes"])) for row in range(20)} == {
        (4, 2)
    }
    assert [float(frames.row("w0", row)["x"]) for row in range(20)] == [6 + 4 * step for step in range(20)]
    labels = Frames(campaign.directory.labels)
    answers = [labels.row(group, 0) for group in labels.walkers()]
    assert [tuple(float(each[name]) for name in ("ranks", "nodes", "total")) for each in answers] == [
        (2, 2, 1 + 2 * 19)
    ] * (site == "mpi")


def test_one_allocation_is_shared_by_nodes_and_ranks_train_on_two_of_them(
    campaigns: Campaigns, cluster: Cluster
) -> None:
    """A job of four nodes: one simulates, one scores, and a rank on each of the others makes one model, of a window
    that they have brought to their own disks."""
    campaign = campaigns["together"]
    walker = campaign.joined(1)[0]
    jobs = cluster.answer("squeue", "-h", "-o", "%i %D", "-w", walker.node).splitlines()
    assert [job.split()[1] for job in jobs] == ["4"]
    campaign.until(lambda: bool(campaign.records(Trained)))
    model = campaign.records(Trained)[0]
    assert model.accepted, model
    card = campaign.directory.card(1)
    assert card is not None
    assert all(record["SyncTime"] > 0 for record in card["history"])
    places = [(campaign.directory.path / f"rank{rank}").read_text().split() for rank in range(2)]
    nodes = [node for node, _, _, _ in places]
    assert len({walker.node, *nodes}) == 3
    assert {address for _, address, _, _ in places} <= {cluster.address(node) for node in nodes}
    assert [(gpu, staged) for _, _, gpu, staged in places] == [("0", "contacts")] * 2
    campaign.until(lambda: bool(campaign.records(Scored)))
    scored_on = set((campaign.directory.path / "scored_on").read_text().split())
    assert len(scored_on - {walker.node, *nodes}) == 1, "and on a node that trains, where models are compared"
    check_nothing_is_lost(campaign.interrupt(), campaign.directory)


def test_the_doctor_sees_every_node_and_tells_the_cure_of_what_is_wrong(doctor: subprocess.Popen[str]) -> None:
    """Of those that train, too, where only the first has workers in a run. MPI between the nodes works; what Slurm
    calls a GPU here is none that torch could use."""
    stdout, stderr = doctor.communicate(timeout=PATIENCE_S)
    assert doctor.returncode == 7, stdout + stderr
    told = json.loads(stdout)
    found = {each["what"]: each for each in told["findings"]}
    assert {name for name, each in found.items() if not each["ok"]} == {"GPUs"}, told
    assert "torch sees 0 GPUs" in found["GPUs"]["found"]
    assert "ask the scheduler for GPUs" in found["GPUs"]["found"]
    assert "2 ranks on 2 nodes reach each other" in found["MPI"]["found"]
    assert found["workers"]["found"].startswith("4 of 4 on 4 nodes")
    assert len({each["node"] for each in told["probes"]}) == 4
    assert all(each["bus"] > 0 and each["store_write"] > 0 and each["store_read"] > 0 for each in told["probes"])
    folder = Path(str(doctor.args[-2])).parent  # type: ignore[index]
    assert list(folder.iterdir()) == [folder / "site.yaml"], "nothing is left"


def test_a_chain_of_jobs_goes_on_from_job_to_job_and_each_leaves_in_time(
    campaigns: Campaigns, cluster: Cluster
) -> None:
    """The driver of each runs on a node, and asks for the next job when it leaves.

    A minute is too short for 110 frames of half a second.
    """
    campaign = campaigns["chain"]
    deadline = time.monotonic() + 3 * PATIENCE_S
    while not (ends := campaign.records(End)) or ends[-1].outcome == "interrupted":
        assert time.monotonic() < deadline, campaign.directory.path.with_suffix(".log").read_text()[-3000:]
        time.sleep(0.5)
    state = State(read(campaign.directory.journal))
    check_nothing_is_lost(state, campaign.directory)
    assert [end.outcome for end in ends] == ["interrupted"] * (len(ends) - 1) + ["budget"]
    assert len(ends) > 1
    assert "job" in ends[0].reason
    begun = {walker.walker for walker in campaign.records(Joined)}  # one that comes while its job ends may be given up
    assert not [lost for lost in campaign.records(Lost) if lost.walker in begun]
    assert {session.host for session in campaign.records(Session)} <= set(cluster.nodes)


def test_nothing_is_left_in_the_queue(campaigns: Campaigns, cluster: Cluster) -> None:
    assert all(campaign.process.poll() is not None for campaign in campaigns.values())
    until(lambda: not cluster.answer("squeue", "-h"), look_s=0.2)
