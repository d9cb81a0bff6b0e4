"""What this user has saved about endpoints and submitted to them: files in ~/.config/steersman, without any secret."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from steersman.system import files
from steersman.system.errors import BadInput, BadValue, UnknownName
from steersman.system.files import locked, replace_file

FOLDER = "~/steersman"


class KnownEndpoint(msgspec.Struct, frozen=True):
    """An endpoint by name.

    Args:
        site: the site file that runs there use, a shipped name or a path here; "": laptop.
        folder: where runs lie there.
        python: of the environment that has Steersman there; "": the endpoint's own.
        options: values for the template of the endpoint's configuration.
        collection: UUID of the Globus Transfer collection that has the folder.
    """

    name: str
    uuid: str
    site: str = ""
    folder: str = FOLDER
    python: str = ""
    options: dict[str, Any] = {}
    collection: str = ""


class Sent(msgspec.Struct, frozen=True):
    """A run that was submitted from here.

    Args:
        where: "login" or "allocation".
        at: seconds since 1970.
        options: for the template of the endpoint's configuration, where the driver runs inside an allocation.
        task: of the driver there.
    """

    name: str
    workflow: str
    endpoint: KnownEndpoint
    where: str
    at: float
    options: dict[str, Any] = {}
    task: str = ""

    @property
    def path(self) -> str:
        """The run directory at the site."""
        return f"{self.endpoint.folder}/{self.name}"


def home() -> Path:
    """The folder of these files. Made when missing. Raises: BadInput: there is no place for it."""
    config = files.home("XDG_CONFIG_HOME", ".config")
    if config is None:
        raise BadInput("you have no home folder to keep endpoints and runs in; let XDG_CONFIG_HOME name a folder")
    (config / "steersman").mkdir(parents=True, exist_ok=True)
    return config / "steersman"


def endpoints() -> dict[str, KnownEndpoint]:
    """By name."""
    return {each.name: each for each in _read(home() / "endpoints.json", list[KnownEndpoint], [])}


def endpoint(name: str) -> KnownEndpoint:
    """The endpoint of a name, or of a UUID that has none. Raises: UnknownName."""
    known = endpoints()
    if name in known:
        return known[name]
    named = next((each for each in known.values() if each.uuid == name), None)
    if named is None and not is_uuid(name):
        raise UnknownName("endpoint", name, known or ("none yet: steersman endpoints add NAME UUID",))
    return named or KnownEndpoint(name=name, uuid=name)


def keep_endpoint(one: KnownEndpoint) -> None:
    """Raises: BadValue: the UUID is none, or the name cannot be one."""
    if not is_uuid(one.uuid):
        raise BadValue("UUID", one.uuid, "`globus-compute-endpoint list` on its machine shows it")
    if not one.name or is_uuid(one.name) or set(one.name) & set("/ \t\n"):
        raise BadValue("NAME", one.name, "choose a short name such as polaris")
    with _changing():
        _write("endpoints.json", [*(endpoints() | {one.name: one}).values()])


def forget_endpoint(name: str) -> None:
    """Raises: UnknownName."""
    with _changing():
        known = endpoints()
        if known.pop(name, None) is None:
            raise UnknownName("endpoint", name, known or ("none",))
        _write("endpoints.json", [*known.values()])


def runs() -> dict[str, Sent]:
    """What was submitted from here, by name, the oldest first."""
    all_sent = [_read(path, Sent, None) for path in (home() / "remote").glob("*/sent.json")]
    return {each.name: each for each in sorted(all_sent, key=lambda sent: sent.at)}


def run(name: str) -> Sent:
    """Raises: UnknownName."""
    path = home() / "remote" / name / "sent.json"
    if "/" in name or not path.exists():
        raise UnknownName("remote run", name, runs() or ("none yet: steersman submit WORKFLOW --at NAME",))
    sent: Sent = _read(path, Sent, None)
    return sent


def keep_run(sent: Sent) -> None:
    place = home() / "remote" / sent.name
    place.mkdir(parents=True, exist_ok=True)
    _write(f"remote/{sent.name}/sent.json", sent)


def seen(name: str) -> Path:
    """Folder for what was read of a run to look at it."""
    return home() / "remote" / name / "seen"


def submitted(name: str) -> Path:
    """Folder for the code that was sent: the workflow file, and what it imports from its folder."""
    return home() / "remote" / name / "submitted"


def functions() -> Mapping[str, str]:
    """Registered functions, by what they are and who registered them."""
    known: Mapping[str, str] = _read(home() / "functions.json", dict[str, str], {})
    return known


def keep_function(key: str, function: str) -> None:
    with _changing():
        _write("functions.json", {**functions(), key: function})


def is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def _changing() -> AbstractContextManager[None]:
    return locked(home() / ".lock")


def _write(name: str, values: Any) -> None:
    replace_file(home() / name, msgspec.json.format(msgspec.json.encode(values)))


def _read(path: Path, kind: Any, otherwise: Any) -> Any:
    """Raises: BadInput: somebody has changed it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return otherwise
    except msgspec.DecodeError as error:
        raise BadInput(f"{path} cannot be read: {error}; repair it, or move it away") from None
