"""A run that has ended -> the SHA-256 of each of its files, in the format of `sha256sum`: any change shows.

Shards of frames and scores are left out: each of their chunks carries a checksum, and there may be terabytes of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from steersman.journal import copies
from steersman.journal.run_directory import RunDirectory, sha256
from steersman.system.files import PARTIAL, replace_file
from steersman.system.reading import is_inside

MOST_BYTES = 2**30  # of the manifest: ten million files
# The file itself, what is of no run that ended, what only its owner may read, as the bus, which checks its own data,
# and Parsl's logs, to which a scheduler may add when all is over.
UNSEALED = ("manifest.sha256", "driver.json", ".lock", "aside", ".remote", "__pycache__", "parsl", "bus")


def seal(directory: RunDirectory) -> None:
    """Write down what every file is now."""
    replace_file(directory.manifest, _text(_digests(directory.path)), sync=True)


def unseal(directory: RunDirectory) -> None:
    """The run goes on, and its files change."""
    directory.manifest.unlink(missing_ok=True)


def renew(directory: RunDirectory, *made_again: Path) -> None:
    """Take files and folders that were made again as they are now; what else has changed since the seal still shows."""
    if not directory.manifest.exists():
        return
    known = dict(_lines(directory.read(directory.manifest, MOST_BYTES)))
    known |= _digests(directory.path, lambda path: any(each in (path, *path.parents) for each in made_again))
    replace_file(directory.manifest, _text(known))


def changes(directory: RunDirectory) -> Iterator[tuple[str, str]]:
    """Give each file that is not what it was sealed as, and what is wrong with it.

    Raises: OSError: the manifest cannot be read.
    """
    text = directory.read(directory.manifest, MOST_BYTES)
    known = dict(_lines(text))
    if _text(known).encode() != text:
        yield directory.manifest.name, "it was changed since it was written"
    there = {_escaped(name): path for name, path in _files(directory.path)}
    for name in sorted(known.keys() - there.keys()) if copies.of(directory.path) is None else ():  # a copy has a part
        yield name, "it is missing"
    for name in sorted(there.keys() - known.keys()):
        yield name, "it was added after the run was sealed"
    for name in sorted(known.keys() & there.keys()):
        if sha256(there[name], directory.path) != known[name]:
            yield name, "it was changed after the run was sealed"


def _digests(top: Path, wanted: Callable[[Path], bool] = lambda path: True) -> dict[str, str]:
    """Name -> SHA-256 of files; one that goes meanwhile is not among them."""
    digests = {}
    for name, path in _files(top):
        if wanted(path):
            with contextlib.suppress(FileNotFoundError):
                digests[_escaped(name)] = sha256(path, top)
    return digests


def _files(top: Path) -> Iterator[tuple[str, Path]]:
    for folder, folders, names in os.walk(top):
        if Path(folder).parts[len(top.parts) :][:1] in (("frames.zarr",), ("scores.zarr",)):
            folders[:] = [name for name in folders if name != "c"]
        if Path(folder) == top:
            folders[:] = [name for name in folders if name not in UNSEALED]
            names = [name for name in names if name not in UNSEALED]
        for name in names:
            path = Path(folder, name)
            if path.is_file() and path.suffix != PARTIAL and is_inside(path, top):  # sockets of servers have no content
                yield str(path.relative_to(top)), path


def _lines(text: bytes) -> Iterator[tuple[str, str]]:
    """Name and digest of each line."""
    for line in text.decode(errors="replace").splitlines():
        digest, _, name = line.partition("  ")
        yield name, digest


def _text(digests: Mapping[str, str]) -> str:
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("\n", "\\n")
