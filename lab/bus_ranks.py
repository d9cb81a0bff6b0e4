"""Rank -> rank: send, receive and exchange between the named members of a running group, over MPI or over the bus."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from steersman.bus import codec
from steersman.bus.errors import BusTimeout
from steersman.bus.space import TupleSpace
from steersman.bus.tuples import ANY


class Ranks(Protocol):
    """One member's way to the others. Messages between two members keep their order."""

    def send(self, to: str, value: Any) -> None:
        """Returns when `value` may be changed again, not when it has arrived."""

    def recv(self, source: str, timeout_s: float | None = None) -> Any:
        """The next value from `source`. Raises: BusTimeout: none within timeout_s."""

    def exchange(self, values: Mapping[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """Send each neighbour its value and receive one from each; no order of ranks can deadlock."""


class BusRanks:
    """Ranks over a tuple space: for members that share nothing but the bus.

    Args:
        group: the name of the group; one running group a name.
        me: this member's name.
    """

    def __init__(self, space: TupleSpace, group: str, me: str) -> None:
        self._space, self._group, self.me = space, group, me

    def send(self, to: str, value: Any) -> None:
        """As Ranks.send()."""
        self._space.put(self._inbox(to, self.me), value)

    def recv(self, source: str, timeout_s: float | None = None) -> Any:
        """As Ranks.recv()."""
        return self._space.take(self._inbox(self.me, source), ANY, timeout_s=timeout_s)[1]

    def exchange(self, values: Mapping[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """As Ranks.exchange()."""
        for to, value in values.items():
            self.send(to, value)
        return {source: self.recv(source, timeout_s) for source in values}

    def _inbox(self, to: str, source: str) -> str:
        return f"ranks/{self._group}/{to}/{source}"


class MpiRanks:
    """Ranks over an mpi4py communicator: names stand for its ranks, in their order. Nothing is pickled.

    Args:
        comm: an mpi4py communicator.
        names: the name of each of its ranks.
    """

    TAG = 1729

    def __init__(self, comm: Any, names: list[str]) -> None:
        if len(names) != comm.Get_size():
            raise ValueError(f"{len(names)} names for a communicator of {comm.Get_size()} ranks")
        self._comm, self._rank_of = comm, {name: rank for rank, name in enumerate(names)}
        self.me = names[comm.Get_rank()]
        self._under_way: list[tuple[Any, bytes]] = []

    def send(self, to: str, value: Any) -> None:
        """As Ranks.send()."""
        _, data = codec.pack_field(to, value)
        self._under_way = [(request, kept) for request, kept in self._under_way if not request.Test()]
        self._under_way.append((self._comm.Isend(data, dest=self._rank_of[to], tag=self.TAG), data))

    def recv(self, source: str, timeout_s: float | None = None) -> Any:
        """As Ranks.recv(). With a time limit it asks again and again: MPI's own probe does so too, but never ends."""
        from mpi4py import MPI

        status, rank = MPI.Status(), self._rank_of[source]
        if timeout_s is None:
            self._comm.Probe(source=rank, tag=self.TAG, status=status)
        else:
            deadline = time.monotonic() + timeout_s
            while not self._comm.Iprobe(source=rank, tag=self.TAG, status=status):
                if time.monotonic() > deadline:
                    raise BusTimeout(f"rank {source}", timeout_s)
                time.sleep(0)  # to the other rank, where two share a core
        data = bytearray(status.Get_count(MPI.BYTE))
        self._comm.Recv(data, source=rank, tag=self.TAG)
        return codec.unpack_field(data)

    def exchange(self, values: Mapping[str, Any], timeout_s: float | None = None) -> dict[str, Any]:
        """As Ranks.exchange()."""
        for to, value in values.items():
            self.send(to, value)
        received = {source: self.recv(source, timeout_s) for source in values}
        for request, _ in self._under_way:
            request.Wait()
        self._under_way.clear()
        return received


def ranks(space: TupleSpace, group: str, me: str, *, comm: Any = None, names: list[str] | None = None) -> Ranks:
    """Over the communicator where the members share one, else over the bus."""
    return MpiRanks(comm, names or []) if comm is not None else BusRanks(space, group, me)
