"""Names of endpoints, and their configurations: `steersman endpoints ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import json
from msgspec.structs import replace

from steersman.cli.options import Json
from steersman.cli.printing import say, say_rows
from steersman.executors.site_files import is_path
from steersman.remote import known
from steersman.remote.known import KnownEndpoint
from steersman.stages.loading import assigned
from steersman.system.errors import UnknownName

endpoints = typer.Typer(invoke_without_command=True)


@endpoints.callback()
def list_endpoints(context: typer.Context, as_json: Json = False) -> None:
    """List endpoints by name."""
    if context.invoked_subcommand is not None:
        return
    registered = known.endpoints()
    if as_json:
        say(json.encode(registered).decode())
        return
    if not registered:
        say("none yet: steersman endpoints add NAME UUID", to_stderr=True)
        return
    rows = [("endpoint", "uuid", "site", "folder", "python", "options")]
    for each in registered.values():
        options = " ".join(f"{key}={value}" for key, value in each.options.items())
        rows.append((each.name, each.uuid, each.site, each.folder, each.python, options))
    say_rows(rows)


@endpoints.command()
def add(
    name: Annotated[str, typer.Argument(help="a short name, e.g. polaris")],
    uuid: Annotated[
        str, typer.Argument(metavar="[UUID]", help="UUID that `globus-compute-endpoint list` shows on its machine")
    ] = "",
    site: Annotated[
        str, typer.Option("--site", help="the site of runs there: a name, or the path of a file here")
    ] = "",
    folder: Annotated[str, typer.Option("--folder", help=f"folder for runs there; {known.FOLDER} if never given")] = "",
    python: Annotated[str, typer.Option("--python", help="Python there that has Steersman")] = "",
    option: Annotated[
        list[str],
        typer.Option("--option", metavar="KEY=VALUE", help="setting of its configuration's template; may be repeated"),
    ] = [],  # noqa: B006
    collection: Annotated[str, typer.Option("--collection", help="UUID of the Globus collection of the folder")] = "",
) -> None:
    """Add an endpoint under a name, with its site and folder; or change what is given, and nothing else."""
    path = str(Path(site).absolute()) if is_path(site) else site
    given = {
        "uuid": uuid, "site": path, "folder": folder, "python": python, "options": assigned(option, "--option"),
        "collection": collection,
    }  # fmt: skip
    before = known.endpoints().get(name, KnownEndpoint(name, ""))
    known.keep_endpoint(replace(before, **{key: value for key, value in given.items() if value}))


@endpoints.command()
def template(
    name: Annotated[str, typer.Argument(help="a machine: aurora, frontier, perlmutter, polaris, or slurm")] = "",
    schema: Annotated[bool, typer.Option("--schema", help="print the JSON schema of what submissions may ask")] = False,
) -> None:
    """Print the configuration of an endpoint, as user_config_template.yaml.j2 and user_config_schema.json."""
    from steersman.site_configs import endpoints as shipped

    if not schema and name not in shipped.names():
        raise UnknownName("endpoint configuration", name, shipped.names())
    say((shipped.SCHEMA if schema else shipped.template(name)).read_text(encoding="utf-8").rstrip("\n"))


@endpoints.command()
def remove(name: Annotated[str, typer.Argument(help="its name here; the endpoint itself does not change")]) -> None:
    """Forget the name of an endpoint."""
    known.forget_endpoint(name)
