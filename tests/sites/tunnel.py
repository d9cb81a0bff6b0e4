"""The tunnel of docs/sites.md on the test Slurm."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.sites.campaigns import GATEWAY, PATIENCE_S
from tests.sites.slurm import Cluster

SSHD = """
HostKey {home}/host
AuthorizedKeysFile {home}/user.pub
GatewayPorts clientspecified
StrictModes no
PidFile none
"""
SSH = """
Host gateway
  HostName {address}
  IdentityFile {home}/user
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  ConnectionAttempts 30
"""


@contextlib.contextmanager
def tunnel(cluster: Cluster) -> Iterator[None]:
    """Lead to 127.0.0.1 of the login host, which no node reaches, by a real ssh and sshd with a node as the gateway."""
    page = (Path(__file__).parents[2] / "docs" / "sites.md").read_text()
    ((command),) = re.findall(r"^ssh (.* gateway)$", page, re.MULTILINE)
    home, address = cluster.home / "ssh", cluster.address(GATEWAY)
    home.mkdir()
    Path("/run/sshd").mkdir(exist_ok=True)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / key], check=True)
    (home / "sshd_config").write_text(SSHD.format(home=home))
    (home / "ssh_config").write_text(SSH.format(home=home, address=address))
    words = f"exec ssh -F {home}/ssh_config {command.replace('10.1.0.7', address)}"
    daemon = [*cluster.enter(GATEWAY), "/usr/sbin/sshd", "-D", "-f", str(home / "sshd_config")]
    with contextlib.ExitStack() as stack:
        for program in (daemon, cluster.on_login("bash", "-c", words)):
            process = stack.enter_context(subprocess.Popen(program, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
        last = f"until (exec 3<> /dev/tcp/{address}/50008); do sleep 0.1; done"
        subprocess.run(cluster.on_login("bash", "-c", last), stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
        yield
