"""What a job has, read from its environment and from answers as the documentation of schedulers gives them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from steersman.executors.allocation import Allocation, allocation, settled
from steersman.executors.errors import BadSite
from steersman.executors.site_files import load_site
from tests.executors.conftest import Commands


def test_inside_a_job_its_nodes_and_its_end_are_read(commands: Commands, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("n1\nn1\nn2\n")
    commands.says("squeue", "1-00:30:05\n")
    at = time.time()
    found = allocation({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3"})
    assert found is not None
    assert found.nodes == 3
    assert found.ends == pytest.approx(at + 88205, abs=5)
    commands.says("bjobs", "1:30 L\n")
    found = allocation({"LSB_JOBID": "7", "LSB_DJOB_HOSTFILE": str(hosts)})
    assert found is not None
    assert found.nodes == 2
    assert found.ends == pytest.approx(at + 5400, abs=5)
    stime = time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(at))
    job = {"Resource_List": {"walltime": "00:02:00"}, "stime": stime}
    commands.says("qstat", json.dumps({"Jobs": {"7.login": job}}))
    found = allocation({"PBS_JOBID": "7.login", "PBS_NODEFILE": str(hosts)})
    assert found is not None
    assert found.nodes == 2
    assert found.ends == pytest.approx(at + 120, abs=5)
    commands.says("flux", "4\n")
    assert (allocation({"FLUX_URI": "local:///x"}) or Allocation(0, None)).nodes == 4
    commands.says("squeue", "UNLIMITED\n")
    assert allocation({"SLURM_JOB_ID": "7"}) == Allocation(1, None)
    commands.says("squeue", "")  # it does not answer
    found = allocation({"SLURM_JOB_ID": "7", "SLURM_JOB_END_TIME": f"{at + 60:.0f}"})
    assert found is not None
    assert found.ends == pytest.approx(at + 60, abs=5)
    (tmp_path / "flux").write_text("#!/bin/sh\n[ $1 = getattr ] && echo 4 || echo inf\n")
    assert allocation({"FLUX_URI": "local:///x"}) == Allocation(4, None)
    commands.says("qstat", r'{"Jobs": {"7.login": {"Variable_List": {"A": "\'"}}}}')  # OpenPBS issue 2541
    assert allocation({"PBS_JOBID": "7.login", "PBS_NODEFILE": str(hosts)}) == Allocation(2, None)
    assert allocation({}) is None


def test_outside_of_any_job_one_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FLUX_URI", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadSite, match="not run in"):
        settled(load_site("inside"))


@pytest.mark.parametrize("left_s", [-5.0, 10.0, 59.0])
def test_a_job_that_is_about_to_end_is_refused(left_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Walkers would come and go until it does: `margin_s`, 60 s, are kept for writing."""
    ends = time.time() + left_s
    monkeypatch.setattr("steersman.executors.allocation.allocation", lambda: Allocation(4, ends))
    with pytest.raises(BadSite, match=r"margin_s = 60"):
        settled(load_site("inside"))
