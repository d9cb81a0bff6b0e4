"""Site files: what is shipped is valid, what a user writes is checked, and Parsl gets what was asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steersman.executors import batch, slurm
from steersman.executors.errors import BadSite
from steersman.executors.parsl_config import parsl_config
from steersman.executors.preflight import ready
from steersman.executors.site import Site, sites
from steersman.executors.site_files import load_site


@pytest.mark.parametrize("name", sites())
def test_a_shipped_site_is_valid_and_has_the_name_of_its_file(name: str) -> None:
    assert load_site(name).name == name


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
    with pytest.raises(BadSite, match=r"gone\.yaml: cannot be read: No such file"):
        load_site(str(tmp_path / "gone.yaml"))


def test_parsl_gets_the_workers_the_gpus_and_one_thread_each(tmp_path: Path) -> None:
    site = Site.model_validate({"name": "m", "simulation": {"workers": 2, "gpus": 2}, "worker_init": "module load x"})
    executors = {executor.label: executor for executor in parsl_config(site, tmp_path).executors}
    assert executors["simulation"].max_workers_per_node == 2
    assert executors["simulation"].available_accelerators == ["0", "1"]
    assert executors["training"].max_workers_per_node == 2
    started = executors["simulation"].provider.worker_init
    assert "OMP_NUM_THREADS=1" in started
    assert "module load x" in started


ON_NODES = {"nodes": 2, "workers": 3, "blocks": 2, "walltime_s": 90}


def test_slots_are_counted_over_nodes_and_blocks() -> None:
    site = Site.model_validate({"name": "m", "simulation": ON_NODES, "slurm": {"partition": "p"}})
    assert site.simulation.count == 12


def test_away_from_a_login_node_one_is_told_where_to_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    site = Site.model_validate({"name": "m", "interface": "lo", "simulation": ON_NODES, "slurm": {}})
    with pytest.raises(BadSite, match="no sbatch, squeue, scancel on PATH; run on a login node"):
        ready(site)
    ready(Site(name="laptop"))


def test_a_scheduler_that_hangs_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for command in slurm.COMMANDS:
        (tmp_path / command).write_text("#!/bin/sh\nexec /bin/sleep 60\n")
        (tmp_path / command).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(batch, "ANSWER_S", 1)
    site = Site.model_validate({"name": "m", "interface": "lo", "simulation": ON_NODES, "slurm": {}})
    with pytest.raises(BadSite, match="has not answered"):
        ready(site)


def test_the_submit_script_says_what_the_site_file_says(tmp_path: Path) -> None:
    values = {"account": "m1234", "partition": "debug", "options": ["--gpus-per-node=2"]}
    site = Site.model_validate({"name": "m", "interface": "lo", "simulation": ON_NODES, "slurm": values})
    executor = next(each for each in parsl_config(site, tmp_path).executors if each.label == "simulation")
    provider = executor.provider
    options = [f"#SBATCH --{each}" for each in ("account=m1234", "partition=debug", "no-requeue", "gpus-per-node=2")]
    assert all(option in provider.scheduler_options for option in options)
    assert (provider.nodes_per_block, provider.init_blocks, provider.walltime) == (2, 2, "00:02:00")
