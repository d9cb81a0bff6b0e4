"""What a walker asks of the shared file system, with and without a node's own: `steersman bench scratch --json`.

A walker that makes frames at a steady rate and publishes twice a second, as a quick one does, without waiting: the
clock is wound forward. Counted of one minute of it, once its group is there: files made or renamed, and megabytes
written, below the folder that all nodes share. The last minute of many is counted, as the shards have filled by then.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from steersman.benchmarks.store import Blocks, peptide_frames
from steersman.store import FRAME, MOVE_EVERY_S, GroupWriter
from steersman.store.mover import move
from steersman.worker.publisher import PUBLISH_EVERY_S

MINUTE_S = 60.0


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="steersman bench scratch", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--frames-per-s", type=int, default=10)
    parser.add_argument("--minutes", type=int, default=5)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        print(json.dumps(measure(Path(folder), given.frames_per_s, given.minutes)))


def measure(folder: Path, frames_per_s: int, minutes: int) -> dict[str, Any]:
    """Operations of both ways in their last minute."""
    frames = peptide_frames(int(frames_per_s * MINUTE_S))
    shared, node = folder / "shared", folder / "node"
    shared.mkdir()
    watch = Watch(shared)
    direct = GroupWriter(shared / "w0")
    for _ in range(minutes):
        watch.begin()
        minute(direct, frames, direct.publish)
    found = {f"direct_{what}": value for what, value in watch.counted().items()}
    behind = GroupWriter(node / "w0")
    (shared / "w1").mkdir()
    for _ in range(minutes):
        watch.begin()
        minute(behind, frames, seldom(behind, shared / "w1"))
    found |= {f"scratch_{what}": value for what, value in watch.counted().items()}
    return {"frames_per_s": frames_per_s, "minutes": minutes} | found


def seldom(writer: GroupWriter, there: Path) -> Callable[[], None]:
    """Publish on the node each time, and move what is there every MOVE_EVERY_S, as its process does."""
    times = 0

    def publish() -> None:
        nonlocal times
        times += 1
        writer.publish()
        if times % round(MOVE_EVERY_S / PUBLISH_EVERY_S) == 0:
            move(writer.path, there)

    return publish


def minute(writer: GroupWriter, frames: Blocks, publish: Callable[[], object]) -> None:
    rows = len(frames["time"])
    each = max(1, round(rows * PUBLISH_EVERY_S / MINUTE_S))
    for first in range(0, rows, each):
        writer.extend(FRAME, {name: block[first : first + each] for name, block in frames.items()})
        publish()


class Watch:
    """Counts what this process does below a folder, by the events that Python audits."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._seen, self._bytes = f"{folder}{os.sep}", Counter[str](), 0
        sys.addaudithook(self._hear)

    def begin(self) -> None:
        self._seen.clear()
        self._bytes = 0

    def counted(self) -> dict[str, float]:
        return {
            "files_made": self._seen["open"],
            "files_renamed": self._seen["os.rename"],
            "mb_written": round(self._bytes / 1e6, 1),
        }

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and str(args[0]).startswith(self._folder) and args[2] & os.O_CREAT:
            self._seen[event] += 1
        elif event == "os.rename" and str(args[1]).startswith(self._folder):
            self._seen[event] += 1
            self._bytes += os.stat(args[0]).st_size


if __name__ == "__main__":
    main()
