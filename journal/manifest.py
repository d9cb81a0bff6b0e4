"""A run that has ended -> the SHA-256 of each of its files, in the format of `sha256sum`: any change shows.

Shards of frames and scores are left out: each of their chunks carries a checksum, and there may be terabytes of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from steersman.journal.run_directory import RunDirectory, sha256
from steersman.system.files import replace_file

UNSEALED = ("manifest.sha256", "driver.json", ".lock", "aside")  # the file itself, and what is of no run that ended


def seal(directory: RunDirectory) -> None:
    """Write down what every file is now."""
    replace_file(directory.manifest, _text({_escaped(name): sha256(path) for name, path in _files(directory.path)}))


def unseal(directory: RunDirectory) -> None:
    """The run goes on, and its files change."""
    directory.manifest.unlink(missing_ok=True)


def changes(directory: RunDirectory) -> Iterator[tuple[str, str]]:
    """Give each file that is not what it was sealed as, and what is wrong with it.

    Raises: OSError: the manifest cannot be read.
    """
    text = directory.manifest.read_bytes()
    lines = text.decode(errors="replace").splitlines()
    known = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    if _text(known).encode() != text:
        yield directory.manifest.name, "it is not as it was written"
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


def _text(digests: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\n", "\\n")
