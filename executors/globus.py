"""A Globus Compute endpoint: it trains or scores on a machine that has the run directory under the same path.

Needs `pip install steersman[globus]`, somebody who has logged in, and Steersman where the endpoint's workers run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from steersman.executors.errors import BadSite, unreached
from steersman.executors.executor import Blockless, Gpus, names
from steersman.executors.values import Line
from steersman.system.errors import EngineError

LOGIN = "steersman remote login"


class Endpoint(Blockless):
    """A Globus Compute endpoint that trains or scores; it must see the run directory under the same path.

    Args:
        globus: identifier of the endpoint. Its own configuration sets nodes, workers and walltime.
        gpus: number of GPUs of its node, or their names, for the ranks of a training.
        scratch: a folder on its own disk, from which the ranks of a training read their window; empty: none.
    """

    KEY = "globus"

    globus: UUID
    gpus: Gpus = 0
    scratch: Line = ""

    @property
    def gpu_names(self) -> tuple[str, ...]:
        return names(self.gpus)

    @property
    def gpus_held(self) -> int:
        return len(self.gpu_names)

    def where(self) -> str:
        return f"Globus Compute endpoint {self.globus}, which must have the run directory under the same path"

    def look(self, site: str) -> str:
        """Ask the service for it.

        Raises: BadSite: no SDK, nobody logged in, no answer, or the endpoint takes no work.
        """
        client = client_of(site)
        from globus_sdk import GlobusError

        try:
            status = client.get_endpoint_status(self.globus)["status"]
        except GlobusError as error:
            why = getattr(error, "message", None) or error  # of an answer the reason, else that there was none
            raise BadSite(site, f"Globus Compute does not report the state of endpoint {self.globus}: {why}") from None
        if status != "online":
            cure = "start it on its machine: globus-compute-endpoint start NAME"
            raise BadSite(site, f"Globus Compute endpoint {self.globus} is {status}; {cure}")
        return f"Globus Compute endpoint {self.globus} is online"

    def parsl(self, site: str, role: str) -> Any:
        client = client_of(site)
        from globus_compute_sdk import Executor as Sdk
        from parsl.executors import GlobusComputeExecutor

        return GlobusComputeExecutor(Sdk(self.globus, client=client), label=role)


def login() -> None:
    """Log in, in a browser, unless somebody is; the SDK keeps the tokens. Raises: BadSite: no SDK."""
    with _service("remote login"):
        client = _client("remote login")
        if client.app.login_required():
            client.app.login()


def client_of(site: str) -> Any:
    """The client of the SDK, for the user who is logged in here or for the credentials in the environment.

    Raises: BadSite: named so; there is no SDK here, nobody is logged in, or the credentials cannot be used.
        ServiceSilent: the credentials cannot be looked at now.
    """
    with _service(site):
        client = _client(site)
        if client.app.login_required():  # it would ask on the terminal, in the middle of a run
            raise BadSite(site, f"nobody is logged in to Globus Compute here; run once: {LOGIN}")
    return client


def cause(error: BaseException) -> str:
    """What the system said first: of the errors that followed from it, each quotes the one before."""
    while before := error.__cause__ or error.__context__:
        error = before
    return str(getattr(error, "strerror", None) or error)


@contextmanager
def _service(site: str) -> Iterator[None]:
    """Who logs in by credentials asks the service. Raises: BadSite, ServiceSilent."""
    try:
        import globus_compute_sdk  # noqa: F401
        from globus_sdk import GlobusError, NetworkError
    except ImportError:
        raise BadSite(site, "this needs globus-compute-sdk: pip install 'steersman[globus]'") from None
    try:
        yield
    except NetworkError as error:
        raise unreached(cause(error)) from None
    except GlobusError as error:
        raise BadSite(site, f"Globus does not log in: {getattr(error, 'message', None) or error}") from None
    except ValueError as error:  # one of the two credentials is missing
        if isinstance(error, EngineError):
            raise
        raise BadSite(site, f"the credentials cannot be used: {error}") from None


def _client(site: str) -> Any:
    from globus_compute_sdk import Client

    return Client(do_version_check=False)
