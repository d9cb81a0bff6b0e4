"""Simulation and training in one allocation: which nodes each has, and that a job is asked for once for both."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from parsl.jobs.states import JobState

from steersman.executors.allocation import Allocation, settled
from steersman.executors.errors import BadSite
from steersman.executors.launcher import launcher, words
from steersman.executors.parsl_config import providers, submit_scripts
from steersman.executors.site import Site
from tests.executors.conftest import Commands

SHARED = {
    "together": True,
    "simulation": {"nodes": 3, "workers": 4, "walltime_s": 600},
    "training": {"nodes": 1, "workers": 2, "walltime_s": 600},
}


def site(**more: Any) -> Site:
    return Site.model_validate({"name": "m", "pbs": {"cpus": 4}} | SHARED | more)


def test_one_job_is_asked_for_and_runs_what_each_executor_starts(commands: Commands, tmp_path: Path) -> None:
    commands.says("qsub", "7.server\n")
    (tmp_path / "scripts").mkdir()
    shares = providers(site())
    for share in shares.values():
        share.script_dir = str(tmp_path / "scripts")
    jobs = {role: share.submit("workers", 1, f"parsl.{role}.block-0") for role, share in shares.items()}
    assert jobs == {"simulation": "7.server", "training": "7.server"}
    assert commands.asked("qsub").count("\n") == 1
    commands.says("qstat", json.dumps({"Jobs": {"7.server": {"job_state": "F", "Exit_status": 1}}}))
    assert [share.status(["7.server"])[0].state for share in shares.values()] == 2 * [JobState.FAILED]
    commands.says("qsub", "8.server\n")
    again = [shares[role].submit("workers", 1, "parsl.block-1") for role in ("training", "simulation")]
    assert again == ["8.server", "8.server"], "the next job takes the place of both"


def test_the_first_nodes_train_and_the_others_simulate(tmp_path: Path) -> None:
    """Each launcher sees its own part of the node file, whatever it does with it."""
    (tmp_path / "nodes").write_text("a\na\nb\nc\nd\n")
    shown = {}
    for role in ("simulation", "training"):
        script = f"export PBS_NODEFILE={tmp_path}/nodes\n{launcher(site(), role).before}\ncat $PBS_NODEFILE"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        shown[role] = done.stdout.split()
    assert shown == {"training": ["a"], "simulation": ["b", "c", "d"]}
    assert "--relative=1 --nodes=3" in words(site(pbs=None, slurm={}), "simulation")
    assert "--requires=ranks:1-3 --nodes=3" in words(site(pbs=None, flux={}), "simulation")


def test_the_script_asks_for_the_nodes_of_both() -> None:
    (script,) = submit_scripts(site()).values()
    assert "#PBS -l select=4:ncpus=4" in script
    assert "for role in simulation training; do" in script
    shared = {"pbs": None, "slurm": {"exclusive": False}}
    assert "--cpus-per-task=4" in "".join(submit_scripts(site(**shared)).values()), "the most workers of a node"
    beside = {"training": {"nodes": 0, "workers": 2}}
    assert "--cpus-per-task=6" in "".join(submit_scripts(site(**shared, **beside)).values())


def test_when_one_side_of_a_job_fails_both_end(tmp_path: Path) -> None:
    """The script itself, with commands in place of workers."""
    (script,) = submit_scripts(site()).values()
    (tmp_path / "together").mkdir()
    for role, command in (("simulation", "sleep 60"), ("training", "exit 3")):
        (tmp_path / "together" / role).write_text(command)
    lines = script.replace("$RUN", str(tmp_path)).replace("cd $PBS_O_WORKDIR", "")
    job = subprocess.Popen(["bash", "-c", lines], start_new_session=True)
    assert job.wait(30) == 1
    os.killpg(job.pid, signal.SIGKILL)  # as a scheduler does with what a job leaves
    for role in ("simulation", "training"):
        (tmp_path / "together" / role).write_text("true")
    assert subprocess.run(["bash", "-c", lines], timeout=200, check=False).returncode == 0


def test_who_has_no_nodes_is_on_the_first_of_the_walkers(tmp_path: Path) -> None:
    """Training where the job begins, and behind the nodes of another executor; the job is no larger for it."""
    (tmp_path / "nodes").write_text("a\na\nb\nc\nd\n")
    scoring = {"nodes": 1, "workers": 1, "walltime_s": 600}
    alone, scored = site(training={"workers": 1}), site(training={"workers": 1}, scoring=scoring)
    for asked, nodes, node in ((alone, 3, "a"), (scored, 4, "b")):
        starts = launcher(asked, "training")
        script = f"export PBS_NODEFILE={tmp_path}/nodes\n{starts.before}\ncat $PBS_NODEFILE"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.split()[0] == node
        assert bool(starts.words) == (node == "b"), "where the job begins nothing has to be started elsewhere"
        (asked_for,) = submit_scripts(asked).values()
        assert f"#PBS -l select={nodes}:" in asked_for
        assert asked.workers["training"].walltime_s == asked.simulation.walltime_s
    assert "simulation training scoring" in asked_for


@pytest.mark.parametrize(
    "changes",
    [
        {"training": {"nodes": 1, "workers": 2, "walltime_s": 60}},
        {"pbs": None, "inside": True},
        {"pbs": None, "slurm": {}, "launcher": "srun --nodes={nodes}"},
    ],
)
def test_what_cannot_be_shared_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"together: name|of a share"):
        site(**changes)


def test_the_nodes_of_a_job_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("steersman.executors.allocation.allocation", lambda: Allocation(4, None))
    inside = Site.model_validate({"name": "m", "inside": True, "training": {"nodes": 1, "workers": 1}})
    found = settled(inside)
    assert (found.simulation.nodes, found.first_node("simulation"), found.first_node("training")) == (3, 1, 0)
    with pytest.raises(BadSite, match="4 for training"):
        settled(inside.model_copy(update={"training": inside.training.model_copy(update={"nodes": 4})}))
