"""The node that this process is on: its name, its cores and how busy they are, and its address towards another."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import platform
import socket
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/proc/self/cgroup")
GROUP_ROOTS = tuple(Path("/sys/fs/cgroup", name) for name in ("", "unified", "cpu", "cpu,cpuacct"))
BUSY = 2.0  # processes that want each core; then what is done here takes longer than it should
LOOPBACK = "127.0.0.1"


def name() -> str:
    """The host's name, or what STEERSMAN_NODE says: several nodes may share a host."""
    return os.environ.get("STEERSMAN_NODE", platform.node())


def cores() -> int:
    """Cores that this process may use: those that it is bound to, but no more than its container's share of time."""
    return int(min(len(os.sched_getaffinity(0)), _share()))


@functools.cache
def _share() -> float:
    return min(map(math.ceil, quotas()), default=math.inf)


def quotas() -> Iterator[float]:
    """The limits of processor time of the control groups that this process is in, in cores."""
    with contextlib.suppress(OSError, IndexError):
        for line in GROUPS.read_text().splitlines():
            group = Path(line.split(":", 2)[2].lstrip("/"))
            for root in GROUP_ROOTS:
                for folder in {root / each for each in (group, *group.parents)}:
                    yield from _quota(folder)


def _quota(folder: Path) -> Iterator[float]:
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = map(int, " ".join((folder / name).read_text() for name in names).split())
            if quota > 0:  # "max", -1: none
                yield quota / period


def load() -> float:
    """Processes that want each core, on average over the last minute."""
    return os.getloadavg()[0] / cores()


def busy() -> str:
    """In words that this machine has more to do than it can, or ""."""
    if load() < BUSY:
        return ""
    return f"this machine is busy (load {os.getloadavg()[0]:.0f} on {cores()} core{'s' * (cores() != 1)})"


def address_towards(host: str) -> str:
    """IPv4 address of this machine on the network through which it reaches a host.

    Raises: OSError: there is no way to it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # nothing is sent
        return str(probe.getsockname()[0])
