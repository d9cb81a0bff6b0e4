"""A real Globus Compute endpoint on this machine, as another machine would have it: a process with files of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.remote.service import CLIENT_ID, Service

START_S = 240.0
WITHOUT = str(Path(__file__).parents[1] / "without")  # what every process of a campaign would import in vain
HELD = str(Path(__file__).with_name("held"))  # without it one endpoint in some fifty never answers
TEMPLATE = """
heartbeat_period: 5
idle_heartbeats_soft: 100
{% if "allocation" in where | default("login") %}
engine:
  type: GlobusComputeEngine
  max_workers_per_node: 1
  address: 127.0.0.1
  job_status_kwargs: {max_idletime: 0.1, strategy_period: 0.1}
  provider:
    type: LocalProvider  # in a scheduler's place; its job starts at once
    init_blocks: 0
    max_blocks: 1
    worker_init: export PATH="{{ _GC.env.PATH }}"
{% else %}
engine: {type: ThreadPoolEngine, max_workers: 4}
{% endif %}
"""


def environment(secret: str, home: Path) -> dict[str, str]:
    """What SDK and endpoint need to find the stand-in, and to log in there."""
    return {
        "GLOBUS_SDK_ENVIRONMENT": "local", "GLOBUS_SDK_SERVICE_URL_AUTH": "http://localhost:5000/",
        "GLOBUS_COMPUTE_CLIENT_ID": CLIENT_ID, "GLOBUS_COMPUTE_CLIENT_SECRET": secret,
        "GLOBUS_COMPUTE_USER_DIR": str(home / "globus"), "HOME": str(home), "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "PYTHONPATH": WITHOUT,
    }  # fmt: skip


def _closed(path: Path) -> Path | None:
    """The first folder above a path that other users may not enter."""
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & stat.S_IXOTH), None)


class Endpoint:
    """An endpoint that can be started and stopped; its files stay.

    Args:
        home: home of its user; made when missing.
        template: configuration of its user endpoints.
        user: number of the user that it runs as, if not this one.
    """

    def __init__(self, service: Service, home: Path, *, template: str = TEMPLATE, user: int | None = None) -> None:
        self.home, self.uuid, self._service, self._user = home, "", service, user
        self._process: subprocess.Popen[bytes] | None = None
        folder = home / "globus" / "here"
        folder.mkdir(parents=True)
        root = os.geteuid() == 0 and user is None
        email = "email: nobody@localhost\n" if root else ""
        (folder / "config.yaml").write_text(f"display_name: null\nheartbeat_period: 5\n{email}")
        (folder / "user_config_template.yaml.j2").write_text(template)
        # Of root's the environment is cleared; an ordinary user's endpoint gives its children all that it has.
        kept = {name: value for name, value in self._environment.items() if name != "HOME"} if root else {}
        (folder / "user_environment.yaml").write_text(json.dumps(kept))
        if user is not None:
            for path in (home, *home.rglob("*")):
                os.chown(path, user, user)

    @property
    def _environment(self) -> dict[str, str]:
        # A login node's ordinary environment: the interpreter that runs the endpoint is that of Steersman.
        found = environment(self._service.secret, self.home)
        path = f"{Path(sys.executable).parent}:{found['PATH']}"
        return found | {"PATH": path, "PYTHONPATH": os.pathsep.join([HELD, found["PYTHONPATH"]])}

    def start(self) -> None:
        self.begin()
        self.wait()

    def begin(self) -> None:
        """Start it without waiting."""
        program = shutil.which("globus-compute-endpoint", path=self._environment["PATH"])
        assert program is not None
        with (self.home / "endpoint.out").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_user(), program, "start", "here"], env=self._environment, cwd=self.home,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def wait(self) -> None:
        """Wait until the service has heard of it."""
        assert self._process is not None
        deadline, known = time.monotonic() + START_S, self.home / "globus" / "here" / "endpoint.json"
        while not (known.exists() and self._service.online(self._id(known))):
            if time.monotonic() > deadline or self._process.poll() is not None:
                log_text = (self.home / "endpoint.out").read_text()[-2000:]
                raise TimeoutError(f"the endpoint is not online within {START_S:g} s: {log_text}")
            time.sleep(0.1)
        self.uuid = self._id(known)

    def end(self) -> None:
        """As an administrator does: TERM, which ends its user endpoints, too."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """The same, and wait for it."""
        if self._process is None:
            return
        self.end()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def _as_user(self) -> list[str]:
        """What starts a command as another user, who finds this Python, though its folder may be root's alone."""
        if self._user is None:
            return []
        needed = [sys.base_prefix, sys.prefix, str(Path(__file__).parents[2])]
        closed = {path: ancestor for path in needed if (ancestor := _closed(Path(path)))}
        (self.home / "held").mkdir(exist_ok=True)
        script = "\n".join(
            [
                "set -e",
                *(f"mkdir -p {self.home}/held{path} && mount --bind {path} {self.home}/held{path}" for path in closed),
                *(f"mount -t tmpfs -o mode=755 tmpfs {ancestor}" for ancestor in set(closed.values())),
                *(f"mkdir -p {path} && mount --bind {self.home}/held{path} {path}" for path in closed),
                f'exec setpriv --reuid {self._user} --regid {self._user} --clear-groups "$@"',
            ]
        )
        return ["unshare", "--mount", "--propagation", "private", "bash", "-c", script, "as-user"]

    @staticmethod
    def _id(file: Path) -> str:
        with suppress(ValueError):
            return str(json.loads(file.read_text())["endpoint_id"])
        return ""
