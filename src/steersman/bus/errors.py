"""What can go wrong on the bus: one tree of errors, each of which pickles.

BusError
├── BusTimeout         no tuple, or no room, within the time limit
├── LeaseExpired       acknowledged, renewed or released too late
├── NotPlain           a value that does not travel
├── DamagedMessage     a stored message that is not a tuple; it was moved aside
├── NameFull           the bound of a name is reached
├── OutOfMemory        the server's memory limit is reached
├── ServersDiffer      a transaction over names that live on different servers
├── ServerLost         a server that does not answer
├── ServerRefused      a server that answers with an error
└── ServerFailed       an embedded server that does not start
"""

from __future__ import annotations

from steersman.system.errors import EngineError


class BusError(EngineError):
    """Anything that goes wrong on the bus."""


class BusTimeout(BusError):
    """The time limit of a blocking operation passed."""

    name: str
    timeout_s: float

    def __str__(self) -> str:
        return (
            f"{self.name}: no tuple within {self.timeout_s:g} s; raise timeout_s, or look at statistics() for the name"
        )


class LeaseExpired(BusError):
    """A tuple was acknowledged, renewed or released when it was no longer ours."""

    name: str
    lease_s: float

    def __str__(self) -> str:
        return (
            f"{self.name}: not acknowledged within its lease of {self.lease_s:g} s, so it is offered to others again; "
            "raise lease_s above the longest task, or renew() inside the task"
        )


class NotPlain(BusError):
    """A value cannot travel: only plain values, arrays and tensors do, nothing is pickled."""

    name: str
    what: str

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.what} cannot be sent on the bus; send str, int, float, bool, bytes, None, "
            "lists and dicts of them, numpy arrays or torch tensors"
        )


class DamagedMessage(BusError):
    """A stored message is not a tuple of ours; it was moved aside and the name goes on."""

    name: str
    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: message {self.number} is damaged ({self.reason}); it was set aside, see damaged()"


class NameFull(BusError):
    """A put would pass the bound of its name."""

    name: str
    bound: int

    def __str__(self) -> str:
        return f"{self.name}: full ({self.bound} tuples, its bound); wait with put(timeout_s=), or raise the bound"


class OutOfMemory(BusError):
    """The server's memory limit is reached; nothing was put and nothing is lost."""

    name: str
    address: str

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.address} has reached its memory limit; take tuples, bound the name or raise maxmemory"
        )


class ServersDiffer(BusError):
    """A transaction names tuples that live on different servers."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.names)}: are on different servers; a transaction is possible on one server only"


class ServerLost(BusError):
    """A server did not answer for as long as we have patience."""

    address: str
    patience_s: float
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.address} does not answer for {self.patience_s:g} s ({self.reason}); "
            "only its names are blocked; restart it, or raise patience_s"
        )


class ServerRefused(BusError):
    """A server answered with an error."""

    address: str
    message: str

    def __str__(self) -> str:
        return f"{self.address} refused: {self.message}"


class ServerFailed(BusError):
    """An embedded server did not start."""

    directory: str
    reason: str

    def __str__(self) -> str:
        return f"no server in {self.directory}: {self.reason}"
