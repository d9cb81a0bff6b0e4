"""Files of a folder that somebody else may have filled -> their content, or a reason why they are not read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from steersman.system.errors import DamagedFile

MOST = 64 * 2**20  # bytes of a file that is read at once


class OddFile(DamagedFile):
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path} is not read: {self.problem}"


def opened(path: Path, folder: Path) -> BinaryIO:
    """Open a file to read it; the folder may be anybody's.

    Raises: OddFile: no regular file, as a pipe or a device, or one to which a symbolic link leads out of the folder.
        OSError: there is none, say.
    """
    if not is_inside(path, folder):
        raise OddFile(str(path), f"a symbolic link leads out of {folder}; put the file itself there")
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait for who writes into it
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OddFile(str(path), "it is no regular file; remove it")
    return os.fdopen(handle, "rb")


def read(path: Path, folder: Path, most: int = MOST) -> bytes:
    """All of such a file. Raises: as `opened`; OddFile: also where it has more bytes than `most`."""
    with opened(path, folder) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OddFile(str(path), f"it has more than {most:,} bytes; a run writes no such file")
    return content


def is_inside(path: Path, folder: Path) -> bool:
    """Whether no symbolic link on the way to a file leads out of a folder."""
    real = os.path.realpath(path)
    return os.path.commonpath([real, top := os.path.realpath(folder)]) == top
