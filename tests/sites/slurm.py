"""A real Slurm cluster on this machine: a login host and nodes, each with its own network, name, processes and memory.

It needs root and Debian's Slurm; no systemd, no cgroups, no containers. Only the machines are not real: their
processors are shared. A node that is killed is a power failure, since all its processes die with its first one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sites import accounts

SLURM = ["slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "iproute2", "openssh-server"]
PACKAGES = [SLURM, accounts.PACKAGES]
PROGRAMS = ["slurmctld", "slurmd", "sbatch", "munged", "ip", "nsenter", "unshare", "sshd", "ssh"]
NETWORK = "10.44.0"
START_S = 90.0

CONFIGURATION = """
ClusterName=test
SlurmctldHost=login({network}.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={home}/munge.sock,cred_expire=10
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool.%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=5,sched_interval=5
ReturnToService=2
SlurmdTimeout=10
MessageTimeout=5
KillWait=5
EnforcePartLimits=ALL
{accounts}
MailProg=/bin/true
GresTypes=gpu
NodeName=DEFAULT CPUs=4 RealMemory=1000 Gres=gpu:2 State=UNKNOWN
{nodes}
PartitionName=apart Nodes={apart} MaxTime=00:30:00 State=UP
PartitionName=debug Nodes={common} Default=YES MaxTime=00:30:00 State=UP
"""

# What the first process of a host does: it gives itself a name, the cluster's files, and, as MPI tells hosts apart by
# it, a boot id; then it starts slurmd on a node, and waits for orphans.
HOST = """
hostname {name}
mount --bind {home}/hosts /etc/hosts
mount --bind {home}/etc /etc/slurm
if [ {name} != login ]; then
  cat /proc/sys/kernel/random/uuid > {home}/boot_id.{name}
  mount --bind {home}/boot_id.{name} /proc/sys/kernel/random/boot_id
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  mkdir -p {home}/spool.{name}
  slurmd -D &
fi
touch {home}/{name}.ready
while :; do sleep 3600 & wait; done
"""


def missing() -> str:
    """Why there can be no cluster here, or ""; Debian's packages are installed where that is possible."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    said = ""
    if shutil.which("apt-get") and not (all(map(shutil.which, PROGRAMS)) and accounts.can_be_had()):
        for command in (["update"], *(["install", "-y", "--no-install-recommends", *each] for each in PACKAGES)):
            environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
            done = subprocess.run(
                ["apt-get", "-qq", *command], env=environment, capture_output=True, text=True, check=False
            )
            said += done.stderr
    lacking = ", ".join(program for program in PROGRAMS if shutil.which(program) is None)
    return f"{lacking} cannot be installed: {said.strip()[-300:]}" if lacking else ""


class Cluster:
    """A running cluster; a context manager that stops it.

    Args:
        home: folder for its files; nodes and login host see all files of this machine, as a shared file system.
        nodes: n1, n2, ... so many, of the partition `debug`.
        apart: so many more, of the partition `apart`.
    """

    def __init__(self, home: Path, nodes: int, apart: int = 1) -> None:
        self.home, self.nodes = home, [f"n{i}" for i in range(1, nodes + apart + 1)]
        self.common, self.apart = self.nodes[:nodes], self.nodes[nodes:]
        self._tag = f"s{os.getpid()}"
        self._hosts: dict[str, subprocess.Popen[bytes]] = {}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Cluster:
        try:
            self._write_files()
            self._plug_network()
            self.boot("login")
            for name, script in accounts.daemons(self.home).items():
                self._serve(name, "bash", "-c", script)
            for node in self.nodes:
                self.boot(node)
            self._start_daemons()
            self._wait(
                lambda: self.answer("sinfo", "-h", "-t", "idle", "-o", "%D") == str(len(self.nodes)), "idle nodes"
            )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*self._daemons, *self._hosts.values()]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for name in ["login", *self.nodes]:
            subprocess.run(["ip", "netns", "delete", self._network(name)], capture_output=True, check=False)

    def on_login(self, *command: str) -> list[str]:
        """A command line that runs a command on the login host, in the same working directory."""
        return [*self.enter(), "bash", "-c", 'cd "$0" && exec "$@"', os.getcwd(), *command]

    def add_pbs(self) -> str:
        """Give the login host PBS's commands. Returns: the folder that they are in, for PATH."""
        folder = self.home / "pbs"
        folder.mkdir()
        program = Path(__file__).parent / "pbs_over_slurm.py"
        for name in ("qsub", "qstat", "qdel", "mpiexec"):
            (folder / name).write_text(f'#!/bin/bash\nexec {sys.executable} {program} {folder} {name} "$@"\n')
            (folder / name).chmod(0o755)
        return str(folder)

    def answer(self, *command: str) -> str:
        """What a command on the login host prints."""
        done = subprocess.run(self.on_login(*command), capture_output=True, text=True, timeout=30, check=False)
        return done.stdout.strip()

    def address(self, host: str) -> str:
        return f"{NETWORK}.1{host.removeprefix('login').removeprefix('n')}"

    def crash(self, node: str) -> None:
        """A power failure."""
        os.killpg(self._hosts[node].pid, signal.SIGKILL)
        self._hosts[node].wait()

    def hide(self, folder: Path, node: str) -> None:
        """Take a folder from a node, as where a disk of it is not mounted."""
        subprocess.run([*self.enter(node), "mount", "-t", "tmpfs", "none", str(folder)], check=True)

    def enter(self, host: str = "login") -> list[str]:
        """What a command line begins with that runs on a host: with its network, its name and its files."""
        return ["nsenter", "-t", str(self._hosts[host].pid), "-n", "-u", "-m", "--"]

    def boot(self, name: str) -> None:
        """Start a host."""
        (self.home / f"{name}.ready").unlink(missing_ok=True)
        own = ["--uts", "--mount", "--propagation", "private"]
        if name != "login":
            own += ["--ipc", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
        script = HOST.format(name=name, home=self.home)
        self._hosts[name] = self._start(
            ["nsenter", f"--net=/run/netns/{self._network(name)}", "unshare", *own, "bash", "-c", script], name
        )
        self._wait((self.home / f"{name}.ready").exists, f"host {name}")

    def _write_files(self) -> None:
        (self.home / "etc").mkdir()
        (self.home / "state").mkdir()
        Path("/etc/slurm").mkdir(exist_ok=True)
        addresses = {host: self.address(host) for host in ("login", *self.nodes)}
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
        (self.home / "hosts").write_text("\n".join(lines) + "\n")
        nodes = "\n".join(f"NodeName={node} NodeAddr={addresses[node]}" for node in self.nodes)
        partitions = {"common": ",".join(self.common), "apart": ",".join(self.apart)}
        text = CONFIGURATION.format(
            home=self.home, network=NETWORK, nodes=nodes, **partitions, accounts=accounts.configuration(self.home)
        )
        (self.home / "etc" / "slurm.conf").write_text(text)
        for number in range(2):  # a GPU is a device file; these are copies of /dev/null
            os.mknod(self.home / f"gpu{number}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        gpus = f"AutoDetect=off\nNodeName=n[1-{len(self.nodes)}] Name=gpu File={self.home}/gpu[0-1]\n"
        (self.home / "etc" / "gres.conf").write_text(gpus)
        (self.home / "etc" / "cgroup.conf").write_text("CgroupAutomount=no\n")
        key = self.home / "munge.key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        self.home.chmod(0o755)  # munged asks for this

    def _plug_network(self) -> None:
        login = self._network("login")
        self._ip("netns", "add", login)
        self._ip("-n", login, "link", "set", "lo", "up")
        self._ip("-n", login, "link", "add", "br0", "type", "bridge")
        self._ip("-n", login, "address", "add", f"{NETWORK}.1/24", "dev", "br0")
        self._ip("-n", login, "link", "set", "br0", "up")
        for node in self.nodes:
            there, cable = self._network(node), f"to-{node}"
            self._ip("netns", "add", there)
            self._ip("-n", login, "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", there)
            self._ip("-n", login, "link", "set", cable, "master", "br0", "up")
            self._ip("-n", there, "link", "set", "lo", "up")
            self._ip("-n", there, "address", "add", f"{self.address(node)}/24", "dev", "eth0")
            self._ip("-n", there, "link", "set", "eth0", "up")

    def _start_daemons(self) -> None:
        at = self.home
        munged = ["munged", "-F", "--force", f"--key-file={at}/munge.key", f"--socket={at}/munge.sock"]
        munged += [f"--pid-file={at}/munged.pid", f"--log-file={at}/munged.log", f"--seed-file={at}/munged.seed"]
        self._serve("munged", *munged)
        self._wait((at / "munge.sock").exists, "munged")
        if accounts.can_be_had():
            self._wait(lambda: "test" in self.answer("sacctmgr", "-i", "add", "cluster", "test"), "slurmdbd")
            asked = self.on_login("sacctmgr", "--immediate")
            subprocess.run(asked, input=accounts.KNOWN, text=True, capture_output=True, check=True)
        self._serve("slurmctld", "slurmctld", "-D")

    def _serve(self, name: str, *command: str) -> None:
        self._daemons.append(self._start([*self.enter(), *command], name))

    def _start(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        with (self.home / f"{name}.out").open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def _network(self, name: str) -> str:
        return f"{self._tag}-{name}"

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_S
        while not ready():
            if time.monotonic() > deadline:
                logs = "\n".join(file.read_text()[-500:] for file in sorted(self.home.glob("*.out")))
                raise TimeoutError(f"the test cluster has no {what} after {START_S} s:\n{logs}")
            time.sleep(0.05)


def main(words: Sequence[str]) -> int:
    """NODES COMMAND...: run a command on the login host of a cluster that is there for as long as the command runs."""
    if why := missing():
        print(f"no real Slurm can be had here: {why}", file=sys.stderr)
        return 1
    with TemporaryDirectory(prefix="steersman-slurm-") as home, Cluster(Path(home), int(words[0])) as cluster:
        return subprocess.run(cluster.on_login(*words[1:]), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
