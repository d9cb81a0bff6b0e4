"""The node that this process is on: its name, and its address towards another."""

from __future__ import annotations

import os
import platform
import socket

LOOPBACK = "127.0.0.1"


def name() -> str:
    """The host's name, or what STEERSMAN_NODE says: several nodes may share a host."""
    return os.environ.get("STEERSMAN_NODE", platform.node())


def address_towards(host: str) -> str:
    """IPv4 address of this machine on the network through which it reaches a host.

    Raises: OSError: there is no way to it.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # nothing is sent
        return str(probe.getsockname()[0])
