"""Rows -> one Zarr group by way of a node's own storage: written there often, moved to where all nodes read it seldom.

docs/design/006-node-local-frames.md says what that is good for, and what is lost when.
"""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steersman.store import mover
from steersman.store.group import GroupWriter
from steersman.store.variables import Variable

MOVE_EVERY_S = 10.0  # what readers see is at most so much older; each move writes the open shards again


class ScratchWriter(GroupWriter):
    """A GroupWriter whose group grows in a folder on the node's own storage, and is moved to `path` by a process.

    What it has written there survives the death of this process; what was moved survives the node, and is published.

    Args:
        path: of the group where all nodes read it.
        scratch: a folder on the node's own storage; the writer's own folder in it goes when it is done with.
    Raises: OSError: there is a group at `path`, or one of the folders cannot be written.
    """

    def __init__(
        self,
        path: Path,
        scratch: Path,
        *,
        variables: Mapping[str, Variable] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        Path(path).mkdir(parents=True)
        scratch.mkdir(parents=True, exist_ok=True)
        here = Path(tempfile.mkdtemp(prefix=f"steersman-{path.name}-", dir=scratch))
        super().__init__(here, variables=variables, attributes=attributes)
        self._mover = Mover(here, Path(path))
        self._written: dict[str, int] = {}
        self._moved_at = -math.inf

    def publish(self, *, now: bool = False) -> dict[str, int]:
        """Write what was appended here; the first time, every MOVE_EVERY_S, or now, move it and let readers see it."""
        if self.rows != self._written:
            self._written = self._write()
        if now or time.monotonic() - self._moved_at >= MOVE_EVERY_S:
            self._mover.move()
            self._moved_at, self.published = time.monotonic(), self._written
        return self.published

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._mover.close()


class Mover:
    """The process that moves a group.

    Raises: OSError: a file cannot be written there, as the process says.
    """

    def __init__(self, here: Path, there: Path) -> None:
        # Without site packages it starts in 20 ms and takes 10 MB.
        command = [sys.executable, "-I", "-S", mover.__file__, str(here), str(there)]
        self._here, self._there = here, there
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def move(self) -> None:
        """Move what there is, and wait until it is there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise OSError(f"{self._there}: the process that moves frames there has died")
        if answer.strip():
            raise OSError(*json.loads(answer))

    def close(self) -> None:
        """Let it move what is left, and end."""
        with self._process:  # closes its input, and waits for its end
            pass
        if self._process.returncode:
            raise OSError(f"{self._there}: the last frames could not be moved there from {self._here}")
