"""Files that several processes share: replaced whole, locked, and read whatever they hold."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from steersman.system.reading import OddFile

PARTIAL = ".partial"  # ends the name of what is being written, and will be another file's content
CUT = b"(the beginning was cut off)\n"


def home(variable: str, below: str) -> Path | None:
    """A user's folder by the XDG variable that names it, or below the home; None where there is neither."""
    if named := os.environ.get(variable):
        return Path(named)
    try:
        return Path.home() / below
    except RuntimeError:  # a container's user without a name
        return None


def state_folder() -> Path | None:
    """Where this user keeps what outlives a command; None: there is no home. It is not made."""
    folder = home("XDG_STATE_HOME", ".local/state")
    return folder / "steersman" if folder else None


def text_of(path: Path) -> str:
    """Whatever was written to a file, as text; "" when there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def shorten(path: Path, most: int) -> None:
    """Keep only the end of a file that others append to, half of `most` bytes, when it has become larger than that."""
    size = path.stat().st_size
    if size <= most:
        return
    with path.open("r+b") as file:
        file.seek(size - most // 2)
        end = CUT + file.read()
        file.seek(0)
        file.write(end)
        file.truncate()


def replace_file(path: Path, content: str | bytes, *, sync: bool = False, mode: int = 0o666) -> None:
    """Write a file whole or not at all; `sync` waits until it is on the disk under its name, `mode` is os.open()'s."""
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}{PARTIAL}")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
        if sync:
            sync_folder(path.parent)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk: a file that was synced has none before."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot sync folders
            os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(path: Path) -> None:
    """Wait until a folder is on the disk with all that is in it."""
    for each in [*path.rglob("*"), path]:
        if each.is_symlink():
            continue
        if each.is_dir():
            sync_folder(each)
        elif each.is_file():
            with each.open("rb") as file:
                os.fsync(file.fileno())


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock of a file, which is made; it goes with this process, however that ends.

    Some file systems of clusters are mounted without locks: there nobody waits.

    Raises: OddFile: what is there is no regular file, as a link that leads elsewhere.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        raise OddFile(str(path), "it is no regular file; remove it") from None
    with open(handle, "w") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def take_lock(handle: int) -> bool:
    """Lock an open file or folder if nobody who lives holds it. A file system without locks says no to everybody."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
