"""One node's share of a training's ranks: `python -m steersman.models.ranks.node FOLDER ADDRESS PORT`, once a node.

A site's launcher starts it there, see on_each(). Nodes are numbered as they arrive at the meeting point, so nothing of
the launcher's own is needed but that it starts a program. A rank that fails leaves its reason in FOLDER/rank<N>.error.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp

import psutil
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]  # torch does not list it

from steersman.models.device import VISIBLE
from steersman.models.errors import StagingFailed
from steersman.models.ranks import forkserver
from steersman.system.files import take_lock
from steersman.system.node import address_towards, name
from steersman.system.processes import end

GRACE_S = 10.0  # for a launcher to end what it started
LOOK_S = 0.05
NODES = "nodes"  # how many have come to the meeting point
FAILED = "failed"  # is there once a rank of any node has


def on_each(start: str, count: int, folder: Path, meeting: TCPStore, address: str, timeout_s: float) -> str:
    """Run the ranks of every node to their end; returns what is wrong with the nodes, if anything.

    Args:
        start: shell words that start a program once on each of `count` nodes.
        meeting: where they say that they have come.
        timeout_s: for them to come.
    """
    program = [sys.executable, "-m", "steersman.models.ranks.node", str(folder), address, str(meeting.port)]
    log = folder / "launcher.stderr"
    with log.open("wb") as out:
        command = ["/bin/bash", "-c", f"exec {start} {shlex.join(program)}"]
        launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + timeout_s
        while launcher.poll() is None:
            time.sleep(LOOK_S)
            if time.monotonic() > deadline and (came := meeting.add(NODES, 0)) < count:
                return f"{came} of {count} nodes have come within {timeout_s:g} s, {_last_line(log)}"
    finally:
        if launcher.poll() is None:
            end(launcher.pid, GRACE_S)  # a launcher that is asked to end ends what it started
            launcher.wait()
    return f"{start.split()[0]}: exit code {launcher.returncode}, {_last_line(log)}" if launcher.returncode else ""


def run(folder: Path, number: int, address: str, port: int, failed: Callable[[], bool] = lambda: False) -> bool:
    """Run the ranks of node `number` to their end; returns whether all did well.

    Args:
        failed: whether a rank of another node has failed.
    """
    job = json.loads((folder / "job.json").read_text())
    share = range(number * job["ranks"] // job["nodes"], (number + 1) * job["ranks"] // job["nodes"])
    environment = os.environ | {
        "WORLD_SIZE": str(job["ranks"]), "MASTER_ADDR": address, "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    try:
        with scratch(job["scratch"], name()) as staged:
            environment |= staged
            ranks = {n: environment | {"RANK": str(n)} | own(n - share.start, job["gpus"]) for n in share}
            codes = forkserver.run(folder, job["target"].partition(":")[0], ranks, failed)
    except StagingFailed as error:
        (folder / f"rank{share.start}.error").write_text(
            f"rank {share.start}: StagingFailed: {error}", encoding="utf-8"
        )
        return False
    for rank, code in codes.items():
        if code != 0:
            (folder / f"rank{rank}.error").write_text(_reason(folder, rank, code), encoding="utf-8")
    return not any(code != 0 for code in codes.values())


def own(local_rank: int, gpus: list[str]) -> dict[str, str]:
    """What is set for one rank of a node only; AMD's libraries count the first name among what the second leaves."""
    names = VISIBLE[1:] if Path("/dev/kfd").exists() else VISIBLE
    pinned = {name: gpus[local_rank % len(gpus)] for name in names} if gpus else {}
    return {"LOCAL_RANK": str(local_rank), **pinned}


def interface(address: str) -> str:
    """The network interface through which this machine reaches an address."""
    here = address_towards(address)
    return next(name for name, ours in psutil.net_if_addrs().items() if here in [each.address for each in ours])


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "without a word"


def _reason(folder: Path, rank: int, code: int | None) -> str:
    error = folder / f"rank{rank}.error"
    if error.exists():
        return f"rank {rank}: {error.read_text(encoding='utf-8')}"
    if code is None:
        return f"rank {rank}: still waited for the others"
    lines = (folder / f"rank{rank}.stderr").read_text(errors="replace").strip().splitlines()
    ended = f"was ended by signal {-code}" if code < 0 else f"exit code {code}"
    return f"rank {rank}: {ended}" + (f", {lines[0 if code < 0 else -1]}" if lines else "")


def main(folder: Path, address: str, port: int) -> int:
    """Be the program that a launcher starts on each node."""
    store = TCPStore(address, port, None, False, timeout=timedelta(seconds=60))
    if store.add(f"on {name()}", 1) > 1:
        print(f"the launcher starts more than one program on {name()}", file=sys.stderr)
        store.set(FAILED, "")  # nobody waits for the ranks that would have been here
        return 1
    for variable in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):  # else torch guesses by the host's name
        os.environ.setdefault(variable, interface(address))

    def failed() -> bool:
        try:
            return bool(store.check([FAILED]))
        except RuntimeError:  # who started the training is gone
            return True

    number, count = store.add(NODES, 1) - 1, json.loads((folder / "job.json").read_text())["nodes"]
    while not failed() and store.add(NODES, 0) < count:  # ranks would only wait for those of the other nodes
        time.sleep(LOOK_S)
    if not failed() and run(folder, number, address, port, failed):
        return 0
    if not failed():
        store.set(FAILED, "")
    return 1


@contextmanager
def scratch(disk: str, node: str) -> Iterator[dict[str, str]]:
    """Make a folder while a node's ranks run; gives the variable that names it to them.

    Who makes one holds its lock, which the kernel takes back however that process ends: so who comes next on the node
    knows what a dead one has left, and removes it. A disk may be seen by several nodes, so the folder has the name of
    its own.

    Args:
        disk: a folder on the node's own disk, "" for none; may hold $TMPDIR and the like.
        node: its name.
    Raises: StagingFailed: none can be made there.
    """
    if not disk:
        yield {}
        return
    expanded = os.path.expandvars(disk)
    if "$" in expanded:
        raise StagingFailed("the window", disk, f"{node}: not all of its variables are set")
    try:
        here, lock = _made(Path(expanded), f"steersman-ranks-{node}-")
    except OSError as error:
        raise StagingFailed("the window", disk, f"{node}: {error}") from error
    try:
        yield {"STEERSMAN_SCRATCH": str(here)}
    finally:
        shutil.rmtree(here, ignore_errors=True)
        os.close(lock)


def _made(disk: Path, prefix: str) -> tuple[Path, int]:
    """Make a folder and lock it; those of processes that have died, whose locks went with them, are removed."""
    disk.mkdir(parents=True, exist_ok=True)
    for left in disk.glob(f"{prefix}*"):
        _remove_if_left(left)
    new = Path(mkdtemp(prefix="steersman-", dir=disk))
    lock = os.open(new, os.O_RDONLY)
    take_lock(lock)
    return new.rename(disk / (prefix + new.name.removeprefix("steersman-"))), lock  # found under this name once locked


def _remove_if_left(folder: Path) -> None:
    with suppress(OSError):  # another user's, or gone meanwhile
        handle = os.open(folder, os.O_RDONLY)
        try:
            if take_lock(handle):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
