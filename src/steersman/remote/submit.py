"""A workflow file and what a person asks of it -> a run at another machine."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from steersman.executors.place import OF_RUN, Place
from steersman.executors.site_files import is_path
from steersman.remote import bundle, known
from steersman.remote.known import Sent
from steersman.remote.site import RemoteSite
from steersman.stages import loading, modules, trust
from steersman.system.errors import BadValue

START_S = 180.0  # for an endpoint that has to start, and for the check of the workflow there
ALLOCATION = "inside"  # the site of a driver that runs in a job, unless another is given
JOB = ("nodes", "walltime", "account", "queue")  # of a job of the endpoint, where the driver runs inside one


@dataclass(frozen=True)
class Wish:
    """What a person asks for.

    Args:
        workflow: a shipped name or a path here.
        params, inputs: files here.
        settings: `key=value`.
        site: a shipped name, or the path of a file here.
        place: further options of `steersman run`; inside an
            allocation nodes, walltime (h:mm:ss), account and queue are of the job of the endpoint.
        where: "login": the driver runs where the endpoint runs; "allocation": inside a job of the endpoint.
        name: instead of one that follows from all the others.
    """

    workflow: str
    params: Path | None = None
    inputs: Sequence[Path] = ()
    settings: Sequence[str] = ()
    site: str = ""
    place: Place = field(default_factory=Place)
    where: str = "login"
    name: str = ""


def submit(site: RemoteSite, wish: Wish) -> tuple[Sent, dict[str, Any]]:
    """Send a run, unless it is there already. Returns: the run, and see `there.start`.

    Raises: BadInput: it cannot be sent, or the site's check finds something wrong.
    """
    workflow = loading.find(wish.workflow)
    wanted = wish.site or (ALLOCATION if wish.where == "allocation" else site.endpoint.site or "laptop")
    own_site = [Path(wanted)] if is_path(wanted) else []
    given = [wish.params] if wish.params else []
    packed = bundle.pack(bundle.files(workflow, *wish.inputs, *own_site, *given))
    what = [workflow.name, *(word for each in wish.settings for word in ("--set", each))]
    what += ["--params", given[0].name] if given else []
    check, words, job = _words(wish, what, ["--site", own_site[0].name if own_site else wanted])
    name = wish.name or f"{workflow.stem}-{_tag(site, packed, words, job)}"
    check_name(name)
    start = {"packed": packed, "check": check, "words": ["run", *words, "--run-dir", "RUN"], "where": wish.where}
    (there,) = site.ask(name, ("start", start), within_s=START_S)
    sent = Sent(name, workflow.stem, site.endpoint, wish.where, time.time(), options=job)
    if there["fresh"]:
        _keep_code(workflow, known.submitted(name))
    sent = known.runs().get(name, sent) if not there["fresh"] else sent
    return in_job(site, sent, there), there


def _keep_code(workflow: Path, folder: Path) -> None:
    """Keep what was sent as the run has it: a copy of the run is known by it, and `watch` has its stop rule of it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "workflow.py").write_text(workflow.read_text())
    modules.keep(workflow, folder)
    trust.trust(folder / "workflow.py")


def in_job(site: RemoteSite, sent: Sent, there: dict[str, Any]) -> Sent:
    """Keep a run; where its driver is to run in a job and has none yet, ask the endpoint for one."""
    begun = there["state"] != "waiting" or (sent.task and site.task(sent.task) == "waiting")
    if sent.where == "allocation" and not begun:
        sent = msgspec.structs.replace(sent, task=site.begin(sent.name, "drive", sent.options))
    known.keep_run(sent)
    return sent


def check_name(name: str) -> None:
    """Raises: BadValue: it cannot be the name of a folder, here and there."""
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith(("-", ".")):
        raise BadValue("--name", name, "use letters, digits, -, _ and . in a name")


def _tag(site: RemoteSite, packed: bytes, words: Sequence[str], asked: dict[str, Any]) -> str:
    place = [site.endpoint.uuid, site.endpoint.folder]
    return bundle.digest(packed, json.dumps([place, words, asked]).encode())


def _words(wish: Wish, what: list[str], site: list[str]) -> tuple[list[str], list[str], dict[str, Any]]:
    """Words of the check at the site, words of the driver, and what is asked of the endpoint's template for a job."""
    options = {key: value for key, value in wish.place.items() if value is not None and value is not False}
    if wish.where == "allocation":  # its site cannot be looked at outside of the job
        job = {"where": wish.where, **{key: options.pop(key) for key in JOB if key in options}}
        return what, [*what, *site, *_options(options)], job
    of_run = {key: options.pop(key) for key in OF_RUN if key in options}
    check = [*what, *site, *_options(options)]
    return check, [*check, *_options(of_run)], {}


def _options(options: dict[str, Any]) -> list[str]:
    """Options of a command line."""
    return [word for key, value in options.items() for word in ([f"--{key}"] + ([] if value is True else [str(value)]))]
