"""A disk that loses power: of a folder, what was synced is left, and a name only where its folder was synced too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


class Disk:
    """Watches os.fsync below a folder, whose content at the beginning is on the disk.

    A file is known by its inode, which stays in use: so a file that was renamed keeps what it was synced with.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self._kept = root, list[int]()
        self._files: dict[int, bytes] = {}
        self._folders: dict[int, dict[str, int]] = {}
        for path in [root, *root.rglob("*")]:
            self._take(os.open(path, os.O_RDONLY))
        synced = os.fsync

        def fsync(file: Any) -> None:
            handle = file if isinstance(file, int) else file.fileno()
            synced(handle)
            self._take(os.dup(handle))

        monkeypatch.setattr(os, "fsync", fsync)

    def after_power_failure(self, target: Path) -> Path:
        """What the disk holds now, copied to a folder."""
        self._restore(self.root.stat().st_ino, target)
        return target

    def _take(self, handle: int) -> None:
        self._kept.append(handle)
        path, inode = Path(f"/proc/self/fd/{handle}"), os.fstat(handle).st_ino
        if path.is_dir():
            self._folders[inode] = {each.name: each.inode() for each in os.scandir(path)}
        else:
            self._files[inode] = path.read_bytes()

    def _restore(self, inode: int, target: Path) -> None:
        if inode not in self._folders:
            target.write_bytes(self._files.get(inode, b""))
            return
        target.mkdir()
        for name, each in self._folders[inode].items():
            self._restore(each, target / name)
