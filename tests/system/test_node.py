"""What a node has for us: its cores, or the share of them that a container is given."""

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
    monkeypatch.setattr(node.os, "sched_getaffinity", lambda _: set(range(8)))
    node._share.cache_clear()
    try:
        assert node.cores() == (8 if cores is None else -(-cores // 1))
    finally:
        node._share.cache_clear()
