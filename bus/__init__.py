"""The tuple space: messages between processes, by content, on a Redis or Valkey server. Uses nothing else of Steersman."""

from steersman.bus.errors import (
    BadTemplate,
    BusError,
    BusTimeout,
    DamagedMessage,
    LeaseExpired,
    NameFull,
    NotPlain,
    OutOfMemory,
    ServerFailed,
    ServerLost,
    ServerRefused,
    ServersDiffer,
)
from steersman.bus.operations import ALL
from steersman.bus.server import Server
from steersman.bus.space import TupleSpace
from steersman.bus.tuples import ANY, Template, Tuple

__all__ = [
    "ALL",
    "ANY",
    "BadTemplate",
    "BusError",
    "BusTimeout",
    "DamagedMessage",
    "LeaseExpired",
    "NameFull",
    "NotPlain",
    "OutOfMemory",
    "Server",
    "ServerFailed",
    "ServerLost",
    "ServerRefused",
    "ServersDiffer",
    "Template",
    "Tuple",
    "TupleSpace",
]
