"""How fast frames are written and read: `steersman bench store --json` prints one JSON object.

The frames are those of a 28-residue peptide: positions (504, 3) float32, contacts (28, 28) bool, time and energy. Ours
are appended one by one, as a simulation gives them, and published in between, checksums included. Beside it in turns:

* zarr_best: zarr-python's own best layout for this, whole blocks of 8 MiB known beforehand, no shards, no compression,
  no checksums;
* memmap: one .npy file for each variable, its final size known beforehand.

All three write into the page cache of one file system and read from it, so the figures compare software, not disks.
`read_over_zarr_best` is our rate of reading over that of zarr_best, and so on.
`point` reads the positions of single frames in random order, as a start does.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import zarr

from steersman.store import FRAME, Frames, GroupWriter, Span
from steersman.store.column import chunk_and_shard

BLOCK_BYTES = 8 * 2**20
POINTS = 200
Blocks = Mapping[str, np.ndarray]
Side = tuple[Callable[[Path, Blocks], None], Callable[[Path, str], np.ndarray], Callable[[Path, np.ndarray], None]]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(prog="steersman bench store", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--frames", type=int, default=20_000, help="frames of one writing")
    parser.add_argument("--publish-every", type=int, default=2_500, help="frames between two publications")
    parser.add_argument("--rounds", type=int, default=5, help="writings and readings of each side, in turns")
    given = parser.parse_args(argv)
    frames = peptide_frames(given.frames)
    with tempfile.TemporaryDirectory(prefix="steersman-bench-") as folder:
        print(json.dumps(measured(Path(folder), frames, given)))


def peptide_frames(count: int) -> Blocks:
    """Frames as a simulation would give them, by variable."""
    rng = np.random.default_rng(1)
    return {
        "time": np.arange(count) * 0.2,
        "energy": rng.normal(-3000.0, 50.0, count),
        "contacts": rng.random((count, 28, 28)) < 0.2,
        "positions": rng.normal(0.0, 1.0, (count, 504, 3)).astype(np.float32),
    }


def measured(folder: Path, frames: Blocks, given: argparse.Namespace) -> dict[str, Any]:
    """Rates of all sides and our ratios to the others; MB are of unpacked arrays."""
    sides: dict[str, Side] = {
        "ours": (lambda path, blocks: write_ours(path, blocks, given.publish_every), read_ours, points_ours),
        "zarr_best": (write_zarr, read_zarr, points_zarr),
        "memmap": (write_memmap, read_memmap, points_memmap),
    }
    seconds: dict[str, dict[str, list[float]]] = {name: {"write": [], "read": [], "point": []} for name in sides}
    rows = np.random.default_rng(2).integers(0, given.frames, POINTS)
    for number in range(given.rounds):
        for name, (write, read, points) in sides.items():
            print(f"round {number + 1} of {given.rounds}: {name}", file=sys.stderr)
            path = folder / name
            seconds[name]["write"].append(timed(lambda: write(path, frames)))  # noqa: B023 (called at once)
            seconds[name]["read"].append(timed(lambda: [read(path, variable) for variable in frames]))  # noqa: B023
            seconds[name]["point"].append(timed(lambda: points(path, rows)) / POINTS)  # noqa: B023
            if number < given.rounds - 1:
                shutil.rmtree(path)
    check_equal(folder, frames)
    return summary(folder, frames, {side: {k: median(v) for k, v in each.items()} for side, each in seconds.items()})


def summary(folder: Path, frames: Blocks, seconds: dict[str, dict[str, float]]) -> dict[str, Any]:
    count = len(frames["time"])
    megabytes = sum(block.nbytes for block in frames.values()) / 1e6
    found = sum(path.is_file() for path in (folder / "ours").rglob("*"))
    if found != files(frames, count):
        raise RuntimeError(f"{found} files were written, {files(frames, count)} were expected")
    result: dict[str, Any] = {"frames": count, "megabytes": round(megabytes, 1)}
    for side, taken in seconds.items():
        result[f"{side}_write_MB_per_s"] = round(megabytes / taken["write"])
        result[f"{side}_read_MB_per_s"] = round(megabytes / taken["read"])
        result[f"{side}_point_read_ms"] = round(1e3 * taken["point"], 3)
    for other in ("zarr_best", "memmap"):
        for what in ("write", "read", "point"):
            result[f"{what}_over_{other}"] = round(seconds[other][what] / seconds["ours"][what], 3)
    return result | {
        "frames_per_s": round(count / seconds["ours"]["write"]),
        "files_per_1e6_frames": files(frames, 10**6),
    }


def files(frames: Blocks, count: int) -> int:
    """Files of a walker with so many frames: shards, one zarr.json for each variable and one for the group."""
    shards = (-(-count // chunk_and_shard(block[0].nbytes)[1]) for block in frames.values())
    return sum(shards) + len(frames) + 1


def write_ours(path: Path, frames: Blocks, publish_every: int) -> None:
    writer = GroupWriter(path / "w0")
    for row in range(len(frames["time"])):
        writer.append(FRAME, {name: block[row] for name, block in frames.items()})
        if (row + 1) % publish_every == 0:
            writer.publish()
    writer.close()


def read_ours(path: Path, name: str) -> np.ndarray:
    frames = Frames(path)
    return frames.read(name, Span("w0", 0, frames.count("w0")))


def points_ours(path: Path, rows: np.ndarray) -> None:
    frames = Frames(path)
    for row in rows:
        frames.row("w0", int(row))["positions"]


def write_zarr(path: Path, frames: Blocks) -> None:
    group = zarr.open_group(path, mode="w")
    for name, block in frames.items():
        rows = max(1, BLOCK_BYTES // block[0].nbytes)
        array = group.create_array(
            name, shape=block.shape, dtype=block.dtype, chunks=(rows, *block.shape[1:]), compressors=None
        )
        array[:] = block


def read_zarr(path: Path, name: str) -> np.ndarray:
    return np.asarray(array_in(path, name)[:])


def points_zarr(path: Path, rows: np.ndarray) -> None:
    array = array_in(path, "positions")
    for row in rows:
        array[int(row)]


def array_in(path: Path, name: str) -> zarr.Array[Any]:
    array = zarr.open_group(path, mode="r")[name]
    assert isinstance(array, zarr.Array)
    return array


def write_memmap(path: Path, frames: Blocks) -> None:
    path.mkdir()
    for name, block in frames.items():
        mapped = np.lib.format.open_memmap(path / f"{name}.npy", mode="w+", dtype=block.dtype, shape=block.shape)
        for row, value in enumerate(block):
            mapped[row] = value
        mapped.flush()


def read_memmap(path: Path, name: str) -> np.ndarray:
    return np.array(np.load(path / f"{name}.npy", mmap_mode="r"))


def points_memmap(path: Path, rows: np.ndarray) -> None:
    mapped = np.load(path / "positions.npy", mmap_mode="r")
    for row in rows:
        np.array(mapped[row])


def check_equal(folder: Path, frames: Blocks) -> None:
    """A rate of wrong numbers is worth nothing."""
    for name, block in frames.items():
        for side, read in (("ours", read_ours), ("zarr_best", read_zarr), ("memmap", read_memmap)):
            if not np.array_equal(read(folder / side, name), block):
                raise RuntimeError(f"{side} gives back other {name} than were written")


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
