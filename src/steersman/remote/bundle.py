"""A workflow file and what it needs <-> one archive that travels in a task."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from steersman.remote.errors import too_large
from steersman.remote.wire import MOST_BYTES, inflated
from steersman.stages import modules
from steersman.system.errors import BadInput

MOST_UNPACKED = 2**29  # bytes of the archive, which is at most MOST_BYTES when it is compressed


def files(workflow: Path, *others: Path) -> dict[str, bytes]:
    """A workflow file, the modules of its folder that it imports, and others under their own names, by name.

    Raises: BadInput: two have the same name, or one cannot be read.
    """
    found: dict[str, bytes] = {}
    inside = [
        (workflow.name, workflow),
        *((str(p.relative_to(workflow.parent)), p) for p in modules.imported(workflow)),
    ]
    for name, path in [*inside, *((path.name, path) for path in others)]:
        if name in found and found[name] != _read(path):
            raise BadInput(f"two files are called {name}, but all files go to one folder at the site; rename one")
        found[name] = _read(path)
    return found


def pack(contents: Mapping[str, bytes]) -> bytes:
    """The same bytes for the same files. Raises: BadInput: they are too large."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in sorted(contents.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    compressed = zlib.compress(packed.getvalue())
    if len(compressed) > MOST_BYTES:
        raise too_large("the workflow with its inputs", len(compressed), MOST_BYTES)
    return compressed


def unpack(packed: bytes, folder: Path) -> None:
    """Write the files into a folder, and nowhere else. Raises: BadInput: it is no archive of ours, or too large."""
    try:
        archive = tarfile.open(fileobj=io.BytesIO(inflated(packed, MOST_UNPACKED)), mode="r:")  # noqa: SIM115
        members = archive.getmembers()
    except (ValueError, tarfile.TarError) as error:
        raise BadInput(f"the archive cannot be unpacked: {error}") from None
    size = sum(member.size for member in members)
    if size > MOST_UNPACKED or not all(member.type == tarfile.REGTYPE for member in members):
        raise BadInput(f"the archive holds more than files, or {size:,} bytes; {MOST_UNPACKED:,} are unpacked")
    archive.extractall(folder, filter="data")


def digest(*parts: bytes) -> str:
    """Six letters that distinguish a submission from others."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:6]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None
