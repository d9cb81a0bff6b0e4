"""Questions to another machine -> answers: a task of Globus Compute each, of one registered function.

Not the SDK's Executor: it needs AMQP here, and hangs at the end of a process whose task has no answer.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from steersman.executors import globus
from steersman.executors.errors import ServiceSilent, unreached
from steersman.remote import facts, incoming, known
from steersman.remote.errors import AnswerLost, EndpointFailed, offline, too_large
from steersman.remote.function import steersman
from steersman.remote.known import KnownEndpoint
from steersman.remote.pace import RateLimit, growing
from steersman.remote.wire import MOST_BYTES, PROTOCOL, decode, encode
from steersman.system.errors import BadInput, BadValue, EngineError

JSON = "globus_compute_sdk.serialize.JSONData"  # of any Python on both sides; dill needs the same one
HTTP_S = 20.0  # without an answer of the service
THERE = ("-m", "steersman.remote.there")
WITHIN_S = 60.0
SOON_S = 0.5  # an answer comes within so long where all is well: to look sooner would only be one more request
LONG_S = 2.0  # then it is asked whether the endpoint is online
FUNCTION = inspect.getsource(steersman)


class RemoteSite:
    """Another machine, by its endpoint.

    Raises: BadSite: no SDK here, or nobody is logged in.
    """

    def __init__(self, endpoint: KnownEndpoint) -> None:
        self.endpoint = endpoint
        self._client = globus.client_of(endpoint.name)
        self._pace = RateLimit()
        from globus_compute_sdk.serialize import ComputeSerializer, JSONData

        self._client.fx_serializer = ComputeSerializer(strategy_data=JSONData())
        for web in (self._client._compute_web_client.v2, self._client._compute_web_client.v3):
            web.retry_config.max_retries = 1  # of ten at most, with growing waits: the user waits for an answer
            web.transport.http_timeout = HTTP_S

    def ask(self, run: str, *questions: tuple[str, dict[str, Any]], within_s: float = WITHIN_S) -> list[Any]:
        """What the functions of `steersman.remote.there` answer, all of them in one task.

        Args:
            run: the name of a run there, or "".
            questions: a function's name, and its arguments by name.
        Raises: EngineError, BadInput: also those of the site, in its words.
        """
        asked = {"protocol": PROTOCOL, "folder": self.endpoint.folder, "run": run, "questions": questions}
        return incoming.checked(questions, self._answers(self._run(THERE, encode(asked), within_s)))

    def facts(self) -> dict[str, Any]:
        """What the Python there is and has, with Steersman or without; see facts.py."""
        asked = json.dumps({"folder": self.endpoint.folder})
        return incoming.facts(self.run_source(inspect.getsource(facts), asked, WITHIN_S))

    def run_source(self, source: str, given: str, within_s: float) -> str:
        """What a Python program prints there that needs no Steersman.

        Raises: EngineError: its last words; or there is no such Python.
        """
        done = self._run(("-c", source), given, within_s)
        if done["code"]:
            raise EngineError(f"at {self.endpoint.name}: {_last_line(done['err'])}")
        return str(done["out"])

    def begin(self, run: str, question: str, options: dict[str, Any]) -> str:
        """Ask for something that takes as long as a job. Returns: the task's id, see `task`.

        Args:
            options: values for the template of the endpoint's configuration, beside those of the endpoint.
        """
        asked = {"protocol": PROTOCOL, "folder": self.endpoint.folder, "run": run, "questions": [(question, {})]}
        until = time.time() + 14 * 86400  # the service forgets tasks after two weeks
        return self._submit(THERE, encode(asked), None, until, self.endpoint.options | options)

    def task(self, task: str) -> str:
        """What became of what `begin` began: "waiting", "done", or how it failed, in the words of the endpoint."""
        try:
            with self._errors():
                self._pace.wait()
                return "waiting" if self._client.get_task(task)["pending"] else "done"
        except EndpointFailed as failed:
            return failed.problem
        except AnswerLost:  # whatever it was, the driver wrote down how it ended
            return "done"

    def about(self) -> dict[str, Any]:
        """What the service knows of the endpoint: metadata and status."""
        with self._errors():
            self._pace.wait()
            known_of = dict(self._client.get_endpoint_metadata(self.endpoint.uuid))
        return known_of | {"status": self._status()}

    def _status(self) -> str:
        with self._errors():
            self._pace.wait()
            return str(self._client.get_endpoint_status(self.endpoint.uuid)["status"])

    def _run(self, program: tuple[str, ...], given: str, within_s: float) -> incoming.Done:
        """Run a program there and wait for it."""
        if len(given) > MOST_BYTES * 4 / 3:
            raise too_large("what was asked for", len(given) * 3 // 4, MOST_BYTES)
        until = time.time() + within_s
        task = self._submit(program, given, within_s, until, self.endpoint.options)
        answer = self._wait(task, within_s)
        if "late" in answer or "silent" in answer:
            raise _no_answer(self.endpoint.name, within_s, "too slow, or its clock differs from ours:")
        if "missing" in answer:
            raise _no_steersman(self.endpoint.name, str(answer["missing"]), "there is no such program")
        return incoming.done(answer)

    def _submit(
        self, program: tuple[str, ...], given: str, within_s: float | None, until: float, options: dict[str, Any]
    ) -> str:
        request = {
            "python": self.endpoint.python, "program": program, "input": given, "until": until, "within_s": within_s,
        }  # fmt: skip
        for fresh in (False, True):
            function = self._function(anew=fresh)
            batch = self._client.create_batch(user_endpoint_config=options or None, result_serializers=[JSON])
            batch.add(function, (request,))
            with self._errors(forgiving=None if fresh else "FUNCTION_NOT_FOUND"):
                self._pace.wait()
                return str(self._client.batch_run(self.endpoint.uuid, batch)["tasks"][function][0])
        raise AssertionError("not reached")

    def _function(self, *, anew: bool) -> str:
        """The function's id, registered once for each of its versions, each service and each user."""
        from globus_compute_sdk.version import __version__

        client_id = self._client.app.client_id if self._client.app else ""
        words = f"{self._client.web_service_address} {client_id} {FUNCTION}"
        key = hashlib.sha256(words.encode()).hexdigest()
        if not anew and (registered := known.functions().get(key)):
            return registered
        meta = {"python_version": platform.python_version(), "sdk_version": __version__}
        code = {"function_name": steersman.__name__, "function_code": FUNCTION, "serialized": False, "meta": meta}
        with self._errors():
            self._pace.wait()
            uuid = str(self._client._compute_web_client.v3.register_function(code)["function_uuid"])
        known.keep_function(key, uuid)
        return uuid

    def _wait(self, task: str, within_s: float) -> dict[str, Any]:
        began, looked = time.monotonic(), False
        for interval in growing(SOON_S, 3.0):
            time.sleep(interval)
            with self._errors():
                self._pace.wait()
                answer = self._client.get_task(task)
            if not answer["pending"]:
                break
            waited_s = time.monotonic() - began
            if waited_s > LONG_S and not looked:
                looked = True
                if self._status() != "online":
                    raise offline(self.endpoint.name)
            if waited_s > within_s:
                status = self._status()
                name = self.endpoint.name
                raise offline(name) if status != "online" else _no_answer(name, within_s, status)
        if not isinstance(answer.get("result"), dict):
            raise AnswerLost(self.endpoint.name, str(answer.get("reason") or "the service has deleted it"))
        return dict(answer["result"])

    def _answers(self, done: incoming.Done) -> list[msgspec.Raw]:
        name = self.endpoint.name
        if "No module named 'steersman" in done["err"] or "No module named steersman" in done["err"]:
            raise _no_steersman(name, done["executable"], _last_line(done["err"]))
        if done["code"]:
            raise EngineError(f"at {name}: {_last_line(done['err'])}")
        try:
            answer: incoming.Answer = decode(done["out"], incoming.Answer)
        except ValueError as error:
            raise AnswerLost(name, str(error)) from None
        if answer.protocol != PROTOCOL:
            here = importlib.metadata.version("steersman")
            raise EngineError(
                f"Steersman {answer.version} at {name} does not understand Steersman {here}; `steersman remote install "
                f"--at {name}` puts the same version there"
            )
        if answer.refused is not None:
            raise BadInput(f"at {name}: {answer.refused}")
        if answer.failed is not None:
            raise EngineError(f"at {name}: {answer.failed}")
        return answer.answers

    @contextmanager
    def _errors(self, forgiving: str | None = None) -> Iterator[None]:
        """Errors of SDK and service in our own words; one of code `forgiving` is passed over."""
        from globus_compute_sdk.errors import ComputeError, TaskExecutionFailed
        from globus_sdk import GlobusAPIError, NetworkError

        name = self.endpoint.name
        try:
            yield
        except NetworkError as error:
            raise unreached(globus.cause(error)) from None
        except GlobusAPIError as error:
            if forgiving and error.code == forgiving:
                return
            raise _translated(error, self.endpoint) from None
        except TaskExecutionFailed as error:
            words = _last_line(error.remote_data)
            if "MaxResultSizeExceeded" in words:
                raise AnswerLost(name, words) from None
            raise EndpointFailed(name, words) from None
        except ComputeError as error:
            raise EndpointFailed(name, str(error)) from None


def _translated(error: Any, endpoint: KnownEndpoint) -> Exception:
    """A refusal of the service -> what it means here."""
    why = error.message or str(error)
    if error.http_status in (401, 403):
        return EngineError(
            f"endpoint {endpoint.name} may not be used: {why}; log in with the identity that its owner allows"
        )
    if error.http_status == 404 and "TASK" in error.code:
        return AnswerLost(
            endpoint.name, "the service has deleted it: it keeps results that nobody fetches only for a while"
        )
    if error.http_status in (404, 400) and "ENDPOINT" in error.code:
        return BadValue(
            "UUID", endpoint.uuid, "no endpoint has it; `globus-compute-endpoint list` on its machine shows it"
        )
    if error.http_status == 413:
        return too_large("what was sent", 10 * 2**20, MOST_BYTES)
    if error.http_status == 429 or error.http_status >= 500:
        return unreached(f"it answers {error.http_status}: {why}")
    return EndpointFailed(endpoint.name, f"{error.http_status} {error.code}: {why}")


def _no_answer(at: str, within_s: float, status: str) -> ServiceSilent:
    return ServiceSilent(
        f"endpoint {at} is {status} and has not answered within {within_s:g} s; the request is not carried out late: "
        "try again, then restart the endpoint on its machine (endpoint.log there)"
    )


def _no_steersman(at: str, python: str, problem: str) -> EngineError:
    return EngineError(
        "there is no Steersman for {python} at {at}: {problem}; `steersman remote install --at {at}`, or name its "
        "Python: steersman endpoints add {at} --python PATH",
        at=at, python=python, problem=problem,
    )  # fmt: skip


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no words")
