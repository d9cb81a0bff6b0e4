"""A Globus Compute endpoint -> what trains or scores, on a machine that has the run directory under the same path.

Needs `pip install steersman[globus]`, somebody who has logged in, and Steersman where the endpoint's workers run.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from steersman.executors.errors import BadSite
from steersman.executors.site import Site

LOGIN = 'python -c "from globus_compute_sdk import Client; Client().app.login()"'


def executor(site: Site, role: str) -> Any:
    """Parsl's executor for the endpoint of a role. Raises: BadSite."""
    client = _client(site)
    from globus_compute_sdk import Executor
    from parsl.executors import GlobusComputeExecutor

    return GlobusComputeExecutor(Executor(UUID(site.endpoints[role]), client=client), label=role)


def status(site: Site, role: str) -> str:
    """Ask the service for the endpoint of a role; returns what it says.

    Raises: BadSite: no SDK, nobody logged in, no answer, or the endpoint takes no work.
    """
    client, endpoint = _client(site), UUID(site.endpoints[role])
    from globus_sdk import GlobusError

    try:
        told = client.get_endpoint_status(endpoint)["status"]
    except GlobusError as error:
        told = getattr(error, "message", None) or error  # of an answer the reason, else that there was none
        raise BadSite(site.name, f"Globus Compute tells nothing of endpoint {endpoint}: {told}") from None
    if told != "online":
        cure = "start it on its machine: globus-compute-endpoint start NAME"
        raise BadSite(site.name, f"Globus Compute endpoint {endpoint} is {told}; {cure}")
    return f"Globus Compute endpoint {endpoint} is online"


def _client(site: Site) -> Any:
    try:
        from globus_compute_sdk import Client
    except ImportError:
        raise BadSite(site.name, "globus: this needs globus-compute-sdk: pip install 'steersman[globus]'") from None
    client = Client(do_version_check=False)
    if client.app.login_required():  # it would ask on the terminal, in the middle of a run
        raise BadSite(site.name, f"nobody is logged in to Globus Compute here; once: {LOGIN}")
    return client
