"""Space and name -> keys on the server."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Keys:
    """How a space names its keys. A name's keys share the hash tag of the name, and so do its dead letters."""

    space: str = "default"

    def base(self, name: str) -> bytes:
        """The key that all keys of a name begin with."""
        return _base(self.space, name)

    def pattern(self, end: bytes = b"") -> bytes:
        """The glob of all keys of the space that end so; of `:m` each name in use has one."""
        return re.sub(r"([\[\]*?\\^])", r"\\\1", f"steersman:{self.space}:").encode() + b"{*" + end

    def name(self, base: bytes) -> str:
        """The name again from a base key."""
        stem, _, rest = base.decode().split("{", 1)[1].partition("}")
        return stem.replace("%7B", "{").replace("%7D", "}").replace("%25", "%") + rest


@functools.lru_cache(4096)
def _base(space: str, name: str) -> bytes:
    stem, dead, rest = name.partition("!dead")
    return f"steersman:{space}:{{{_quoted(stem)}}}{dead}{rest}".encode()


def _quoted(name: str) -> str:
    """A name without braces, which would end a hash tag, and never empty, which would be none."""
    return name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D") or "%00"
