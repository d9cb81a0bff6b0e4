"""The node that this process is on: its name, its cores and how busy they are, and its address towards another."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import platform
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil

GROUPS = Path("/proc/self/cgroup")
GROUP_ROOTS = tuple(Path("/sys/fs/cgroup", name) for name in ("", "unified", "cpu", "cpu,cpuacct", "pids"))
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
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        for quota, period in _of_groups(*names):
            if quota > 0 < period:  # -1: none
                yield quota / period


def processes_left() -> float:
    """How many more processes and threads may be started here; inf: as many as there is room for."""
    left = [most - now for most, now in _of_groups("pids.max", "pids.current")]
    most = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if os.geteuid() and most != resource.RLIM_INFINITY:  # root may start what it likes
        left.append(most - sum(_threads_of(os.getuid())))
    return max(0, min(left, default=math.inf))


def _of_groups(*names: str) -> Iterator[list[int]]:
    """Pairs of numbers that the control groups of this process have in these files; "max" is none."""
    with contextlib.suppress(OSError, IndexError):
        for line in GROUPS.read_text().splitlines():
            group = Path(line.split(":", 2)[2].lstrip("/"))
            for folder in {root / each for root in GROUP_ROOTS for each in (group, *group.parents)}:
                with contextlib.suppress(OSError, ValueError):
                    numbers = [int(word) for name in names for word in (folder / name).read_text().split()]
                    yield numbers[:2]


def _threads_of(user: int) -> Iterator[int]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == user:
                yield process.num_threads()


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
