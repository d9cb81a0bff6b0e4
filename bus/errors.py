"""What can go wrong on the bus: one tree of errors, each of which pickles.

BusError
├── BusTimeout         no tuple, or no room, within the time limit
├── LeaseExpired       acknowledged, renewed or released too late
├── NotPlain           a value that does not travel
├── BadTemplate        a template that can never be meant
├── DamagedMessage     a stored message that is not a tuple; it was moved aside
├── NameFull           the bound of a name is reached
├── OutOfMemory        the server's memory limit is reached
├── ServersDiffer      a transaction over names that live on different servers
├── RanksMisnamed      more or fewer names than a communicator has ranks
├── ServerLost         a server that does not answer
├── ServerRefused      a server that answers with an error
└── ServerFailed       an embedded server that does not start
"""


class BusError(Exception):
    """Anything that goes wrong on the bus; its arguments are its parameters, so that it pickles."""


class BusTimeout(BusError):
    """The time limit of a blocking operation passed."""

    def __init__(self, name: str, timeout_s: float) -> None:
        super().__init__(name, timeout_s)
        self.name, self.timeout_s = name, timeout_s

    def __str__(self) -> str:
        return (
            f"{self.name}: nothing within {self.timeout_s:g} s; raise timeout_s, or look at statistics() for the name"
        )


class LeaseExpired(BusError):
    """A tuple was acknowledged, renewed or released when it was no longer ours."""

    def __init__(self, name: str, lease_s: float) -> None:
        super().__init__(name, lease_s)
        self.name, self.lease_s = name, lease_s

    def __str__(self) -> str:
        return (
            f"{self.name}: not acknowledged within its lease of {self.lease_s:g} s, so it is no longer ours; "
            "raise lease_s above the longest task, or renew() inside the task"
        )


class NotPlain(BusError):
    """A value cannot travel: only plain values, arrays and tensors do, nothing is pickled."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(name, what)
        self.name, self.what = name, what

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.what} does not travel on the bus; send str, int, float, bool, bytes, None, "
            "lists and dicts of them, numpy arrays or torch tensors"
        )


class BadTemplate(BusError):
    """A template that could never match, or whose match would surprise."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(name, what)
        self.name, self.what = name, what

    def __str__(self) -> str:
        return f"{self.name}: a template cannot hold {self.what}; match by a plain value, by a type, or by ANY"


class DamagedMessage(BusError):
    """A stored message is not a tuple of ours; it was moved aside and the name goes on."""

    def __init__(self, name: str, number: int, reason: str) -> None:
        super().__init__(name, number, reason)
        self.name, self.number, self.reason = name, number, reason

    def __str__(self) -> str:
        return f"{self.name}: message {self.number} is damaged ({self.reason}); it was moved aside, see damaged()"


class NameFull(BusError):
    """A put would pass the bound of its name."""

    def __init__(self, name: str, bound: int) -> None:
        super().__init__(name, bound)
        self.name, self.bound = name, bound

    def __str__(self) -> str:
        return f"{self.name}: holds its bound of {self.bound} tuples; put with timeout_s to wait, or raise the bound"


class OutOfMemory(BusError):
    """The server's memory limit is reached; nothing was put and nothing is lost."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name, address)
        self.name, self.address = name, address

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.address} has reached its memory limit; take tuples, bound the name or raise maxmemory"
        )


class ServersDiffer(BusError):
    """A transaction names tuples that live on different servers."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(names)
        self.names = names

    def __str__(self) -> str:
        return f"{', '.join(self.names)}: live on different servers; a transaction holds on one server only"


class RanksMisnamed(BusError):
    """A communicator has more or fewer ranks than names were given."""

    def __init__(self, names: int, ranks: int) -> None:
        super().__init__(names, ranks)
        self.names, self.ranks = names, ranks

    def __str__(self) -> str:
        return f"{self.names} names for a communicator of {self.ranks} ranks; give one name a rank"


class ServerLost(BusError):
    """A server did not answer for as long as we have patience."""

    def __init__(self, address: str, patience_s: float, reason: str) -> None:
        super().__init__(address, patience_s, reason)
        self.address, self.patience_s, self.reason = address, patience_s, reason

    def __str__(self) -> str:
        return (
            f"{self.address} does not answer for {self.patience_s:g} s ({self.reason}); "
            "only its names are blocked; start it again, or raise patience_s"
        )


class ServerRefused(BusError):
    """A server answered with an error."""

    def __init__(self, address: str, message: str) -> None:
        super().__init__(address, message)
        self.address, self.message = address, message

    def __str__(self) -> str:
        return f"{self.address} refused: {self.message}"


class ServerFailed(BusError):
    """An embedded server did not start."""

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory, self.reason = directory, reason

    def __str__(self) -> str:
        return f"no server in {self.directory}: {self.reason}"
