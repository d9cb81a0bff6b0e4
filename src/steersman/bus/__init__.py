"""The tuple space: messages between processes, by content, on Redis or Valkey. Needs nothing else of Steersman."""

from steersman.bus.errors import (
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
from steersman.bus.inspect import Row, rows
from steersman.bus.operations import ALL
from steersman.bus.server import Server
from steersman.bus.servers import Servers
from steersman.bus.space import TupleSpace
from steersman.bus.statistics import Statistics
from steersman.bus.tuples import ANY, Template, Tuple, dead_letters

__all__ = [
    "ALL",
    "ANY",
    "BusError",
    "BusTimeout",
    "DamagedMessage",
    "LeaseExpired",
    "NameFull",
    "NotPlain",
    "OutOfMemory",
    "Row",
    "Server",
    "ServerFailed",
    "ServerLost",
    "ServerRefused",
    "Servers",
    "ServersDiffer",
    "Statistics",
    "Template",
    "Tuple",
    "TupleSpace",
    "dead_letters",
    "rows",
]
