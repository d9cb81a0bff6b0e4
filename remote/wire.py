"""Plain values <-> text for a task: msgpack, compressed, in base64; and how much of it the service carries."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import msgpack

PROTOCOL = 1  # of requests and answers; it changes when an older Steersman would misunderstand them
MOST_BYTES = 6 * 2**20  # in one task: base64 makes 8 MiB of it, and the service carries 10


def encode(values: Any) -> str:
    return base64.b64encode(zlib.compress(msgpack.packb(values), 1)).decode()


def decode(text: str) -> Any:
    """Raises: ValueError: it is none of ours, or was cut."""
    try:
        return msgpack.unpackb(zlib.decompress(base64.b64decode(text.strip(), validate=True)), strict_map_key=False)
    except zlib.error as error:
        raise ValueError(str(error)) from None
