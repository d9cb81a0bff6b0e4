"""Bytes -> a file that is there whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def replace_file(path: Path, content: str | bytes, *, sync: bool = False, private: bool = False) -> None:
    """Write a file whole or not at all; `sync` waits until it is on the disk, `private` is for us alone to read."""
    partial = path.with_suffix(f".{uuid.uuid4().hex}.partial")
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666), "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
