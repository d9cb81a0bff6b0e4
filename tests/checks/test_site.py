"""The doctor: a small job on this machine, and what follows from what workers found elsewhere."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from steersman.checks.probe import BUS_BYTES, BUS_TIMES, MOST_BUS_BYTES, Probe, bus_bytes, versions
from steersman.checks.site import _small, findings
from steersman.engine import orphans
from steersman.executors.launcher import launcher
from steersman.executors.site import Site
from tests.engine.conftest import started, steersman
from tests.waiting import until

WELL = Probe(
    node="n1", role="simulation", versions={"numpy": "2.4.6"}, cores=4, gpus=("0", 1), behind_s=0.001,
    bus=100.0, store_write=50.0, store_read=50.0, scratch_gb=10.0,
)  # fmt: skip
HERE = {"numpy": "2.4.6"}


@pytest.mark.slow
def test_this_machine_is_well_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "two_servers.yaml").write_text("bus_servers: 2\n")
    (here := tmp_path / "here").mkdir()
    done = steersman("doctor", "--site", "../two_servers.yaml", "--json", cwd=here)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert all(finding["ok"] for finding in told["findings"])
    assert {probe["role"] for probe in told["probes"]} == {"simulation", "training"}
    assert told["probes"][0]["versions"] == versions()
    assert list(here.iterdir()) == []


@pytest.mark.slow
def test_a_doctor_that_is_killed_leaves_no_process(tmp_path: Path) -> None:
    doctor = started("doctor", "--json", cwd=tmp_path)
    while not (at := list(tmp_path.glob("steersman-doctor-*"))) or not orphans.of_run(at[0]):
        assert doctor.poll() is None
        time.sleep(0.05)
    doctor.kill()
    doctor.wait()
    until(lambda: not orphans.of_run(at[0]))


def test_every_node_that_trains_is_looked_at() -> None:
    """In a run only the first has workers, which start ranks on the others."""
    training = {"nodes": 3, "workers": 2, "gpus": 2, "walltime_s": "2h", "scratch": "/local"}
    simulation = {"nodes": 1, "workers": 1, "blocks": 9, "walltime_s": 600}
    site = _small(Site.model_validate({"name": "m", "slurm": {}, "simulation": simulation, "training": training}))
    assert (site.simulation.count, site.workers["training"].count, site.workers["training"].walltime_s) == (1, 6, 900)
    assert "srun --overlap --relative=0 --nodes=3" in launcher(site, "training")("probe", 1, 3, "$RUN")
    assert site.scratch_here("training") == Path("/local")


def test_a_node_like_the_drivers_machine_is_well() -> None:
    assert all(finding.ok for finding in findings([WELL, WELL], HERE))


@pytest.mark.parametrize(
    ("wrong", "what", "told"),
    [
        ({"versions": {"numpy": "1.26"}}, "versions", "numpy is 1.26 on n2 and 2.4.6 here; let worker_init activate"),
        ({"versions": {}}, "versions", "numpy is none on n2"),
        ({"gpus": ("1", 0)}, "GPUs", "torch sees 0 GPUs in a worker on n2 that has '1'; ask the scheduler"),
        ({"mps": False}, "MPS", "its daemon does not run on n2"),
        ({"behind_s": -7.0}, "clocks", "7000.0 ms from the driver's (n2); leases and time limits go by clocks"),
        ({"bus": 0.5}, "bus", "slow from n2: does `interface:` name the fast network?"),
        ({"store_write": 0.5}, "store", "slow from n2: use a faster file system"),
    ],
)
def test_what_is_wrong_is_told_with_the_cure(wrong: dict[str, object], what: str, told: str) -> None:
    found = {finding.what: finding for finding in findings([WELL, replace(WELL, node="n2", **wrong)], HERE)}  # type: ignore[arg-type]
    assert [name for name, finding in found.items() if not finding.ok] == [what]
    assert told in found[what].found


@pytest.mark.slow
def test_sites_are_listed_with_what_they_need_and_shown_with_their_scripts(tmp_path: Path) -> None:
    listed = steersman("sites", cwd=tmp_path).stdout
    assert "needs --account, --queue" in listed
    assert all(name in listed for name in ("laptop", "inside", "slurm", "pbs", "lsf", "flux", "aurora", "frontier"))
    shown = steersman("sites", "show", "polaris", cwd=tmp_path)
    assert shown.returncode == 0
    assert "interface: bond0" in shown.stdout
    assert "#PBS -l select=1:ncpus=64:ngpus=4:system=polaris" in shown.stdout
    assert "'polaris'" in steersman("sites", "show", "polars", cwd=tmp_path).stderr


def test_what_all_workers_push_through_the_bus_is_bounded() -> None:
    """805 GB at 12,000 workers otherwise."""
    assert bus_bytes(4) == BUS_BYTES
    assert 0.99 * MOST_BUS_BYTES < 12_000 * 2 * BUS_TIMES * bus_bytes(12_000) <= MOST_BUS_BYTES
