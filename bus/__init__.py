"""The tuple space: messages between processes, by content, on Redis or Valkey. Needs nothing else of Steersman."""

from steersman.bus.aio import AsyncTupleSpace
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
from steersman.bus.statistics import Statistics
from steersman.bus.tuples import ANY, Template, Tuple, dead_letters

__all__ = [
    "ALL",
    "ANY",
    "AsyncTupleSpace",
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
    "Statistics",
    "Template",
    "Tuple",
    "TupleSpace",
    "dead_letters",
]
