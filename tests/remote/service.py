"""What stands in for the hosted service of Globus Compute, and for Globus Auth: REST on port 5000, and the queues.

The SDK and the endpoint are the real ones, the broker is a real RabbitMQ. What this cannot show: TLS, quotas, result
expiry after days, mapping of identities, several login nodes, Globus Transfer.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pika
from globus_compute_sdk.serialize import ComputeSerializer

PORT = 5000  # in the SDK: environment "local"
CLIENT_ID, IDENTITY = str(uuid.UUID(int=7)), str(uuid.UUID(int=8))
MOST_BYTES = 10 * 2**20  # of a request
RESOURCE_SERVERS = {"openid": "auth.globus.org", "email": "auth.globus.org", "profile": "auth.globus.org"}
Answer = tuple[int, Any]


class Refused(Exception):
    """What the service answers with an error."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(reason)
        self.answer = {"status": "Failed", "code": code, "error_args": [], "reason": reason, "http_status_code": status}


class Service:
    """The service's state: functions, endpoints, tasks.

    Args:
        amqp: the broker's address.
    Attributes:
        secret: of the one client that may log in.
        refuse: (method, beginning of the path) -> an error to answer with, for tests of errors.
        requests: when each request came, with its method and path.
    """

    def __init__(self, amqp: str) -> None:
        self.amqp, self.secret = amqp, f"secret-{secrets.token_hex(16)}"
        self.tokens: set[str] = set()
        self.functions: dict[str, dict[str, Any]] = {}
        self.endpoints: dict[str, dict[str, Any]] = {}
        self.heard: dict[str, tuple[float, float]] = {}  # endpoint -> when, and its heartbeat period
        self.parents: dict[str, str] = {}  # user endpoint -> the endpoint that starts it
        self.tasks: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, list[str]] = {}
        self.watched: set[str] = set()  # task groups whose results an Executor waits for
        self.refuse: dict[tuple[str, str], Refused] = {}
        self.requests: list[tuple[float, str, str]] = []
        self._closing = threading.Event()

    @contextmanager
    def serving(self) -> Iterator[Service]:
        """Listen for HTTP and for what endpoints send, until the end of the block."""
        with self._channel() as channel:
            for exchange in ("commands", "tasks", "results", "heartbeats"):
                channel.exchange_declare(exchange, "topic", durable=True)
            for queue in ("results", "heartbeats"):
                channel.queue_declare(queue, durable=True)
                channel.queue_bind(queue, queue, f"*.{queue}")
        with listening(self, PORT):
            thread = threading.Thread(target=self._listen)
            thread.start()
            try:
                yield self
            finally:
                self._closing.set()
                thread.join()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        self.requests.append((time.time(), method, path))
        try:
            for (wanted, beginning), refusal in self.refuse.items():
                if method == wanted and path.startswith(beginning):
                    raise refusal
            if path == "/v2/oauth2/token":
                return 200, self._token(headers, parse_qs(body.decode()))
            if path != "/v2/version" and headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
                raise Refused(401, "AUTHENTICATION_FAILED", "no valid token")
            if len(body) > MOST_BYTES:
                raise Refused(413, "PAYLOAD_TOO_LARGE", f"a request may have {MOST_BYTES} bytes")
            asked = json.loads(body) if body else {}
            route, words = self._route(method, path.strip("/").split("/"))
            return 200, route(*words, asked) if method in ("POST", "PUT") else route(*words)
        except Refused as refusal:
            return refusal.answer["http_status_code"], refusal.answer  # type: ignore[return-value]

    def online(self, endpoint: str) -> bool:
        at, period = self.heard.get(endpoint, (0.0, 0.0))
        return time.time() - at < 2.5 * period

    def _route(self, method: str, words: list[str]) -> tuple[Callable[..., Any], list[str]]:
        match method, words:
            case "GET", [_, "version"]:
                return (lambda: {"api": "1.0.0", "min_sdk_version": "1.0.0", "min_ep_version": "1.0.0"}), []
            case "GET", [_, "oauth2", "userinfo"]:
                return (lambda: {"sub": IDENTITY, "identity_set": [{"sub": IDENTITY}]}), []
            case "POST", [_, "functions"]:
                return self._register_function, []
            case "POST", [_, "endpoints"]:
                return (lambda asked: self._register_endpoint(str(uuid.uuid4()), asked)), []
            case "PUT", [_, "endpoints", endpoint]:
                return self._register_endpoint, [endpoint]
            case "POST", [_, "endpoints", endpoint, "submit"]:
                return self._submit, [endpoint]
            case "GET", [_, "endpoints", endpoint]:
                return self._known, [endpoint]
            case "GET", [_, "endpoints", endpoint, "status"]:
                return self._status, [endpoint]
            case "GET", [_, "endpoints"]:
                return (lambda: [{"uuid": one, **about} for one, about in self.endpoints.items()]), []
            case "GET", [_, "tasks", task]:
                return self._task, [task]
            case "POST", [_, "batch_status"]:
                return (lambda asked: {"results": {one: self._task(one) for one in asked["task_ids"]}}), []
            case "GET", [_, "taskgroup", group]:
                return (lambda one: {"taskgroup_id": one, "tasks": [{"id": id} for id in self.groups[one]]}), [group]
            case "GET", [_, "get_amqp_result_connection_url"]:
                return (lambda: {"queue_prefix": "group.", "connection_url": self.amqp}), []
        raise Refused(404, "RESOURCE_NOT_FOUND", f"no {method} {'/'.join(words)}")

    def _token(self, headers: dict[str, str], asked: dict[str, list[str]]) -> dict[str, Any]:
        given = base64.b64decode(headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if given != f"{CLIENT_ID}:{self.secret}":
            raise Refused(401, "AUTHENTICATION_FAILED", "no such client, or a wrong secret")
        scopes: dict[str, list[str]] = {}
        for scope in asked["scope"][0].split():
            of_auth = RESOURCE_SERVERS.get(scope) or ("auth.globus.org" if "manage_projects" in scope else None)
            scopes.setdefault(of_auth or "funcx_service", []).append(scope)
        first, *others = [self._issued(server, words) for server, words in scopes.items()]
        return {**first, "other_tokens": others}

    def _issued(self, server: str, scopes: list[str]) -> dict[str, Any]:
        token = f"token-{secrets.token_hex(16)}"
        self.tokens.add(token)
        words = {"resource_server": server, "scope": " ".join(scopes), "token_type": "Bearer"}
        return {"access_token": token, "expires_in": 172800, **words}

    def _register_function(self, asked: dict[str, Any]) -> dict[str, str]:
        name = str(uuid.uuid4())
        code = asked["function_code"]
        if not asked.get("serialized", True):
            code = ComputeSerializer().pack_buffers([f"st\n{asked['function_name']}:{code}"])
        self.functions[name] = {**asked, "function_code": code}
        return {"function_uuid": name}

    def _register_endpoint(self, endpoint: str, asked: dict[str, Any]) -> dict[str, Any]:
        self.endpoints[endpoint] = asked
        with self._channel() as channel:
            commands = self._queue(channel, "commands", endpoint)
        queues = {"command_queue_info": commands, "heartbeat_queue_info": self._publishes("heartbeats", endpoint)}
        return {"endpoint_id": endpoint, "result_queue_info": self._publishes("results", endpoint), **queues}

    def _known(self, endpoint: str) -> dict[str, Any]:
        if endpoint not in self.endpoints:
            raise Refused(404, "ENDPOINT_NOT_FOUND", f"Endpoint {endpoint} could not be resolved")
        about = self.endpoints[endpoint]
        named = {"uuid": endpoint, "name": about["endpoint_name"], "owner_id": IDENTITY}
        return {**named, **about.get("metadata", {}), "multi_user": about.get("multi_user", False)}

    def _status(self, endpoint: str) -> dict[str, Any]:
        self._known(endpoint)
        return {"status": "online" if self.online(endpoint) else "offline", "details": {}}

    def _submit(self, endpoint: str, asked: dict[str, Any]) -> dict[str, Any]:
        self._known(endpoint)
        if unknown := set(asked["tasks"]) - set(self.functions):
            raise Refused(404, "FUNCTION_NOT_FOUND", f"Function {unknown.pop()} could not be resolved")
        options = asked.get("user_endpoint_config") or {}
        user_endpoint = str(uuid.uuid5(uuid.UUID(endpoint), json.dumps(options, sort_keys=True)))
        self.parents[user_endpoint] = endpoint
        group = asked.get("task_group_id") or str(uuid.uuid4())
        if asked.get("create_queue"):
            self.watched.add(group)
        made: dict[str, list[str]] = {}
        with self._channel() as channel:
            if asked.get("create_queue"):
                channel.queue_declare(f"group.{group}", durable=True)
            tasks = self._queue(channel, "tasks", user_endpoint)
            self._start(channel, endpoint, user_endpoint, options, asked.get("user_runtime"), tasks)
            for function, payloads in asked["tasks"].items():
                for payload in payloads:
                    task = self._new_task(group, endpoint)
                    made.setdefault(function, []).append(task)
                    self._send(channel, user_endpoint, task, function, payload, asked)
        ids = {"request_id": str(uuid.uuid4()), "task_group_id": group, "endpoint_id": user_endpoint}
        return {**ids, "tasks": made}

    def _start(
        self, channel: Any, endpoint: str, user_endpoint: str, options: Any, runtime: Any, tasks: dict[str, Any]
    ) -> None:
        credentials = {
            "endpoint_id": user_endpoint, "task_queue_info": tasks,
            "result_queue_info": self._publishes("results", user_endpoint),
            "heartbeat_queue_info": self._publishes("heartbeats", user_endpoint),
        }  # fmt: skip
        named = {"name": f"uep.{endpoint}.{user_endpoint}", "user_opts": options, "user_runtime": runtime or {}}
        command = {
            "command": "cmd_start_endpoint", "args": [], "kwargs": {**named, "amqp_creds": credentials},
            "globus_username": "tester@localhost", "globus_effective_identity": IDENTITY,
            "globus_identity_set": [{"sub": IDENTITY}],
        }  # fmt: skip
        properties = pika.BasicProperties(content_type="application/json", timestamp=round(time.time()))
        channel.basic_publish("commands", f"{endpoint}.commands", json.dumps(command).encode(), properties)

    def _new_task(self, group: str, endpoint: str) -> str:
        task = str(uuid.uuid4())
        self.tasks[task] = {"task_id": task, "status": "waiting-for-ep", "group": group, "endpoint": endpoint}
        self.groups.setdefault(group, []).append(task)
        return task

    def _send(
        self, channel: Any, user_endpoint: str, task: str, function: str, payload: str, asked: dict[str, Any]
    ) -> None:
        data = {"task_id": task, "task_buffer": self.functions[function]["function_code"] + payload}
        headers = {
            "function_uuid": function, "task_uuid": task,
            "resource_specification": json.dumps(asked.get("resource_specification") or {}),
            "result_serializers": asked.get("result_serializers") or [],
        }  # fmt: skip
        properties = pika.BasicProperties(headers=headers)
        channel.basic_publish("tasks", f"{user_endpoint}.tasks", _packed("task", data), properties)

    def _task(self, task: str) -> dict[str, Any]:
        if task not in self.tasks:
            raise Refused(404, "TASK_NOT_FOUND", f"Task {task} could not be resolved")
        return {key: value for key, value in self.tasks[task].items() if key not in ("group", "endpoint")}

    def _listen(self) -> None:
        """Take results and heartbeats until the end."""
        with self._channel() as channel:
            for method, _, body in channel.consume("results", auto_ack=True, inactivity_timeout=0.05):
                if method is not None:
                    self._on_result(body, channel)
                beat = channel.basic_get("heartbeats", auto_ack=True)
                if beat[0] is not None:
                    self._on_heartbeat(_unpacked(beat[2]))
                if self._closing.is_set():
                    return

    def _on_result(self, body: bytes, channel: Any) -> None:
        message = _unpacked(body)
        data = message["data"]
        if message["message_type"] != "result":  # a user endpoint that could not start
            self._on_heartbeat(message)
            return
        task = self.tasks.get(str(data["task_id"]))
        if task is None:
            return
        failed = bool(data.get("error_details"))
        answer = {"exception" if failed else "result": data["data"]}
        known = {"status": "failed" if failed else "success", "completion_t": str(time.time())}
        task.update(known | answer | {"details": data.get("details")})
        if task["group"] in self.watched:
            channel.basic_publish("", f"group.{task['group']}", body)

    def _on_heartbeat(self, message: dict[str, Any]) -> None:
        data = message["data"]
        endpoint, state = str(data["endpoint_id"]), data.get("global_state") or {}
        if state.get("error"):
            for task in self.tasks.values():
                if task["status"] == "waiting-for-ep" and task["endpoint"] == self.parents.get(endpoint):
                    task.update(status="failed", exception=str(state["error"]), completion_t=str(time.time()))
        self.heard[endpoint] = (time.time(), float(state.get("heartbeat_period") or 0))

    def _queue(self, channel: Any, kind: str, endpoint: str) -> dict[str, Any]:
        name = f"{endpoint}.{kind}"
        channel.queue_declare(name, durable=True)
        channel.queue_bind(name, kind, name)
        return {"connection_url": self.amqp, "exchange": kind, "queue": name}

    def _publishes(self, kind: str, endpoint: str) -> dict[str, Any]:
        how = {"exchange": kind, "routing_key": f"{endpoint}.{kind}", "mandatory": True}
        how["properties"] = {"delivery_mode": 2}
        return {"connection_url": self.amqp, "exchange": kind, "queue": kind, "queue_publish_kwargs": how}

    @contextmanager
    def _channel(self) -> Iterator[Any]:
        connection = pika.BlockingConnection(pika.URLParameters(self.amqp))
        try:
            yield connection.channel()
        finally:
            connection.close()


@contextmanager
def listening(service: Service, port: int) -> Iterator[int]:
    """Answer HTTP on a port of this machine (0: a free one), which is given."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = service.answer(self.command, self.path.partition("?")[0], dict(self.headers), body)
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        allow_reuse_address = daemon_threads = True

    with Server(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def _packed(kind: str, data: dict[str, Any]) -> bytes:
    return b"\x01" + json.dumps({"message_type": kind, "data": data}).encode()


def _unpacked(body: bytes) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(body[1:])
    return loaded
