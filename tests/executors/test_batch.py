"""Jobs that a killed driver left: found by their name, and cancelled, as each scheduler's documentation says.

The commands here print what that documentation and its users' listings show. A real Slurm is asked in tests/sites.
"""

from __future__ import annotations

import getpass
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from steersman.executors.batch import cancel, job_title, jobs_of
from steersman.executors.schedulers.registry import SCHEDULERS
from steersman.executors.schedulers.scheduler import Block
from steersman.executors.site import Site
from tests.executors.conftest import Commands

NODE = {"nodes": 1, "workers": 1, "walltime_s": 60}
# `qstat -r` of Grid Engine, of three jobs: the table cuts names after ten characters.
ROW = """{job:>7} 0.55500 {cut:10} me           {state:5} 11/16/2026 10:36:59 all.q@n1                          32
       Full jobname:     {name}
       Master Queue:     all.q@n1
       Requested PE:     mpi 32
       Granted PE:       mpi 32
       Hard Resources:   h_rt=5400 (0.000000)
                         exclusive=1 (0.000000)
       Soft Resources:
"""
HEAD = (
    "job-ID  prior   name       user         state submit/start at     queue                          slots\n"
    f"{'-' * 104}\n"
)


def table(*rows: tuple[int, str, str]) -> str:
    return HEAD + "".join(ROW.format(job=job, cut=name[:10], state=state, name=name) for job, state, name in rows)


class Lookup(NamedTuple):
    """How jobs of a name are asked for, and the answer where there are none: what it prints, to stderr, its code."""

    command: str
    asked: str
    none: tuple[str, str, int]
    settings: dict[str, Any]
    script: str
    ends: str


LOOKUPS = {
    # qselect(1B) of OpenPBS 23.06: ids, a line each; of finished jobs only with -x.
    "pbs": Lookup("qselect", "-u {user} -N {title}", ("", "", 0), {}, "#PBS -N {title}", "qdel 17.login 18.login"),
    # bjobs of LSF 10.1: own jobs that have not finished; a field without a width is never cut.
    "lsf": Lookup(
        "bjobs", "-noheader -o jobid -J {title}", ("", "Job <{title}> is not found\n", 255), {}, "#BSUB -J {title}",
        "bkill 17 18",
    ),
    # flux-jobs(1): own jobs that wait or run.
    "flux": Lookup(
        "flux", "jobs -n -o {{id.f58}} --name={title}", ("", "", 0), {}, "#flux: --job-name={title}",
        "flux cancel ƒM7Zq9AKHno ƒM7Zq9AKHnp",
    ),
    "sge": Lookup(
        "qstat", "-r -u {user}", (table((9, "r", "steersman-other-0123abcd")), "", 0), {"pe": "mpi"}, "#$ -N {title}",
        "qdel 17 18",
    ),
}  # fmt: skip


def test_every_scheduler_is_looked_up() -> None:
    """Slurm's is on a real one, in tests/sites."""
    assert {*LOOKUPS, "slurm"} == SCHEDULERS.keys()


@pytest.mark.parametrize("scheduler", LOOKUPS)
def test_jobs_that_a_killed_driver_left_are_found_by_the_name_that_they_were_given_and_cancelled(
    scheduler: str, commands: Commands, tmp_path: Path
) -> None:
    """Those of this run only."""
    lookup, run = LOOKUPS[scheduler], tmp_path / ("fold ö v1.2 " + "x" * 60)
    site = Site.model_validate({"name": "m", "simulation": NODE, scheduler: lookup.settings})
    assert site.scheduler is not None
    command, *words = site.scheduler.CANCEL.split()
    for other in {*site.scheduler.COMMANDS, command}:
        commands.says(other)
    title = job_title(run)
    script = [f"{site.scheduler.PREFIX} {line}" for line in site.scheduler.header(Block(title, tmp_path, 1, 60.0))]
    assert lookup.script.format(title=title) in script

    out, err, code = lookup.none
    commands.says(lookup.command, out, err.format(title=title), code)
    assert jobs_of(site, run) == []
    assert commands.asked(lookup.command) == lookup.asked.format(user=getpass.getuser(), title=title) + "\n"

    jobs = lookup.ends.removeprefix(site.scheduler.CANCEL).split()
    rows = [(8, "r", "steersman-other-0123abcd"), (17, "r", title), (18, "qw", title), (19, "r", f"{title}-2")]
    commands.says(lookup.command, table(*rows) if scheduler == "sge" else "\n".join([*jobs, ""]))
    assert jobs_of(site, run) == jobs
    commands.says(command)
    assert cancel(site, jobs) == ""
    assert commands.asked(command).splitlines()[-1] == " ".join([*words, *jobs])


def test_what_a_scheduler_says_against_cancelling_is_told(commands: Commands) -> None:
    """As qdel of OpenPBS does of a job that has ended meanwhile."""
    commands.says("qdel", "", "qdel: Job has finished 17.login\n", 35)
    site = Site.model_validate({"name": "m", "simulation": NODE, "pbs": {}})
    assert cancel(site, ["17.login"]) == "qdel: Job has finished 17.login"


@pytest.mark.parametrize("name", ["fold", "fold v1.2", "äöü", "9", "-", "." * 99, "x" * 255])
def test_no_scheduler_cuts_or_refuses_the_name(name: str, tmp_path: Path) -> None:
    """It begins with a letter, for PBS and Grid Engine.

    PBS takes 230 characters of letters, digits and +-_. since 18.1, which brought the JSON that is read of it
    (check_job_name in ck_job_name.c of OpenPBS); Grid Engine 512 without /:@*?\\, LSF 4094, Slurm some hundreds.
    """
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9._-]{,229}", job_title(tmp_path / name))
    assert job_title(tmp_path / name) != job_title(tmp_path / "other" / name)
