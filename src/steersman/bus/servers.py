"""Directory -> running servers that are one bus, each in a folder of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from steersman.bus.addresses import DEFAULT
from steersman.bus.server import Server, private_folder, write_record


@dataclass(frozen=True)
class Servers:
    """What TupleSpace.connect(directory) reaches; a context manager that stops what it started."""

    each: tuple[Server, ...]

    @classmethod
    def start(
        cls, directory: str | Path, count: int = 1, *, spread: Sequence[str] = (), space: str = DEFAULT, **settings: Any
    ) -> Servers:
        """Start servers, or those of a bus that are not there any more; after a crash they come back with their data.

        Args:
            directory: one server lives there itself; several in its folders 1, 2, ..., which its bus.json lists.
            spread: families of names, "x" of x and of x.1, that live on the servers after the first; all other names
                live on the first. () spreads every name.
            space: that clients use who connect to the directory and name none.
            settings: of each, as Server.start() takes them; of a server given by `url` there is one.
        Raises: ServerFailed: one did not start; those that this call launched are stopped. ServerRefused: that at
            `url` is not usable.
        """
        home = Path(directory).absolute()
        if count == 1 or settings.get("url") is not None:
            return cls((Server.start(home, space=space, **settings),))
        names = [str(number) for number in range(1, count + 1)]
        private_folder(home)
        write_record(home, {"servers": names, "spread": list(spread)}, space)
        each: list[Server] = []
        with contextlib.ExitStack() as launched:
            for name in names:
                each.append(Server.start(home / name, **settings))
                if not each[-1].adopted:
                    launched.callback(each[-1].stop)
            launched.pop_all()
        return cls(tuple(each))

    @property
    def pids(self) -> set[int]:
        """Of the processes that are ours."""
        return {server.pid for server in self.each if server.pid is not None}

    @property
    def gone(self) -> list[Server]:
        """Those whose process has ended, though nobody stopped it."""
        return [server for server in self.each if server.gone]

    def alive(self) -> bool:
        """Do all of them answer?"""
        return all(server.alive() for server in self.each)

    def stop(self) -> None:
        """Stop them, their data written."""
        for server in self.each:
            server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()
