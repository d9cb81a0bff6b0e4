"""Campaigns on the cluster of slurm.py: what they simulate, their site files, and what is asked of one that runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from steersman.journal import file as journal
from steersman.journal.records import Joined, Record
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.remote.submitted import Submitted
from steersman.remote.wire import PROTOCOL, encode
from tests.sites.slurm import Cluster

R = TypeVar("R", bound=Record)
TICKS = """
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
SCORED = f"""{TICKS}
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
import os, shlex, subprocess, sys
from pathlib import Path
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
LABELLED = (
    RANKS.replace("budget(frames=20))", "budget(frames=20) & budget(labels=1))")
    + f"""
    out.label()

@wf.label()
def over_nodes_too(p, frame):
    program = [*shlex.split(os.environ["PARSL_MPI_PREFIX"]), sys.executable, "-c", {PROGRAM!r}]
    subprocess.run(program, check=True)
    total, ranks, nodes = map(float, Path("frames.txt").read_text().splitlines()[-1].split())
    return {{"total": total, "ranks": ranks, "nodes": nodes}}
"""
)
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
WORKFLOWS = {"mpi": LABELLED, "pbs-mpi": RANKS, "together": TRAINED, "inside": SCORED}
SITES = {  # in the order in which they begin: first those that wait longest
    "chain": """
simulation: {nodes: 4, workers: 1, walltime_s: 600}
training: {workers: 1}
slurm: {partition: nowhere, account: nobody}    # what is asked for is not, inside of a job
needs: [account]
margin_s: 15
""",
    "inside": """
inside: true
simulation: {workers: 1}
training: {nodes: 1, workers: 1}
""",
    "nodes": """
simulation: {nodes: 2, workers: 2, gpus: 2, walltime_s: 60, ahead_s: 20, scratch: /dev/shm}
training: {workers: 1}
slurm: {partition: debug, account: science, qos: one_runs, options: ["--gpus-per-node=2"]}
margin_s: 15
""",
    "unreachable": """
simulation: {nodes: 1, workers: 1, walltime_s: 600}
slurm: {partition: debug}
interface: lo    # a node that is told so looks for the driver on itself
starts_s: 20    # Parsl's workers themselves give up after 30 s
""",
    "blocked": """
simulation: {nodes: 1, workers: 1, walltime_s: 600}
slurm: {partition: debug}
worker_init: echo waiting for a licence >&2; sleep 600
starts_s: 20
""",
    "faults": """
simulation: {nodes: 1, blocks: 2, workers: 1, walltime_s: 600, scratch: /dev/shm/frames}    # each node has its own
training: {workers: 1}
slurm: {partition: debug}
heartbeat_s: 1
""",
    "partly": """
simulation: {nodes: 3, workers: 1, walltime_s: 600}
training: {workers: 1}
slurm: {partition: apart}
worker_init: "[ $(uname -n) = login ] || module load licence"
starts_s: 45
tunnel: 10.44.0.124    # GATEWAY's, to 127.0.0.1 of the login host
ports: [50000, 50008]
""",
    "together": """
together: true
simulation: {nodes: 1, workers: 1, walltime_s: 600}
training: {nodes: 2, workers: 1, gpus: 2, walltime_s: 600, scratch: /dev/shm/windows}
scoring: {nodes: 1, workers: 1, walltime_s: 600}
slurm: {partition: debug, options: ["--gpus-per-node=2"]}
""",
    "queued": """
simulation: {nodes: 1, blocks: 2, workers: 1, walltime_s: 600}
training: {workers: 1}
slurm: {partition: debug, account: science, qos: one_waits, options: [--hold]}
""",
    "pbs": """
simulation: {nodes: 2, workers: 1, gpus: 1, walltime_s: 600}
training: {workers: 1}
pbs: {queue: workq, cpus: 2, select: ngpus=1}
worker_init: export PATH=$PBS_O_PATH    # a job begins with a clean environment
""",
    "broken": """
simulation: {nodes: 1, workers: 1, walltime_s: 600}
training: {workers: 1}
pbs: {queue: workq}
worker_init: source /nowhere/bin/activate || exit 1
""",
    "mpi": """
simulation: {nodes: 2, mpi: {nodes: 2, ranks: 2, launcher: srun, options: --mpi=pmi2}, walltime_s: 600}
training: {workers: 1}
labelling: {nodes: 2, mpi: {nodes: 2, ranks: 1, launcher: srun, options: --mpi=pmi2}, walltime_s: 600}
slurm: {partition: debug}
""",
    "pbs-mpi": """
simulation: {nodes: 2, mpi: {nodes: 2, ranks: 2, launcher: mpiexec}, walltime_s: 600}
training: {workers: 1}
pbs: {queue: workq, cpus: 2}
worker_init: export PATH=$PBS_O_PATH
""",
}
IN_ROUNDS = ("partly",)
GATEWAY = "n24"  # the last that campaigns are given
PATIENCE_S = 120.0
SIDE_BY_SIDE = 7
# As the command line does, without drawing a report: that would be half of a small campaign's processor time.
DRIVE = """
import sys
from pathlib import Path
from steersman.engine import campaign
wish = campaign.plan(sys.argv[1], site=sys.argv[2], rounds="rounds" in sys.argv)
run = campaign.begin(wish, run_dir=Path(sys.argv[3]))
run.execute()
"""
# `sbatch --wait` looks at its job once a minute in the end.
SUBMIT_AND_WAIT = """
job=$(sbatch --parsable "$@") && while squeue -h -j $job -o %i | grep -q .; do sleep 0.2; done
scontrol show job $job | grep -q ExitCode=0:0
"""
RESUME = """
import sys
from pathlib import Path
from steersman.engine import campaign
from steersman.journal.run_directory import RunDirectory
campaign.resume(RunDirectory(Path(sys.argv[1]))).execute()
"""


@dataclass
class Campaign:
    """A run on the cluster, driven from its login host."""

    process: subprocess.Popen[bytes]
    directory: RunDirectory

    def records(self, kind: type[R]) -> list[R]:
        file = self.directory.journal
        return list(journal.read(file, kind)) if file.exists() else []

    def until(self, ready: Callable[[], bool]) -> None:
        """Wait for what the run writes down."""
        deadline = time.monotonic() + 2 * PATIENCE_S  # beside other tests, on two cores
        while not ready():
            log = self.directory.path.with_suffix(".log")
            assert self.process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, log.read_text()[-3000:]
            time.sleep(0.1)

    def joined(self, count: int) -> list[Joined]:
        """The first `count` walkers, once they have begun; waits for them."""
        self.until(lambda: len(self.records(Joined)) >= count)
        return self.records(Joined)[:count]

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
        assert state.end.outcome == outcome, state.end
        return state


def begun(site: str, folder: Path, cluster: Cluster) -> Campaign:
    """A campaign on one of SITES; its files lie in the folder."""
    if site == "chain":
        return chained(folder, cluster)
    if site == "inside":
        return submitted(folder, cluster)
    at = folder / site
    workflow, file = at.with_suffix(".py"), at.with_suffix(".yaml")
    workflow.write_text(WORKFLOWS.get(site, TICKS))
    file.write_text(SITES[site])
    words = [sys.executable, "-c", DRIVE, str(workflow), str(file), str(at)]
    return Campaign(_started(cluster, at, *words, *["rounds"] * (site in IN_ROUNDS)), RunDirectory(at))


def chained(folder: Path, cluster: Cluster) -> Campaign:
    """A campaign as a chain of jobs of a minute each, with a site's file; the first of them is in the queue."""
    at = folder / "chain"
    at.with_suffix(".py").write_text(TICKS.replace("hours=1", "frames=95").replace("0.05", "0.5"))
    at.with_suffix(".yaml").write_text(SITES["chain"])
    script = Path(__file__).parents[2] / "examples" / "job_chain.sh"
    next_job = f"sbatch --output={at}.log --open-mode=append --nodes=1 --time=1 --exclusive {script}"
    said = {
        "RUN": str(at), "WORKFLOW": f"{at}.py", "SITE": f"{at}.yaml", "NEXT": next_job,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    process = subprocess.Popen(cluster.on_login("env", *map("=".join, said.items()), *next_job.split()))
    assert process.wait(PATIENCE_S) == 0
    return Campaign(process, RunDirectory(at))


def submitted(folder: Path, cluster: Cluster) -> Campaign:
    """A campaign as `submit --where allocation` begins it, with a site's file: its driver is the task of an endpoint's
    job, which is waited for. The job's processes have OF_RUN in their environment."""
    run = Submitted(str(folder), "inside")
    run.path.mkdir(parents=True)
    (run.path / "inside.py").write_text(WORKFLOWS["inside"])
    (run.path / "inside.yaml").write_text(SITES["inside"])
    run.ask(["run", "inside.py", "--site", "inside.yaml", "--run-dir", str(run.run)], "allocation")
    (run.path / "request").write_text(request(run, "drive"))
    task = f"exec {sys.executable} -m steersman.remote.there < {run.path}/request"
    job = ["--nodes=3", "--ntasks-per-node=1", "--time=10", "--exclusive", f"--output={run.run}.log", f"--wrap={task}"]
    words = ["env", f"OF_RUN={run.run}", "bash", "-c", SUBMIT_AND_WAIT, "sbatch", *job]
    return Campaign(subprocess.Popen(cluster.on_login(*words)), RunDirectory(run.run))


def request(run: Submitted, question: str, **values: float) -> str:
    """What an endpoint is asked about a run, as it travels."""
    questions = [(question, values)]
    return encode({"protocol": PROTOCOL, "folder": str(run.folder), "run": run.name, "questions": questions})


class Campaigns(dict[str, Campaign]):
    """Those of SITES. Each begins when a test asks for it or for one before it, a few side by side: they only sleep,
    but all their workers at once would take two cores minutes to start."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self._folder, self._cluster = folder, cluster

    def __getitem__(self, name: str) -> Campaign:
        for later in (name, *SITES):
            running = sum(campaign.process.poll() is None for campaign in self.values())
            if later not in self and (later == name or running < SIDE_BY_SIDE):
                self[later] = begun(later, self._folder, self._cluster)
        return super().__getitem__(name)


def resumed(campaign: Campaign, cluster: Cluster) -> Campaign:
    """The same run, gone on with by another driver."""
    at = campaign.directory.path
    return Campaign(_started(cluster, at, sys.executable, "-c", RESUME, str(at)), campaign.directory)


def _started(cluster: Cluster, at: Path, *words: str) -> subprocess.Popen[bytes]:
    with at.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(cluster.on_login(*words), stdout=log, stderr=log)


def check_nothing_is_lost(state: State, directory: RunDirectory) -> None:
    """Every start counts at most once; what the journal counts is what the store holds."""
    counted = Counter(segment.start for segment in state.segments if segment.counts and segment.end is not None)
    assert set(counted.values()) <= {1}
    assert state.frames > 0
    for walker in directory.frames.walkers():
        assert state.walkers[int(walker[1:])].frames == directory.frames.count(walker)
