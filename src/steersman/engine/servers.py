"""The bus servers of a run: started, looked after, brought back when they are gone."""

from __future__ import annotations

import time

from steersman.bus import BusError, ServerFailed, ServerRefused, Servers, TupleSpace
from steersman.bus.addresses import own_space
from steersman.bus.space import PATIENCE_S
from steersman.executors.network import driver_address
from steersman.executors.site import Site
from steersman.journal.recorder import Recorder
from steersman.journal.run_directory import RunDirectory
from steersman.worker.orders import STOP, THERE

SPREAD = (STOP,)  # what walkers ask for most often, and what needs no order among the rest
LOOK_S = 5.0  # between two looks whether the bus still holds what it was given
AGAIN_S = 0.25  # a server that is there and refuses is tried again after so long


class RunServers:
    """Servers for as long as a run uses them, and on them its space; a context manager that stops them.

    Args:
        url: of a server that is there already, None where the run has its own.
    Attributes:
        troubles: what was refused or lost since the bus last took everything; who has made it good clears it.
    Raises: ServerFailed: one does not start. ServerRefused: that at `url` is not usable.
    """

    def __init__(self, directory: RunDirectory, site: Site, recorder: Recorder, url: str | None = None) -> None:
        self._directory, self._site, self._recorder, self._url = directory, site, recorder, url
        self._space, self._looked = own_space(directory.bus), time.monotonic()
        self._away_since: float | None = None  # of a server of others, who may start it again
        self.troubles: set[str] = set()
        self._servers = self._started()

    def __enter__(self) -> RunServers:
        return self

    def __exit__(self, *_: object) -> None:
        self._servers.stop()

    @property
    def pids(self) -> set[int]:
        """Of the processes that are ours."""
        return self._servers.pids

    def look(self) -> None:
        """Bring back what is gone though nothing failed: a server of stops only is not missed by the driver."""
        if self._servers.gone:
            self.bring_back()

    def look_for(self, space: TupleSpace) -> None:
        """See now and then whether the space still holds that this run uses it: somebody may have deleted all of it,
        though the server lives. Raises: BusError."""
        if self.troubles or time.monotonic() - self._looked < LOOK_S:
            return
        self._looked = time.monotonic()
        if space.read_nowait(THERE) is None:
            self.miss("what it held")

    def miss(self, what: str) -> None:
        """Somebody deleted it, though the server lives: note it, and have it made good."""
        words = f"the bus has lost {what}, though its server lives; everything is offered again"
        self._recorder.note(words)
        self.troubles.add(words)

    def mend(self, error: BusError) -> None:
        """Note what a server refused, or bring it back where it is gone."""
        if not self._servers.alive():
            self.bring_back()
            return
        if str(error) not in self.troubles:
            self.troubles.add(str(error))
            self._recorder.note(f"bus: {error}")
        time.sleep(AGAIN_S)

    def bring_back(self) -> None:
        """Start what is gone, wait for what is silent.

        Raises: ServerFailed: one that is gone does not start. ServerRefused: that of others was away for a minute.
        """
        before = self.pids
        try:
            self._servers = self._started()
            self._away_since = None
        except ServerRefused as refused:
            now = time.monotonic()
            if self._away_since is None:
                self._away_since = now
                self._recorder.note(f"{refused}; the run waits for it for a minute")
            if now - self._away_since > PATIENCE_S:
                raise
            time.sleep(AGAIN_S)
            return
        except ServerFailed:
            if self._servers.gone:
                raise
            self._recorder.note("the bus server has been silent for a minute, but its process lives; the run waits")
            return
        gone = "the bus server died; it is restarted" if self.pids != before else ""
        words = gone or "the bus server did not answer for a while"
        self._recorder.note(words)
        self.troubles.add(words)  # made good in the next step, where a server may be gone again

    def _started(self) -> Servers:
        servers = Servers.start(
            self._directory.bus, self._site.servers, spread=SPREAD, space=self._space, url=self._url,
            bind=driver_address(self._site), ports=self._site.ports,
        )  # fmt: skip
        for aside in filter(None, (server.set_aside for server in servers.each)):
            self._recorder.note(f"the data of the bus server were damaged; they are in {aside}, and it begins empty")
        return servers
