"""A run at another machine: `steersman submit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from steersman.cli.options import Json, ParamsFile, Place, Set, WorkflowName, placed
from steersman.cli.printing import err, say
from steersman.cli.remote import STATES, At, endpoint_of, site_of
from steersman.executors.place import OF_RUN
from steersman.executors.site_files import walltime_s
from steersman.system.errors import BadValue


@placed("workers", "nodes", "walltime", "account", "queue", *OF_RUN)
def submit(
    workflow: WorkflowName,
    assignments: Set = [],  # noqa: B006 (Typer wants a list)
    params: ParamsFile = None,
    inputs: Annotated[
        list[Path], typer.Option("--input", metavar="FILE", help="a file to copy beside the workflow; may be repeated")
    ] = [],  # noqa: B006
    at: At = "",
    endpoint: Annotated[str, typer.Option("--endpoint", metavar="UUID", help="the same as --at")] = "",
    site: Annotated[str, typer.Option("--site", help="a site by name, or the path of a file here")] = "",
    where: Annotated[
        str,
        typer.Option(
            "--where", help="login: the driver runs on the login node and submits blocks; allocation: it runs in a job"
        ),
    ] = "login",
    *,
    place: Place,
    name: Annotated[
        str, typer.Option("--name", help="name of the run (default: made from its workflow and settings)")
    ] = "",
    as_json: Json = False,
) -> None:
    """Run a workflow file at another machine, over Globus Compute, and return at once."""
    from steersman.remote.submit import Wish
    from steersman.remote.submit import submit as send

    if where not in ("login", "allocation"):
        raise BadValue("--where", where, "write login or allocation")
    walltime = place.get("walltime")
    if walltime and where == "allocation":
        place["walltime"] = _of_job(walltime)
    wish = Wish(workflow, params, inputs, assignments, site, place, where, name)
    machine = site_of(endpoint_of(at or endpoint))
    with err.status(escape(f"sent to {machine.endpoint.name}; its workflow is checked there")):
        sent, there = send(machine, wish)
    if as_json:
        say(json.dumps({"name": sent.name, "path": there["path"], "fresh": there["fresh"], "state": there["state"]}))
        return
    say(sent.name)
    words = "submitted" if there["fresh"] else f"already there, {STATES[there['state']]}; use --name to submit another"
    err.plain(f"{words}: {there['path']} at {sent.endpoint.name}; steersman remote watch {sent.name}")


def _of_job(walltime: str) -> str:
    """30m -> 0:30:00, as schedulers write it."""
    minutes, rest = divmod(round(walltime_s(walltime)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
