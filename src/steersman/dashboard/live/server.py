"""HTTP requests -> what viewers see of runs; with the right token also what they say to one.

Pages ask for what is new every half second, by the number of the last change that they know. Nothing is held open, so
that any number of pages goes on after the server was started again.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from steersman.dashboard.live import answers, overview, prometheus
from steersman.dashboard.live.access import Access
from steersman.dashboard.live.gallery import Gallery
from steersman.dashboard.live.watched import Watched
from steersman.data.errors import NothingToDraw
from steersman.journal import copies
from steersman.journal.lock import driven
from steersman.journal.run_directory import RunDirectory
from steersman.system.errors import BadInput, BadValue, EngineError

ZIPPED = 2000  # bytes of text that are worth compressing
MOST_WORDS = 10_000  # bytes of a request that says something
KINDS = {
    ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain",
}  # fmt: skip
LIBRARIES = files("steersman.dashboard.live") / "libraries"
NEEDED = ("uPlot.iife.min.js", "uPlot.min.css", "3Dmol-min.js")
IMPORTS = [f'{{"imports": {{"steersman/": "{up}static/"}}}}' for up in ("./", "../../")]  # how its modules are named
EMPTY = re.compile(r"/|/run/[^/]+/?|/static/[^/]+")  # the page without any run: a browser asks for it without a token
IDLE_S, BUSY_S = 30, 300  # until a connection is closed that asks nothing, or that does not come to an end
LOOK_S = 1.0  # between two looks whether the server is to stop
GLANCE_S = 0.5  # who asks for the state sees how much of the journal is read, if it takes longer
PATIENCE_S = 20.0  # a first look at a large journal takes so long at most
SCRAPE_S = 8.0  # Prometheus gives up after 10

Tell = Callable[[RunDirectory, list[str]], str]
Look = Callable[[RunDirectory], list[dict[str, Any]]]


def application(
    gallery: Gallery, access: Access, *, base: str = "", tell: Tell | None = None, look: Look | None = None
) -> ASGIApp:
    """The web application.

    Args:
        base: the path below which a proxy serves it, where the proxy passes it on; as /user/me/proxy/8000.
        tell: says words to a run that goes on; None: nobody may act.
        look: rows about the bus of a run that goes on; None: nothing is shown of it.
    """
    check_libraries()
    routes = [
        Route("/", lambda request: _page("runs.html")),
        Route("/runs", lambda request: _runs(gallery, request)),
        Route("/run/{key}", _with_slash),
        Route("/run/{key}/", lambda request: _page("run.html")),
        Route("/static/{name}", lambda request: _file(request.path_params["name"])),
        Route("/metrics", lambda request: _metrics(gallery)),
        Route("/run/{key}/state", lambda request: _state(gallery, request, can_act=tell is not None)),
        Route("/run/{key}/messages", lambda request: _messages(gallery, request, look)),
        Route("/run/{key}/{view}", lambda request: _view(gallery, request)),
    ]
    if tell is not None:
        routes.append(Route("/run/{key}/tell", _teller(gallery, tell), methods=["POST"]))
    routed = Starlette(routes=routes, exception_handlers={EngineError: _refused, HTTPException: _plain})
    routed.router.redirect_slashes = False  # behind a proxy it would name another place
    return _Guard(routed, access, path_of(base))


def path_of(base: str) -> str:
    """A path as a proxy knows it, /user/me; "" where there is none. Without its first slash it would be of the host."""
    return f"/{base.strip('/')}".rstrip("/")


def check_libraries() -> None:
    """Raises: EngineError: the page's JavaScript libraries are not installed."""
    missing = [name for name in NEEDED if not (LIBRARIES / name).is_file()]
    if missing:
        raise EngineError(
            "the dashboard's JavaScript libraries are missing ({names}): reinstall Steersman where npm can be "
            "reached, or run `python hatch_build.py` in the checkout",
            names=", ".join(missing),
        )


class _Server(uvicorn.Server):
    """It closes connections that ask nothing, or are slow to ask or to take their answer; in the end all of them."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._known: dict[Any, tuple[object, bool, float]] = {}  # what a connection does, and since when

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            known, now = {}, time.monotonic()
            for connection in list(self.server_state.connections):
                cycle = getattr(connection, "cycle", None)
                busy = cycle is not None and not cycle.response_complete
                before = self._known.get(connection)
                since = before[2] if before and before[:2] == (cycle, busy) else now
                known[connection] = cycle, busy, since
                if now - since > (BUSY_S if busy else IDLE_S):
                    connection.transport.abort()
            self._known = known
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)


class Dashboard:
    """A server on 127.0.0.1.

    Args:
        port: 0 for the one that earlier servers of the same runs had, or a free one where that is taken.
    """

    def __init__(self, app: ASGIApp, access: Access, port: int = 0) -> None:
        self.access = access
        self._socket = _bound(*((port,) if port else (access.port, 0)))
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            app, log_config=None, log_level="critical", access_log=False, ws="none", lifespan="off",
            server_header=False, timeout_keep_alive=IDLE_S, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = _Server(config)

    @property
    def link(self) -> str:
        return f"{self.address}/#token={self.access.act}"

    @property
    def read_only_link(self) -> str:
        return f"{self.address}/#token={self.access.look}"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self) -> None:
        """Serve until Ctrl-C, SIGTERM or `stop`."""
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        self._server.should_exit = True

    def stop_when(self, over: Callable[[], bool]) -> None:
        """Stop as soon as something is so."""

        def watch() -> None:
            while not over():
                time.sleep(LOOK_S)
            self.stop()

        threading.Thread(target=watch, name="end of the dashboard", daemon=True).start()


class _Guard:
    """Lets in who has a token, and says to browsers what the page may do. The empty page itself is everybody's."""

    def __init__(self, app: ASGIApp, access: Access, base: str) -> None:
        self._app, self._access, self._base = app, access, base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":  # there are no websockets
            if self._base and scope["path"].startswith(f"{self._base}/"):
                scope = {**scope, "path": scope["path"][len(self._base) :]}
            answer = self._answer(Request(scope, receive))
            await (answer or self._app)(scope, receive, send)

    def _answer(self, request: Request) -> Response | None:
        """What is said instead of what was asked for; None: go on."""
        if not self._access.knows(request):
            return _text("this name is not this server's; a proxy's is allowed with --host NAME", 403)
        may = self._access.may(request)
        if not may and not (request.method in ("GET", "HEAD") and EMPTY.fullmatch(request.scope["path"])):
            return _text("open the link that `steersman dashboard` printed; each start has another", 403)
        if request.method == "POST" and may != "act":
            return _text("this link is for looking only", 403)
        request.scope["state"] = {"may_act": may == "act"}
        return None


def _policy() -> str:
    """Scripts are ours, from here; nothing is asked from anywhere else."""
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in IMPORTS]
    imports = " ".join(f"'sha256-{each}'" for each in digests)
    return (
        f"default-src 'none'; script-src 'self' {imports}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


SAFE = {
    "Content-Security-Policy": _policy(), "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "X-Frame-Options": "DENY",
}  # fmt: skip


def _run(gallery: Gallery, request: Request) -> Watched:
    watched = gallery.get(request.path_params["key"])
    if watched is None:
        raise HTTPException(404, "no such run here")
    watched.look()
    return watched


def _runs(gallery: Gallery, request: Request) -> Response:
    return _json(request, {"runs": gallery.lines(), "baseline": gallery.baseline, "single": gallery.single})


def _with_slash(request: Request) -> Response:
    """To where the page lies, by a relative address: a proxy may have put this one elsewhere."""
    return Response(status_code=307, headers={"Location": f"./{quote(request.path_params['key'], safe='')}/"})


def _page(name: str) -> Response:
    return Response((answers.PAGE / name).read_text(encoding="utf-8"), media_type="text/html", headers=SAFE)


def _file(name: str) -> Response:
    """A file of the page or of its libraries, by its plain name."""
    known = {entry.name: entry for folder in (LIBRARIES, answers.PAGE) if folder.is_dir() for entry in folder.iterdir()}
    known |= answers.scripts()
    kind = KINDS.get(Path(name).suffix)
    if name not in known or kind is None:
        raise HTTPException(404, "there is no such file")
    return Response(known[name].read_bytes(), media_type=kind, headers=SAFE)


def _state(gallery: Gallery, request: Request, *, can_act: bool) -> Response:
    watched = _run(gallery, request)
    if not watched.wait(GLANCE_S):
        answer = {
            "change": 0,
            "name": watched.directory.path.name,
            "trouble": watched.trouble,
            "read": watched.share_read,
        }
        return _json(request, answer)
    with watched.lock:
        said = overview.state(watched, copies.known_until(watched.directory.path))
    baseline = gallery.baseline if gallery.baseline != watched.key else ""
    return _json(request, said | {
        "may_act": can_act and request.state.may_act and not said["copy"] and said["status"] in ("running", "paused"),
        "others": [key for key in gallery.keys if key != watched.key], "baseline": baseline, "live": True,
        "views": [*answers.views()],
    })  # fmt: skip


def _view(gallery: Gallery, request: Request) -> Response:
    watched = _ready(_run(gallery, request))
    answer = answers.answer(watched, request.path_params["view"], dict(request.query_params))
    if answer is None:
        raise HTTPException(404, "there is no such view")
    if isinstance(answer, bytes):
        return Response(answer, media_type="application/octet-stream", headers=SAFE)
    return _json(request, answer)


def _ready(watched: Watched) -> Watched:
    if not watched.wait(PATIENCE_S):
        raise HTTPException(503, watched.trouble or "the journal is being read")
    return watched


def _messages(gallery: Gallery, request: Request, look: Look | None) -> Response:
    watched = _ready(_run(gallery, request))
    if look is None:
        return _json(request, {"rows": [], "trouble": "the bus is shown only on the machine where the run is going"})
    try:
        return _json(request, {"rows": look(watched.directory), "trouble": ""})
    except EngineError as error:
        return _json(request, {"rows": [], "trouble": str(error)})


def _teller(gallery: Gallery, tell: Tell) -> Callable[[Request], Any]:
    async def act(request: Request) -> Response:
        watched = _run(gallery, request)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_WORDS:
                raise HTTPException(413, "the request is too large")
        try:
            words = msgspec.json.decode(body, type=list[str])
            return _json(request, {"done": await run_in_threadpool(tell, watched.directory, words)})
        except (msgspec.MsgspecError, BadInput) as error:
            return _json(request, {"refused": str(error)}, 409)

    return act


def _metrics(gallery: Gallery) -> Response:
    """Of the runs that go on, and those that somebody looks at; one whose journal takes long is in the next answer."""
    states, shown, until = [], [], time.monotonic() + SCRAPE_S
    for key in gallery.keys:
        watched = gallery.get(key)
        assert watched is not None
        if watched.keep or driven(watched.directory.path):
            watched.look()
            shown.append(watched)
        elif watched.wait():
            shown.append(watched)
    for watched in shown:
        if watched.wait(max(0.0, until - time.monotonic())):
            with watched.lock:
                state = overview.seen(watched, copies.known_until(watched.directory.path))
                states.append(replace(state, name=watched.key))  # runs of several folders may have one name
    return Response(prometheus.exposition(states), media_type="text/plain; version=0.0.4", headers=SAFE)


def _json(request: Request, value: Mapping[str, Any], status: int = 200) -> Response:
    body, headers = msgspec.json.encode(value), dict(SAFE)
    if len(body) > ZIPPED and "gzip" in request.headers.get("accept-encoding", ""):
        body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
    return Response(body, status, media_type="application/json", headers=headers)


def _text(text: str, status: int) -> Response:
    return Response(text, status, media_type="text/plain", headers=SAFE)


async def _refused(_: Request, error: Exception) -> Response:
    return _text(str(error), 404 if isinstance(error, NothingToDraw) else 409)


async def _plain(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _text(str(error.detail), error.status_code)


def _bound(*ports: int) -> socket.socket:
    """To the first of some ports that is free."""
    for port in ports:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
            listening.listen(100)  # who asks before the server is there waits
        except OSError:
            listening.close()
            continue
        return listening
    raise BadValue("port", port, "another process listens there; leave --port out, or give another")
