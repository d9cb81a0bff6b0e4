"""Files of a folder that somebody else may have filled -> their content, or a reason why they are not read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from steersman.system.errors import DamagedFile

MOST = 64 * 2**20  # bytes of a file that is read at once
MOST_LINE = 64 * 2**20
AT_ONCE = 2**16  # for which memory is asked, whatever a file may have
MOST_TEXT = 2**20  # of a text that people look at: its end
CUT = "(the beginning is left out)\n"


class OddFile(DamagedFile):
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path} is not read: {self.problem}"


def opened(path: Path, folder: Path) -> BufferedReader:
    """Open a file to read it; the folder may be anybody's.

    Raises: OddFile: no regular file, as a pipe or a device, or one to which a symbolic link leads out of the folder.
        OSError: there is none, say.
    """
    check_inside(path, folder)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would wait for who writes into it
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OddFile(str(path), "it is no regular file; remove it")
    return os.fdopen(handle, "rb")


def read(path: Path, folder: Path, most: int = MOST) -> bytes:
    """All of such a file. Raises: as `opened`; OddFile: also where it has more bytes than `most`."""
    content = bytearray()
    with opened(path, folder) as file:
        large = os.fstat(file.fileno()).st_size > most
        while not large and (part := file.read(AT_ONCE)):
            content += part
            large = len(content) > most  # it grew meanwhile
    if large:
        raise OddFile(str(path), f"it has more than {most:,} bytes; a run writes no such file")
    return bytes(content)


def lines(path: Path, folder: Path) -> Iterator[bytes]:
    """The lines of such a file; one that is being written is left for later. Raises: as `read`, of a line."""
    with opened(path, folder) as file:
        while (line := file.readline(MOST_LINE)).endswith(b"\n"):
            yield line
    if len(line) == MOST_LINE:
        raise OddFile(str(path), f"it has a line of more than {MOST_LINE:,} bytes; a run writes no such file")


def text(path: Path, folder: Path) -> str:
    """Whatever was written to such a file, or its end, as text; "" when there is none; of an odd one, why not."""
    try:
        with opened(path, folder) as file:
            cut = file.seek(0, os.SEEK_END) > MOST_TEXT
            file.seek(-MOST_TEXT if cut else 0, os.SEEK_END if cut else os.SEEK_SET)
            return (CUT if cut else "") + file.read(MOST_TEXT).decode(errors="replace")
    except OddFile as odd:
        return str(odd)
    except OSError:
        return ""


def check_inside(path: Path, folder: Path) -> None:
    """Raises: OddFile: a symbolic link leads out of the folder."""
    if not is_inside(path, folder):
        raise OddFile(str(path), f"a symbolic link leads out of {folder}; put the file itself there")


def is_inside(path: Path, folder: Path) -> bool:
    """Whether no symbolic link on the way to a file leads out of a folder."""
    real = os.path.realpath(path)
    return os.path.commonpath([real, top := os.path.realpath(folder)]) == top
