"""An endpoint -> what was looked at before anything is submitted to it, and what was found, with the cure."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steersman.executors.preflight import Finding
from steersman.executors.site_files import is_path
from steersman.remote import bundle, facts
from steersman.remote.errors import offline
from steersman.remote.site import RemoteSite
from steersman.remote.submit import ALLOCATION, JOB

LEAST_BYTES = 2**30
OLDEST = (3, 11)  # Python


def check(site: RemoteSite, site_file: str = "") -> Iterator[Finding]:
    """Look at service, endpoint, versions, folder and site file, in this order; each finding as it comes.

    Args:
        site_file: a shipped name or a path here, instead of the endpoint's.
    Raises: EngineError, BadInput: nothing more can be found out, and why.
    """
    about = site.about()
    if about["status"] != "online":
        raise offline(site.endpoint.name)
    yield Finding("endpoint", True, f"online, version {about.get('endpoint_version')} on {about.get('hostname')}")
    yield template(about)
    began = time.monotonic()
    there = site.facts()
    yield Finding("first answer", True, f"after {time.monotonic() - began:.1f} s, by {there['user']}@{there['host']}")
    yield from _versions(there, site.endpoint.name)
    free = f"{there['free'] / 2**30:.1f} GiB free in {there['folder']}"
    if there["unwritable"]:
        cure = f"choose another: steersman endpoints add {site.endpoint.name} --folder PATH"
        yield Finding("folder", False, f"{there['folder']} cannot be written: {there['unwritable']}; {cure}")
    else:
        enough = there["free"] >= LEAST_BYTES
        yield Finding("folder", enough, free if enough else f"{free}: less than 1 GiB; make room, or give --folder")
    if there["steersman"]:
        yield from _site_file(site, site_file or site.endpoint.site)


def template(about: dict[str, Any]) -> Finding:
    """Whether the endpoint's configuration takes what `--where allocation` sends."""
    template, schema = about.get("user_config_template") or "", about.get("user_config_schema") or {}
    wanted = ("where", *JOB)
    takes = schema.get("properties", {})
    refused = [name for name in wanted if name not in takes and schema.get("additionalProperties", True) is False]
    ours = all(name in template for name in wanted)
    if ours and not refused:
        return Finding("template", True, f"takes {', '.join(wanted)}: for --where login and --where allocation")
    cure = "docs/remote.md shows one that does" if not refused else f"its schema refuses {', '.join(refused)}"
    return Finding("template", True, f"for --where login only, because it asks for no nodes; {cure}")


def _versions(there: dict[str, Any], name: str) -> Iterator[Finding]:
    here = {key: str(value) for key, value in facts.versions().items()}
    install = f"`steersman remote install --at {name}` puts the same version there"
    if not there["steersman"]:
        yield Finding(
            "steersman", False, f"none for {there['executable']}; {install}, or name its Python with --python"
        )
    else:
        same = there["steersman"] == here["steersman"]
        words = f"{there['steersman']} there" + ("" if same else f", {here['steersman']} here; {install}")
        yield Finding("steersman", same, words)
    ours, theirs = sys.version_info[:2], tuple(map(int, there["python"].split(".")[:2]))
    if theirs < OLDEST:
        cure = f"name a newer one: steersman endpoints add {name} --python PATH"
        yield Finding("python", False, f"{there['python']} there; Steersman needs 3.11; {cure}")
    else:
        worker = tuple(map(int, there["endpoint_python"].split(".")[:2]))
        words = f"{there['python']} there, of the endpoint {there['endpoint_python']}"
        yield Finding("python", True, words + _for_executors(worker == ours, f"3.{ours[1]}"))
    for package in ("parsl", "dill") if there["steersman"] else ():  # it brings them
        same = there[package] == here[package]
        words = f"{there[package] or 'none'} there" + ("" if same else f", {here[package]} here")
        yield Finding(package, bool(there[package]), words + _for_executors(same, "the same"))


def _for_executors(same: bool, wanted: str) -> str:
    """Runs are submitted between any versions; functions of Parsl's GlobusComputeExecutor travel by dill."""
    return (
        ""
        if same
        else f"; this is no problem for a run there, but training on this endpoint from a run here needs {wanted}"
    )


def _site_file(site: RemoteSite, name: str) -> Iterator[Finding]:
    if not name or name == ALLOCATION:
        yield Finding(
            "site", True, name or f"laptop; another: steersman endpoints add {site.endpoint.name} --site SITE"
        )
        return
    own = is_path(name)
    packed = bundle.pack({Path(name).name: Path(name).read_bytes()}) if own else b""
    asked = {"site": Path(name).name if own else name, "packed": packed}
    (checks,) = site.ask("", ("check_site", asked))
    yield from (Finding(f"site: {what}", well, words) for what, well, words in checks)
