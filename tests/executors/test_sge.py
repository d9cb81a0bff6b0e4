"""Grid Engine: a submit script, and answers as a real 8.1.9 gave them, or where it could not its manual pages."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from parsl.jobs.states import JobState

from steersman.executors.allocation import Allocation, allocation
from steersman.executors.errors import BadSite
from steersman.executors.launcher import words
from steersman.executors.parsl_config import provider, submit_scripts
from steersman.executors.preflight import ready
from steersman.executors.schedulers.sge import Sge
from steersman.executors.site import Site
from steersman.executors.site_files import load_site
from tests.executors.conftest import Commands

NODES = {"nodes": 2, "workers": 4, "walltime_s": 5400}
HOSTS = "n1 16 all.q@n1 UNDEFINED\nn1 16 more.q@n1 UNDEFINED\nn2 16 all.q@n2 UNDEFINED\nn3 16 all.q@n3 UNDEFINED\n"
TABLE = """job-ID  prior   name       user         state submit/start at     queue                           slots
-----------------------------------------------------------------------------------------------------------------
     17 0.55500 parsl.simu me           {:5} 11/22/2026 10:00:00 all.q@n1                          32
"""


@pytest.fixture
def site() -> Site:
    asked = {"pe": "mpi", "cpus": 16, "queue": "all.q", "account": "lab", "options": ["-l exclusive=true"]}
    return Site.model_validate({"name": "m", "interface": "lo", "simulation": NODES, "sge": asked})


def test_the_script_says_what_the_site_file_says(site: Site) -> None:
    lines = submit_scripts(site)["simulation"].splitlines()
    directives = [line for line in lines if line.startswith("#$ ")]
    assert lines[1 : 1 + len(directives)] == directives
    options = ("-pe mpi 32", "-l h_rt=01:30:00", "-q all.q", "-P lab", "-l exclusive=true", "-r n", "-S /bin/bash")
    assert {f"#$ {option}" for option in options} <= set(directives)


@pytest.mark.parametrize(
    ("letters", "state"),
    [
        *((letters, JobState.PENDING) for letters in ("qw", "hqw", "hRwq")),
        *((letters, JobState.RUNNING) for letters in ("r", "t", "Rr", "s", "S", "T", "tT", "RtS", "dr", "dRt")),
        *((letters, JobState.FAILED) for letters in ("Eqw", "Ehqw", "EhRqw")),
    ],
)
def test_states_are_those_of_sge_status(letters: str, state: JobState, commands: Commands, site: Site) -> None:
    made, job = _submitted(site, commands)
    commands.says("qstat", TABLE.format(letters))
    assert made.status([job])[0].state is state


def test_a_job_that_qstat_does_not_show_has_ended_unless_nobody_answered(commands: Commands, site: Site) -> None:
    made, job = _submitted(site, commands)
    commands.says(
        "qstat", "", "error: unable to send message to qmaster using port 6444 on host m: got send error\n", 1
    )
    assert made.status([job])[0].state is JobState.PENDING
    commands.says("qstat", TABLE.format("r").replace("17", "18"))
    assert made.status([job])[0].state is JobState.COMPLETED


def _submitted(site: Site, commands: Commands) -> tuple[Any, str]:
    (commands.folder / "id").symlink_to("/usr/bin/id")
    commands.says("qsub", "17\n")
    made = provider(site, "simulation")
    made.script_dir = str(commands.folder)
    return made, made.submit("process_worker_pool.py", 1, "parsl.simulation.block-0")


def test_grid_engine_says_why_a_job_waits(commands: Commands, site: Site) -> None:
    waits = 'script_file: x\nscheduling info:            cannot run in PE "mpi" because it only offers 1 slots\n'
    commands.says("qstat", waits)
    assert provider(site, "simulation").why_queued("17") == 'cannot run in PE "mpi" because it only offers 1 slots'


def test_before_a_run_qsub_verifies_the_script(commands: Commands, site: Site) -> None:
    for command in ("qstat", "qdel"):
        commands.says(command)
    commands.says("qsub", "verification: found suitable queue(s)\n")
    ready(site)
    assert commands.asked("qsub").startswith("-w v ")
    commands.says(
        "qsub", "", 'Unable to run job: job rejected: the requested project "lab" does not exist\nExiting.\n', 1
    )
    with pytest.raises(BadSite) as refused:
        ready(site)
    assert "Unable to run" in refused.value.problem


def test_a_program_starts_once_on_each_node_and_a_failure_is_that_of_all(tmp_path: Path, site: Site) -> None:
    """The launcher's words themselves, with qrsh(1)'s arguments, on the second and third of a job's three hosts."""
    (tmp_path / "hosts").write_text(HOSTS)
    (tmp_path / "qrsh").write_text('#!/bin/bash\n[ "$1 $2" = "-inherit -V" ] && HOST=$3 exec "${@:4}"\n')
    (tmp_path / "qrsh").chmod(0o755)
    (tmp_path / "start").write_text(f"echo $HOST >> {tmp_path}/started\n[ $HOST != n3 ]\n")
    part = Sge.PART.replace("{range}", "2,3")
    script = f"export PATH={tmp_path}:$PATH PE_HOSTFILE={tmp_path}/hosts\n{part}\n"
    script += f"{words(site, 'simulation')} /bin/bash {tmp_path}/start"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert sorted((tmp_path / "started").read_text().split()) == ["n2", "n3"], done.stderr
    assert done.returncode == 1


def test_inside_a_job_its_hosts_are_counted(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(HOSTS)
    environment = {"SGE_JOB_SPOOL_DIR": "/var/spool", "PE_HOSTFILE": str(tmp_path / "hosts")}
    assert allocation(environment) == Allocation(3, None)


def test_it_is_changed_from_the_command_line_like_the_others() -> None:
    assert load_site("sge", {"queue": "all.q"}).scheduler == load_site("sge", {"sge.queue": "all.q"}).scheduler
    with pytest.raises(BadSite):
        load_site("sge", {"sge.pe": ""})
