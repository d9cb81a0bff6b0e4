"""A real AMQP broker on this machine: Debian's RabbitMQ, with a node, a name service and files of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one on PATH runs for root and its own user alone
START_S = 240.0


def missing() -> str:
    """Why there can be no broker here, or ""; Debian's package is installed where that is possible."""
    if SERVER.exists() and shutil.which("epmd"):
        return ""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "rabbitmq-server is not installed; once, as root: apt-get install rabbitmq-server"
    for command in (["update"], ["install", "-y", "--no-install-recommends", "rabbitmq-server"]):
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(
            ["apt-get", "-qq", *command], env=environment, capture_output=True, text=True, check=False
        )
    return "" if done.returncode == 0 else f"apt-get: {done.stderr.strip()[-300:]}"


@contextmanager
def broker(home: Path) -> Iterator[str]:
    """Start a broker with its files in a folder; gives its amqp:// address, and stops it."""
    home.mkdir()
    name_port, amqp_port, node_port = free_ports(3)
    (home / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{amqp_port}\n")
    (home / "plugins").write_text("[].\n")
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(home), "ERL_EPMD_PORT": str(name_port), "LANG": "C.UTF-8",
        "ERL_EPMD_ADDRESS": "127.0.0.1", "RABBITMQ_NODENAME": f"steersman-{amqp_port}@localhost",
        "RABBITMQ_DIST_PORT": str(node_port), "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(home / "mnesia"), "RABBITMQ_LOG_BASE": str(home / "log"),
        "RABBITMQ_PID_FILE": str(home / "pid"), "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",  # one thread, which does not wait actively
    }  # fmt: skip
    with ExitStack() as stack, (home / "out").open("wb") as log:
        for command in (["epmd", "-port", str(name_port)], [str(SERVER)]):
            stack.enter_context(_running(command, environment, log.fileno()))
        _wait(amqp_port, home / "out")
        yield f"amqp://guest:guest@127.0.0.1:{amqp_port}/%2F"


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def _running(command: list[str], environment: dict[str, str], log: int) -> Iterator[None]:
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with suppress(OSError):  # it listens when it has started
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        time.sleep(0.1)
    raise TimeoutError(f"no broker within {START_S:g} s: {log.read_text()[-1000:]}")
