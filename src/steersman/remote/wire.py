"""Plain values <-> text for a task: msgpack, compressed, in base64; and how much of it the service carries."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import msgpack
import msgspec

PROTOCOL = 1  # of requests and answers; it changes when an older Steersman would misunderstand them
MOST_BYTES = 6 * 2**20  # in one task: base64 makes 8 MiB of it, and the service carries 10
MOST_PLAIN = 64 * 2**20  # that these may become when they are decompressed: a listing of half a million files


def encode(values: Any) -> str:
    return base64.b64encode(zlib.compress(msgpack.packb(values), 1)).decode()


def decode(text: str, kind: Any = Any) -> Any:
    """Args: kind: see msgspec. Raises: ValueError: it is none of ours, was cut, is too large, or is of another kind."""
    try:
        return msgspec.msgpack.decode(inflated(base64.b64decode(text.strip(), validate=True), MOST_PLAIN), type=kind)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def inflated(packed: bytes, most: int) -> bytes:
    """Decompress what somebody else compressed. Raises: ValueError: it is cut or damaged, or becomes more than that."""
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(packed, most)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not inflater.eof:
        raise ValueError(f"it is cut, or has more than {most:,} bytes when it is decompressed")
    return plain
