"""PBS, LSF and Flux: submit scripts, and answers as their documentation (PBS: a real OpenPBS 23.06) gives them.

The commands here are scripts that print those answers: nothing else of these schedulers can be had. PBS runs campaigns
in tests/sites, in front of a real Slurm.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from parsl.jobs.states import JobState, JobStatus
from parsl.providers.errors import SubmitException

from steersman.engine import tasks
from steersman.executors import schedulers
from steersman.executors.allocation import Allocation, allocation, settled
from steersman.executors.errors import BadSite
from steersman.executors.parsl_config import parsl_config, provider, submit_scripts
from steersman.executors.registration import NoWorkers, Registration
from steersman.executors.site import Site
from steersman.executors.site_files import load_site

NODES = {"nodes": 2, "workers": 4, "gpus": 4, "walltime_s": 5400}
ASKED: dict[str, dict[str, Any]] = {
    "pbs": {"queue": "debug", "account": "lab", "cpus": 64, "select": "ngpus=4", "options": ["-l filesystems=home"]},
    "lsf": {"queue": "debug", "account": "lab", "cpus": 32, "options": ['-gpu "num=4"']},
    "flux": {"queue": "debug", "account": "lab", "options": ["--setattr=user.note=fold"]},
}


def site(scheduler: str, **more: Any) -> Site:
    return Site.model_validate({"name": "m", "simulation": NODES, scheduler: ASKED[scheduler]} | more)


class Commands:
    """Commands on PATH that print what a scheduler's documentation shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def says(self, command: str, out: str = "", err: str = "", code: int = 0) -> None:
        (self.folder / "out").mkdir(exist_ok=True)
        (self.folder / "out" / command).write_text(out)
        (self.folder / "out" / f"{command}.err").write_text(err)
        at = self.folder / "out" / command
        script = f'#!/bin/sh\necho "$@" >> {at}.asked\n/bin/cat {at}\n/bin/cat {at}.err >&2\nexit {code}\n'
        (self.folder / command).write_text(script)
        (self.folder / command).chmod(0o755)

    def asked(self, command: str) -> str:
        return (self.folder / "out" / f"{command}.asked").read_text()


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return Commands(tmp_path)


def submitted(which: str, folder: Path) -> tuple[Any, str]:
    """A provider with a block submitted, and the job's id."""
    made = provider(site(which), "simulation")
    (folder / "scripts").mkdir()
    made.script_dir = str(folder / "scripts")
    return made, made.submit("process_worker_pool.py", 1, "parsl.simulation.block-0")


def state_of(made: Any, job: str) -> JobState:
    return JobState(made.status([job])[0].state)


def test_the_script_for_pbs_says_what_the_site_file_says() -> None:
    script = submit_scripts(site("pbs"))["simulation"]
    for line in (
        "#PBS -l walltime=01:30:00", "#PBS -l select=2:ncpus=64:ngpus=4", "#PBS -l filesystems=home", "#PBS -r n",
        "cd $PBS_O_WORKDIR", "mpiexec -n 2 --ppn 1 --hostfile $PBS_NODEFILE /bin/bash $RUN/$JOBNAME.start",
    ):  # fmt: skip
        assert line in script.splitlines()


def test_the_script_for_lsf_says_what_the_site_file_says() -> None:
    script = submit_scripts(site("lsf"))["simulation"]
    for line in (
        "#BSUB -W 90", "#BSUB -P lab", "#BSUB -q debug", "#BSUB -n 64", '#BSUB -R "span[ptile=32]"', "#BSUB -rn",
        '#BSUB -gpu "num=4"',
        'blaunch -z "$(sort -u $LSB_DJOB_HOSTFILE | xargs)" /bin/bash $RUN/$JOBNAME.start',
    ):  # fmt: skip
        assert line in script.splitlines()


def test_the_script_for_flux_has_its_directives_together_and_first() -> None:
    """flux-batch(1): a directive after any other line is an error."""
    lines = submit_scripts(site("flux"))["simulation"].splitlines()
    directives = [line for line in lines if line.startswith("#flux: ")]
    assert lines[1 : 1 + len(directives)] == directives
    for option in (
        "--nodes=2", "--nslots=2", "--exclusive", "--time-limit=90m", "--queue=debug", "--bank=lab",
        "--setattr=user.note=fold",
    ):  # fmt: skip
        assert f"#flux: {option}" in directives


@pytest.mark.parametrize(("scheduler", "command"), [("pbs", "qsub"), ("lsf", "bsub"), ("flux", "flux")])
def test_to_show_a_script_nothing_is_submitted(scheduler: str, command: str, commands: Commands) -> None:
    commands.says(command, "17\n")
    submit_scripts(site(scheduler))["simulation"]
    assert not (commands.folder / "out" / f"{command}.asked").exists()


def test_a_site_names_what_starts_a_program_on_each_node() -> None:
    script = submit_scripts(site("lsf", launcher="jsrun -n {nodes} -r 1"))["simulation"]
    assert "jsrun -n 2 -r 1 /bin/bash $RUN/$JOBNAME.start" in script


def test_the_workers_environment_does_not_hide_the_sites_mpiexec() -> None:
    """It may hold a mpiexec of its own, which knows nothing of the job."""
    script = submit_scripts(site("pbs"))["simulation"]
    assert script.index("cat > $RUN") < script.index("export PATH=") < script.index("\nEOF\n") < script.index("mpiexec")


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"job_state": "Q"}, JobState.PENDING),
        ({"job_state": "R"}, JobState.RUNNING),
        ({"job_state": "E", "Exit_status": 3}, JobState.FAILED),
        ({"job_state": "F", "Exit_status": 0}, JobState.COMPLETED),
        ({"job_state": "F", "Exit_status": 3}, JobState.FAILED),
        ({"job_state": "F", "Exit_status": -29}, JobState.TIMEOUT),
        ({"job_state": "S"}, JobState.RUNNING),
    ],
)
def test_states_of_pbs(answer: dict[str, Any], state: JobState, commands: Commands, tmp_path: Path) -> None:
    """Parsl's own provider takes every end for a good one."""
    commands.says("qsub", "1.login\n")
    made, job = submitted("pbs", tmp_path)
    assert "-q debug -A lab" in commands.asked("qsub")
    commands.says("qstat", json.dumps({"pbs_version": "23.06.06", "Jobs": {"1.login": answer}}))
    assert state_of(made, job) is state


def test_a_job_that_pbs_has_forgotten_has_ended(commands: Commands, tmp_path: Path) -> None:
    commands.says("qsub", "1.login\n")
    made, job = submitted("pbs", tmp_path)
    commands.says("qstat", json.dumps({"pbs_version": "23.06.06"}), "qstat: Unknown Job Id 1.login\n", 153)
    assert state_of(made, job) is JobState.COMPLETED


@pytest.mark.parametrize("nonsense", ["", "qstat: cannot connect to server login (errno=111)", "{]", '{"Jobs": [1]}'])
def test_an_answer_that_cannot_be_read_changes_nothing(nonsense: str, commands: Commands, tmp_path: Path) -> None:
    """Parsl's poller would end with the exception, and the run would wait for ever."""
    commands.says("qsub", "1.login\n")
    made, job = submitted("pbs", tmp_path)
    commands.says("qstat", nonsense, code=1)
    assert state_of(made, job) is JobState.PENDING


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("123 PEND", JobState.PENDING), ("123 RUN", JobState.RUNNING), ("123 USUSP", JobState.RUNNING),
        ("123 DONE", JobState.COMPLETED), ("123 EXIT", JobState.FAILED),
    ],
)  # fmt: skip
def test_states_of_lsf(said: str, state: JobState, commands: Commands, tmp_path: Path) -> None:
    """A suspended job goes on one day; Parsl takes it for a cancelled one, and would put another beside it."""
    commands.says("bsub", "Job <123> is submitted to queue <debug>.\n")
    made, job = submitted("lsf", tmp_path)
    assert job == "123"
    commands.says("bjobs", f"{said}\n")
    assert state_of(made, job) is state


def test_a_job_that_lsf_has_forgotten_has_ended(commands: Commands, tmp_path: Path) -> None:
    commands.says("bsub", "Job <123> is submitted to queue <debug>.\n")
    made, job = submitted("lsf", tmp_path)
    commands.says("bjobs", "", "Job <123> is not found\n", 255)
    assert state_of(made, job) is JobState.COMPLETED


def test_a_refusal_of_lsf_is_told_in_its_words_and_not_asked_for_again_at_once(
    commands: Commands, tmp_path: Path
) -> None:
    commands.says("bsub", "", "nowhere: No such queue. Job not submitted.\n", 255)
    made = provider(site("lsf"), "simulation")
    made.script_dir = str(tmp_path)
    for _ in range(3):
        with pytest.raises(Exception, match="No such queue"):
            made.submit("process_worker_pool.py", 1, "parsl.simulation.block-0")
    assert len(commands.asked("bsub").splitlines()) == 1


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("DEPEND", JobState.PENDING), ("SCHED", JobState.PENDING), ("RUN", JobState.RUNNING),
        ("COMPLETED", JobState.COMPLETED), ("FAILED", JobState.FAILED), ("CANCELED", JobState.CANCELLED),
        ("TIMEOUT", JobState.TIMEOUT),
    ],
)  # fmt: skip
def test_states_of_flux(said: str, state: JobState, commands: Commands, tmp_path: Path) -> None:
    """As flux-jobs(1) names them; the id is that of the example in flux-batch(1)."""
    commands.says("flux", "ƒM7Zq9AKHno\n")
    made, job = submitted("flux", tmp_path)
    assert job == "ƒM7Zq9AKHno"
    commands.says("flux", f"ƒM7Zq9AKHno {said}\n")
    assert state_of(made, job) is state
    assert made.cancel([job]) == [True]
    assert commands.asked("flux").splitlines()[-1] == "cancel ƒM7Zq9AKHno"


@pytest.mark.parametrize(
    "told", ["Invalid account or account/partition combination specified", "Invalid qos specification"]
)
def test_an_account_that_slurm_does_not_know_is_told_in_one_line(told: str, commands: Commands, tmp_path: Path) -> None:
    """The words of Slurm 22.05 with accounting on, as `sbatch --test-only` gave them."""
    for command in ("squeue", "scancel"):
        commands.says(command)
    commands.says("sbatch", "", f"allocation failure: {told}\n", 1)
    asked = Site.model_validate({"name": "m", "simulation": NODES, "slurm": {"account": "nobody"}})
    with pytest.raises(BadSite) as caught:
        schedulers.ask(asked, "simulation", "", tmp_path)
    assert str(caught.value).startswith(f"site m: Slurm refuses the simulation nodes: {told}  (asked by: sbatch")
    assert "\n" not in str(caught.value)


def test_before_a_run_each_scheduler_is_asked_in_its_own_way(commands: Commands, tmp_path: Path) -> None:
    limits = {"resources_max": {"walltime": "01:00:00"}}
    queue = {"Queue": {"debug": {"enabled": "True", "started": "True"} | limits}}
    for command in ("qsub", "qdel", "bsub", "bjobs", "bkill"):
        commands.says(command)
    commands.says("qstat", json.dumps(queue))
    assert "queue debug is open, at most walltime 01:00:00" in schedulers.ask(site("pbs"), "simulation", "", tmp_path)
    commands.says("bqueues", "debug Open:Active\n")
    assert "queue debug is Open:Active" in schedulers.ask(site("lsf"), "simulation", "", tmp_path)
    commands.says("flux", "{}")
    assert "flux batch --dry-run accepts it" in schedulers.ask(site("flux"), "simulation", "", tmp_path)
    commands.says("qstat", "", "qstat: Unknown queue debug\n", 170)
    with pytest.raises(BadSite, match="PBS refuses the simulation nodes: qstat: Unknown queue debug"):
        schedulers.ask(site("pbs"), "simulation", "", tmp_path)


def test_inside_a_job_its_nodes_and_its_end_are_read(commands: Commands, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("n1\nn1\nn2\n")
    commands.says("squeue", "1-00:30:05\n")
    at = time.time()
    found = allocation({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3"})
    assert found is not None
    assert (found.scheduler, found.nodes) == ("slurm", 3)
    assert found.ends == pytest.approx(at + 88205, abs=5)
    commands.says("bjobs", "1:30 L\n")
    found = allocation({"LSB_JOBID": "7", "LSB_DJOB_HOSTFILE": str(hosts)})
    assert found is not None
    assert (found.scheduler, found.nodes) == ("lsf", 2)
    assert found.ends == pytest.approx(at + 5400, abs=5)
    stime = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(at))
    job = {"Resource_List": {"walltime": "00:02:00"}, "stime": stime}
    commands.says("qstat", json.dumps({"Jobs": {"7.login": job}}))
    found = allocation({"PBS_JOBID": "7.login", "PBS_NODEFILE": str(hosts)})
    assert found is not None
    assert (found.scheduler, found.nodes) == ("pbs", 2)
    assert found.ends == pytest.approx(at + 120, abs=5)
    commands.says("flux", "4\n")
    assert (allocation({"FLUX_URI": "local:///x"}) or Allocation("", 0, None)).nodes == 4
    commands.says("squeue", "UNLIMITED\n")
    assert allocation({"SLURM_JOB_ID": "7"}) == Allocation("slurm", 1, None)
    assert allocation({}) is None


def test_outside_of_any_job_one_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLUX_URI", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadSite, match="this is no job"):
        settled(load_site("inside"))


class Blocks:
    """What Registration looks at of Parsl's executor."""

    label, address, bad_state_is_set = "simulation", "10.0.0.1", False

    def __init__(self, folder: Path) -> None:
        self.script_dir, self.provider = str(folder), self
        self.worker_logdir = str(folder)
        self.blocks_to_job_id = {str(block): f"job {block}" for block in range(4)}
        self.connected: list[str] = []
        self.cancelled: list[str] = []
        self.cause: Exception | None = None

    def connected_blocks(self) -> list[str]:
        return self.connected

    def connected_managers(self) -> list[str]:
        return self.connected

    def cancel(self, jobs: list[str]) -> None:
        self.cancelled = jobs

    def set_bad_state_and_fail_all(self, cause: Exception) -> None:
        self.cause = cause


def states(*each: JobState) -> dict[str, JobStatus]:
    return {str(block): JobStatus(state) for block, state in enumerate(each)}


def test_three_blocks_without_a_worker_end_the_wait_with_their_last_words(tmp_path: Path) -> None:
    """Words that are not UTF-8 are told as well as they can be."""
    (tmp_path / "parsl.simulation.block-2.17.stderr").write_bytes(b"module: cannot load \xff\xfe cuda\n")
    blocks, missing = Blocks(tmp_path), JobState.MISSING
    Registration("m", 300)(blocks, states(missing, missing))
    assert blocks.cause is None
    Registration("m", 300)(blocks, states(missing, missing, missing, JobState.PENDING))
    assert isinstance(blocks.cause, NoWorkers)
    assert "module: cannot load" in str(blocks.cause)
    assert "block-2.17.stderr" in str(blocks.cause)
    assert blocks.cancelled == ["job 3"], "what is still in the queue does not stay there"


def test_while_some_workers_work_blocks_that_fail_are_asked_for_again(tmp_path: Path) -> None:
    blocks = Blocks(tmp_path)
    blocks.connected = ["3"]
    Registration("m", 300)(blocks, states(*3 * [JobState.FAILED], JobState.RUNNING))
    assert blocks.cause is None


def test_a_refusal_is_borne_for_a_while_and_then_told(tmp_path: Path) -> None:
    refused = {str(n): JobStatus(JobState.FAILED, "Failed to start block 0: QOSMaxSubmitJobLimit") for n in range(3)}
    blocks = Blocks(tmp_path)
    Registration("m", 300, refused_s=60)(blocks, refused)
    assert blocks.cause is None
    Registration("m", 300, refused_s=0)(blocks, refused)
    assert "QOSMaxSubmitJobLimit" in str(blocks.cause)


def test_who_waits_in_the_queue_is_told_why_once_for_each_job(commands: Commands, tmp_path: Path) -> None:
    commands.says("sbatch", "Submitted batch job 17\n")
    commands.says("squeue", "Resources\n")
    made = provider(Site.model_validate({"name": "m", "simulation": NODES, "slurm": {}}), "simulation")
    blocks, watch, hasty = Blocks(tmp_path), Registration("m", 300), Registration("m", 300, queued_s=0)
    blocks.provider, blocks.blocks_to_job_id = made, {"0": "17", "1": "18"}
    watch(blocks, states(JobState.PENDING))
    assert watch.waiting == "", "it may begin at once"
    for _ in range(3):
        hasty(blocks, states(JobState.PENDING))
        assert hasty.waiting == "simulation waits for nodes: job 17 is in the queue (Resources)"
    assert commands.asked("squeue").count("\n") == 1
    hasty(blocks, states(JobState.RUNNING))
    assert hasty.waiting == ""
    hasty(blocks, states(JobState.COMPLETED, JobState.PENDING))
    assert "job 18" in hasty.waiting
    hasty(blocks, {"0": JobStatus(JobState.FAILED, "Failed to start block 0: sbatch timed out")})
    assert hasty.waiting.startswith("no job is taken for simulation so far, it is tried again: ")
    assert "sbatch timed out" in hasty.waiting


def test_a_submission_that_does_not_end_is_ended_and_its_words_are_told(commands: Commands, tmp_path: Path) -> None:
    """Slurm's sbatch waits so for room in a full queue; one that went on would submit a job that nobody knows of."""
    made = provider(Site.model_validate({"name": "m", "simulation": NODES, "slurm": {}}), "simulation")
    made.script_dir, made.cmd_timeout = str(tmp_path), 0.5
    waits = f"#!/bin/sh\necho $$ > {tmp_path}/pid\necho unable to accept job, sleeping and retrying >&2\nsleep 60\n"
    (tmp_path / "sbatch").write_text(waits)
    (tmp_path / "sbatch").chmod(0o755)
    with pytest.raises(SubmitException, match=r"sleeping and retrying \(ended, for it had no answer within 0.5 s\)"):
        made.submit("process_worker_pool.py", 1, "parsl.simulation.block-0")
    with contextlib.suppress(psutil.NoSuchProcess):  # or it is dead, and nobody has looked yet
        assert psutil.Process(int((tmp_path / "pid").read_text())).status() == psutil.STATUS_ZOMBIE


def test_pbs_says_why_a_job_waits(commands: Commands, tmp_path: Path) -> None:
    """As qstat(1B) prints the comment of a job's scheduler."""
    commands.says("qstat", "Job Id: 7.pbs\n    job_state = Q\n    comment = Not Running: Not enough free nodes\n")
    assert provider(site("pbs"), "simulation").why_queued("7.pbs") == "Not Running: Not enough free nodes"
    assert provider(site("lsf"), "simulation").why_queued("7") == ""


def test_a_block_that_runs_in_silence_is_told_of(tmp_path: Path) -> None:
    blocks = Blocks(tmp_path)
    watch = Registration("m", silent_s=-1)
    watch(blocks, states(JobState.RUNNING))
    assert "they have not started there; does `worker_init` end" in str(blocks.cause)
    assert blocks.cancelled == ["job 0"]
    (tmp_path / "block-0" / "4f").mkdir(parents=True)
    (tmp_path / "block-0" / "4f" / "manager.log").touch()
    watch(blocks, states(JobState.RUNNING))
    assert "they start there and do not reach 10.0.0.1" in str(blocks.cause)


def test_a_job_that_accounting_does_not_know_yet_has_not_ended(commands: Commands, tmp_path: Path) -> None:
    """sacct shows a new job up to seconds late; Parsl takes that for its end, for good."""
    commands.says("sacct")
    commands.says("sbatch", "Submitted batch job 17\n")
    asked = Site.model_validate({"name": "m", "simulation": NODES, "slurm": {}})
    made = provider(asked, "simulation")
    made.script_dir = str(tmp_path)
    job = made.submit("process_worker_pool.py", 1, "parsl.simulation.block-0")
    assert state_of(made, job) is JobState.PENDING
    commands.says("sacct", "17 RUNNING\n")
    assert state_of(made, job) is JobState.RUNNING
    commands.says("sacct", "17 COMPLETED\n")
    assert state_of(made, job) is JobState.COMPLETED


@pytest.mark.parametrize("scheduler", ["slurm", "pbs", "lsf", "flux"])
def test_a_dead_block_is_noticed_in_seconds_and_none_is_cancelled_before_it_starts(
    scheduler: str, commands: Commands, tmp_path: Path
) -> None:
    asked = site(scheduler) if scheduler in ASKED else load_site("slurm")
    assert provider(asked, "simulation").status_polling_interval == 5
    made = parsl_config(asked.model_copy(update={"interface": "lo"}), tmp_path)
    assert made.strategy == "simple"


def test_on_amds_gpus_one_variable_names_the_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES would count among what ROCR_VISIBLE_DEVICES leaves; Parsl sets both."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    tasks.begin(str(tmp_path), 0, int)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    monkeypatch.setattr(tasks, "AMD", tmp_path)
    tasks.begin(str(tmp_path), 0, int)
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
