"""What each of two ranks does that play two nodes of one machine: staging, with faults, counting what is read."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from steersman.models import Model
from steersman.models.errors import StagingFailed
from steersman.models.ranks import staging as stage
from steersman.store import Frames, Window


def staged_on_two_nodes(*, frames: str, folder: str) -> Model:
    """Stage a window to a folder for each rank; the card has, by rank, bytes read, files and a hash of their content.

    The second rank's first read fails, and the first piece of it that arrives at the first rank is damaged once.
    """
    rank = int(os.environ["RANK"])
    os.environ["STEERSMAN_NODE"], here = f"node{rank}", Path(folder) / f"node{rank}"
    counted = _counting_reads(failing=1 if rank == 1 else 0)
    if rank == 0:
        _damage_one_piece()
    found = Frames(Path(frames))
    window = stage.staged(Window(found, found.spans()), here)
    maps = window["maps"]
    files = {str(path.relative_to(here)): path.read_bytes() for path in sorted(here.rglob("*")) if path.is_file()}
    told = {"read": counted[0], "files": {name: hashlib.sha256(each).hexdigest() for name, each in files.items()}}
    told |= {"rows": window.rows, "sum": int(maps.sum()), "failed": _failing_on_one_node(here, rank)}
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, told)
    model = Model()
    model.card = {"ranks": everyone}
    return model


def _failing_on_one_node(here: Path, rank: int) -> str:
    """What a rank says when the second one's disk cannot be written."""
    target = here / "files" if rank == 0 else here / "zarr.json" / "below a file"
    (here / "zarr.json").parent.mkdir(parents=True, exist_ok=True)
    if rank == 1:
        (here / "zarr.json").write_text("a file")
    try:
        stage.stage(Path(__file__).parent, ["staging.py"], target)
    except StagingFailed as error:
        return str(error)
    return "nothing"


def _counting_reads(failing: int) -> list[int]:
    """Count the bytes of every piece that is read; the first `failing` reads fail."""
    counted, left, inner = [0], [failing], stage._read_once

    def read(file: Any, offset: int, size: int) -> bytes:
        if left[0]:
            left[0] -= 1
            raise OSError("the file system has gone away")
        content = inner(file, offset, size)
        counted[0] += len(content)
        return content

    stage._read_once = read
    return counted


def _damage_one_piece() -> None:
    """One bit of what the other node sends is turned, once."""
    inner, left = stage._Nodes.gathered, [1]

    def gathered(self: Any, mine: torch.Tensor) -> list[torch.Tensor]:
        found = inner(self, mine)
        if left[0]:
            left[0] -= 1
            found[1][stage.HEAD + 30] ^= 1
        return found

    stage._Nodes.gathered = gathered  # type: ignore[method-assign]
