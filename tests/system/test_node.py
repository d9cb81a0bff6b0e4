"""What a node has for us: its cores, or the share of them that a container is given."""

import math
import os
import resource
from pathlib import Path

import pytest

from steersman.system import node


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/job/step", {"job/cpu.max": "300000 100000", "job/step/cpu.max": "max 100000"}, 3.0),
        ("0::/job/step", {"job/cpu.max": "150000 100000", "job/step/cpu.max": "400000 100000"}, 1.5),
        ("4:cpu,cpuacct:/docker/x\n0::/", {"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}, 1.5),
        ("4:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, None),
        ("nonsense", {"cpu.max": "nonsense"}, None),
    ],
)
def test_a_quota_of_processor_time_counts_as_cores(
    groups: str, files: dict[str, str], cores: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of version 1 and 2 of control groups, and whichever of those that this process is in gives least."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "groups").write_text(groups)
    monkeypatch.setattr(node, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(node, "GROUP_ROOTS", (tmp_path, tmp_path / "cpu"))
    assert min(node.quotas(), default=None) == cores
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    node._share.cache_clear()
    try:
        assert node.cores() == (8 if cores is None else -(-cores // 1))
    finally:
        node._share.cache_clear()


@pytest.mark.parametrize(("most", "left"), [("26", 3), ("max", math.inf), ("20", 0)])
def test_processes_that_a_container_may_have_are_known(
    most: str, left: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pids.max").write_text(most)
    (tmp_path / "pids.current").write_text("23")
    (tmp_path / "groups").write_text("0::/")
    monkeypatch.setattr(node, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(node, "GROUP_ROOTS", (tmp_path,))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert node.processes_left() == left


def test_processes_of_a_user_count_against_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(node, "GROUPS", tmp_path / "none")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10**6, 10**6))
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    assert 10**6 - 10**5 < node.processes_left() < 10**6
