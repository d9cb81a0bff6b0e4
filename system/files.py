"""Bytes -> a file that is there whole or not at all."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def replace_file(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Write a file whole or not at all; `sync` waits until it is on the disk."""
    partial = path.with_suffix(f".{uuid.uuid4().hex}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
