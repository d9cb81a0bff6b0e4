"""PBS, LSF and Flux: submit scripts, and answers as their documentation (PBS: a real OpenPBS 23.06) gives them.

The commands here are scripts that print those answers: nothing else of these schedulers can be had. PBS runs campaigns
in tests/sites, in front of a real Slurm.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from parsl.jobs.states import JobState

from steersman.bus.addresses import TUNNEL
from steersman.executors.batch import outside_of_jobs
from steersman.executors.errors import BadSite, Refused
from steersman.executors.parsl_config import parsl_config, provider, submit_scripts
from steersman.executors.preflight import ready
from steersman.executors.schedulers.registry import SCHEDULERS
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.site import Site
from steersman.system.processes import lives
from steersman.worker import tasks
from tests.executors.conftest import Commands
from tests.waiting import until

NODES = {"nodes": 2, "workers": 4, "gpus": 4, "walltime_s": 5400}
ASKED: dict[str, dict[str, Any]] = {
    "pbs": {"queue": "debug", "account": "lab", "cpus": 64, "select": "ngpus=4", "options": ["-l filesystems=home"]},
    "lsf": {"queue": "debug", "account": "lab", "cpus": 32, "options": ['-gpu "num=4"']},
    "flux": {"queue": "debug", "account": "lab", "options": ["--setattr=user.note=fold"]},
    "slurm": {"partition": "debug", "account": "lab"},
}


def site(scheduler: str, **more: Any) -> Site:
    return Site.model_validate({"name": "m", "simulation": NODES, scheduler: ASKED[scheduler]} | more)


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


@pytest.mark.parametrize("scheduler", ASKED)
def test_a_block_reads_the_clock_before_anything_that_takes_time(scheduler: str) -> None:
    """Else it would take itself to end later than it does."""
    script = submit_scripts(site(scheduler, worker_init="module load slowly"))["simulation"]
    assert script.index("date +%s") < script.index("module load slowly")


@pytest.mark.parametrize(
    ("lines", "told", "code"),
    [
        ("module load cuda\nset -- fine", "failed with exit code 127: module load cuda\n", 0),
        ("source /nowhere/activate || exit 3", "failed with exit code 3: exit 3\n", 3),
        ("source ./end", "failed with exit code 4: source ./end\n", 4),
        ("source ./odd; trap 'rm odd' EXIT", "", 0),
    ],
)
def test_a_line_of_worker_init_that_fails_is_told_by_its_node_and_ends_nothing_by_itself(
    lines: str, told: str, code: int, tmp_path: Path
) -> None:
    """The script itself. What fails within a file that is sourced may mean nothing; what is trapped stays so."""
    (tmp_path / "odd").write_text("false\ntrue\n")
    (tmp_path / "end").write_text("exit 4\n")
    (tmp_path / "srun").write_text("#!/bin/sh\necho they start\n")
    (tmp_path / "srun").chmod(0o755)
    script = submit_scripts(site("slurm", worker_init=lines))["simulation"].replace("$RUN", str(tmp_path))
    done = subprocess.run(
        ["bash"], input=script, cwd=tmp_path, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    node = f"steersman: worker_init on {platform.node()} "
    assert "".join(line for line in done.stderr.splitlines(keepends=True) if line.startswith(node)) == (
        f"{node}{told}" if told else ""
    )
    assert (done.returncode, done.stdout) == (code, "" if code else "they start\n")
    assert (tmp_path / "odd").exists() == ("odd" not in lines)


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


def test_a_job_that_pbs_leaves_out_without_a_word_has_not_ended(commands: Commands, tmp_path: Path) -> None:
    """OpenPBS after 23.06 prints the first job of several only; another block would be put beside the others."""
    commands.says("qsub", "1.login\n")
    made, first = submitted("pbs", tmp_path)
    commands.says("qsub", "11.login\n")
    second = made.submit("process_worker_pool.py", 1, "parsl.simulation.block-1")
    commands.says("qstat", json.dumps({"Jobs": {"1.login": {"job_state": "R"}}}))
    assert [each.state for each in made.status([first, second])] == [JobState.RUNNING, JobState.PENDING]
    commands.says("qstat", json.dumps({"pbs_version": "23.06.06"}), "qstat: Unknown Job Id 11.login\n", 153)
    assert [each.state for each in made.status([first, second])] == [JobState.RUNNING, JobState.COMPLETED]


@pytest.mark.parametrize("nonsense", ["", "qstat: cannot connect to server login (errno=111)", "{]", '{"Jobs": [1]}'])
def test_an_answer_that_cannot_be_read_changes_nothing(nonsense: str, commands: Commands, tmp_path: Path) -> None:
    """The exception would end each look at the blocks of all executors before any is asked for."""
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
def test_an_account_that_slurm_does_not_know_is_told_in_one_line(told: str, commands: Commands) -> None:
    """The words of Slurm 22.05 with accounting on, as `sbatch --test-only` gave them."""
    for command in ("squeue", "scancel"):
        commands.says(command)
    commands.says("sbatch", "", f"allocation failure: {told}\n", 1)
    asked = Site.model_validate({"name": "m", "interface": "lo", "simulation": NODES, "slurm": {"account": "nobody"}})
    with pytest.raises(BadSite) as caught:
        ready(asked)
    assert str(caught.value).startswith(f"site m: Slurm refuses the simulation nodes: {told}  (asked by: sbatch")
    assert "\n" not in str(caught.value)


def test_before_a_run_each_scheduler_is_asked_in_its_own_way(commands: Commands, tmp_path: Path) -> None:
    def ask(scheduler: str) -> str:
        asked = site(scheduler).scheduler
        assert asked is not None
        return asked.ask(tmp_path / "script")

    limits = {"resources_max": {"walltime": "01:00:00"}}
    queue = {"Queue": {"debug": {"enabled": "True", "started": "True"} | limits}}
    commands.says("qstat", json.dumps(queue))
    assert "at most walltime 01:00:00" in ask("pbs")
    commands.says("bqueues", "debug Open:Active\n")
    assert "debug is Open:Active" in ask("lsf")
    commands.says("flux", "{}")
    assert "--dry-run accepts it" in ask("flux")
    commands.says("qstat", "", "qstat: Unknown queue debug\n", 170)
    with pytest.raises(Refused, match="Unknown queue debug"):
        ask("pbs")


def test_a_submission_that_does_not_end_is_ended_and_its_words_are_told(commands: Commands, tmp_path: Path) -> None:
    """Slurm's sbatch waits so for room in a full queue; one that went on would submit a job that nobody knows of."""
    made = provider(Site.model_validate({"name": "m", "simulation": NODES, "slurm": {}}), "simulation")
    made.script_dir, made.cmd_timeout = str(tmp_path), 0.5
    waits = f"#!/bin/sh\necho $$ > {tmp_path}/pid\necho unable to accept job, sleeping and retrying >&2\nsleep 60\n"
    (tmp_path / "sbatch").write_text(waits)
    (tmp_path / "sbatch").chmod(0o755)
    with pytest.raises(Refused, match=r"retrying.*0.5 s"):
        made.submit("process_worker_pool.py", 1, "parsl.simulation.block-0")
    until(lambda: not lives(int((tmp_path / "pid").read_text())))


def test_pbs_says_why_a_job_waits(commands: Commands, tmp_path: Path) -> None:
    """As qstat(1B) prints the comment of a job's scheduler."""
    commands.says("qstat", "Job Id: 7.pbs\n    job_state = Q\n    comment = Not Running: Not enough free nodes\n")
    assert provider(site("pbs"), "simulation").why_queued("7.pbs") == "Not Running: Not enough free nodes"
    assert provider(site("lsf"), "simulation").why_queued("7") == ""


def test_slurm_forgets_a_job_and_its_controller_may_be_away(commands: Commands, tmp_path: Path) -> None:
    """As squeue of 22.05 answers: a job that is not there any more has ended, one that is not answered for has not."""
    commands.says("sbatch", "Submitted batch job 17\n")
    made, job = submitted("slurm", tmp_path)
    commands.says("squeue", "", "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1)
    assert state_of(made, job) is JobState.PENDING
    commands.says("squeue", "17 SUSPENDED\n")
    assert state_of(made, job) is JobState.RUNNING
    commands.says("squeue", "", "slurm_load_jobs error: Invalid job id specified\n", 1)
    assert state_of(made, job) is JobState.COMPLETED


def test_a_scheduler_is_asked_as_seldom_as_the_site_says(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands.says("sbatch", "Submitted batch job 17\n")
    commands.says("squeue", "17 RUNNING\n")
    (executor,) = parsl_config(site("slurm", interface="lo", poll_s=60).serving(["simulation"]), tmp_path).executors
    executor.provider.script_dir, executor.launch_cmd = str(tmp_path), "process_worker_pool.py"
    executor.connected_blocks = list  # no interchange runs
    executor.scale_out_facade(1)
    for now_s, asked in ((1000, 1), (1001, 1), (1059.9, 1), (1060, 2), (1119.9, 2), (1120, 3)):
        monkeypatch.setattr("parsl.executors.status_handling.time", SimpleNamespace(time=lambda now_s=now_s: now_s))
        executor.poll_facade()
        assert commands.asked("squeue").count("--job=17") == asked


def test_workers_are_told_of_the_tunnel_and_servers_keep_to_the_ports_that_it_carries(tmp_path: Path) -> None:
    """Those on nodes only: a worker on the driver's machine needs none."""
    through = site("slurm", tunnel="10.1.0.7", ports=[50000, 50008])
    executors = {each.label: each for each in parsl_config(through, tmp_path).executors}
    simulation, training = executors["simulation"], executors["training"]
    assert (simulation.address, simulation.all_addresses) == ("127.0.0.1", {"10.1.0.7"})
    assert simulation.worker_port_range == training.worker_port_range == (50000, 50009)
    assert training.all_addresses == {"127.0.0.1"}
    assert f"export {TUNNEL}=10.1.0.7" in submit_scripts(through)["simulation"].splitlines()
    assert TUNNEL not in training.provider.worker_init


@pytest.mark.parametrize("scheduler", ["slurm", "pbs", "lsf", "flux"])
def test_a_dead_block_is_noticed_in_seconds_and_none_is_cancelled_before_it_starts(
    scheduler: str, commands: Commands, tmp_path: Path
) -> None:
    asked = site(scheduler)
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


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_what_is_submitted_inherits_nothing_of_the_job_that_the_driver_was_started_in(scheduler: str) -> None:
    """How its own commands find a scheduler is no part of a job."""
    jobs = {"SLURM_JOB_ID", "SLURM_CPU_BIND", "SLURM_MEM_PER_CPU", "PBS_JOBID", "PBS_NODEFILE", "PBS_O_WORKDIR",
            "LSB_HOSTS", "LSB_JOBID", "JOB_ID", "PE_HOSTFILE", "SGE_JOB_SPOOL_DIR", "SLURM_JOB_END_TIME"}  # fmt: skip
    kept = {"PATH", "SLURM_CONF", "SBATCH_ACCOUNT", "PBS_SERVER", "PBS_CONF_FILE", "LSF_ENVDIR", "LSB_DEFAULTQUEUE",
            "FLUX_URI", "SGE_ROOT", "SGE_CELL"}  # fmt: skip
    if SCHEDULERS[scheduler].IN_JOB not in kept:  # a Flux instance is found by what its jobs have
        jobs.add(SCHEDULERS[scheduler].IN_JOB)
    assert outside_of_jobs(dict.fromkeys(jobs | kept, "x")).keys() == kept


@pytest.mark.parametrize("kind", SCHEDULERS.values())
def test_a_scheduler_gives_all_that_a_run_asks_of_it(kind: type[Scheduler]) -> None:
    assert kind.lacks() == []
