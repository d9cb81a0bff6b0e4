"""A run that has ended -> the SHA-256 of each of its files, in the format of `sha256sum`: any change shows.

Shards of frames and scores are left out: each of their chunks carries a checksum, and there may be terabytes of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from steersman.journal.run_directory import RunDirectory, sha256
from steersman.system.files import replace_file

UNSEALED = ("manifest.sha256", "driver.json", ".lock", "aside")  # the file itself, and what is of no run that ended


def seal(directory: RunDirectory) -> None:
    """Write down what every file is now."""
    lines = [f"{sha256(path)}  {_escaped(name)}\n" for name, path in sorted(_files(directory.path))]
    replace_file(directory.manifest, "".join(lines))


def unseal(directory: RunDirectory) -> None:
    """The run goes on, and its files change."""
    directory.manifest.unlink(missing_ok=True)


def changes(directory: RunDirectory) -> Iterator[tuple[str, str]]:
    """Give each file that is not what it was sealed as, and what is wrong with it.

    Raises: OSError: the manifest cannot be read.
    """
    known = {}
    for number, line in enumerate(directory.manifest.read_bytes().decode(errors="replace").splitlines(), 1):
        digest, _, name = line.partition("  ")
        if len(digest) != 64 or not name:
            yield directory.manifest.name, f"line {number} is no `<sha256>  <file>`"
        known[name] = digest
    there = {_escaped(name): path for name, path in _files(directory.path)}
    for name in sorted(known.keys() - there.keys()):
        yield name, "it is missing"
    for name in sorted(there.keys() - known.keys()):
        yield name, "it was not there when the run was sealed"
    for name in sorted(known.keys() & there.keys()):
        if sha256(there[name]) != known[name]:
            yield name, "it was changed since the run was sealed"


def _files(top: Path) -> Iterator[tuple[str, Path]]:
    for folder, folders, names in os.walk(top):
        if Path(folder).parts[len(top.parts) :][:1] in (("frames.zarr",), ("scores.zarr",)):
            folders[:] = [name for name in folders if name != "c"]
        if Path(folder) == top:
            folders[:] = [name for name in folders if name not in UNSEALED]
            names = [name for name in names if name not in UNSEALED]
        for name in names:
            path = Path(folder, name)
            if path.is_file():  # sockets of servers have no content
                yield str(path.relative_to(top)), path


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\n", "\\n")
