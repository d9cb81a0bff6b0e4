"""The command line with everything of Globus Compute but its service: `python globus_service.py TASKS WORDS...`.

SDK, executor and serialization are real. In the service's place a process stands that does what an endpoint's worker
does: it is given a function and its arguments as they travel, calls it, and gives back the result as it travels. TASKS
is a file that gets the name of each function that was called there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import traceback
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from globus_compute_sdk import Client, Executor
from globus_compute_sdk.errors import TaskExecutionFailed
from globus_compute_sdk.serialize import ComputeSerializer
from globus_sdk.authorizers import NullAuthorizer

ENDPOINT = uuid.UUID("00000000-0000-0000-0000-000000000001")


class Service(Client):  # type: ignore[misc]  # the SDK has no types here
    """A client that is logged in, and the service behind it, with one endpoint of one worker."""

    def __init__(self, tasks: str) -> None:
        super().__init__(authorizer=NullAuthorizer(), do_version_check=False)
        self.functions: dict[str, str] = {}
        self.waiting: dict[str, tuple[str, str]] = {}
        command = [sys.executable, __file__, "worker", tasks]
        self.worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.one_at_a_time = threading.Lock()

    def get_endpoint_status(self, endpoint_uuid: Any) -> dict[str, str]:
        return {"status": "online"}

    def register_function(self, function: Any, **_: Any) -> str:
        name = str(uuid.uuid4())
        self.functions[name] = self.fx_serializer.serialize(function)
        return name

    def batch_run(self, endpoint_id: Any, batch: Any) -> dict[str, Any]:
        tasks: dict[str, list[str]] = {}
        for function, arguments in batch.prepare()["tasks"].items():
            for packed in arguments:
                task = str(uuid.uuid4())
                tasks.setdefault(function, []).append(task)
                self.waiting[task] = (self.functions[function], packed)
        ids = {name: str(uuid.uuid4()) for name in ("task_group_id", "request_id")}
        return ids | {"tasks": tasks, "endpoint_id": str(endpoint_id)}

    def watch_for_task_results(self, executor: Any, futures: Sequence[Any]) -> None:
        """As the thread that waits for results: in the SDK it speaks AMQP."""
        for future in futures:
            threading.Thread(target=self._work, args=(future,), daemon=True).start()

    def _work(self, future: Any) -> None:
        with self.one_at_a_time:
            assert self.worker.stdin is not None
            assert self.worker.stdout is not None
            print(json.dumps(self.waiting.pop(str(future.task_id))), file=self.worker.stdin, flush=True)
            failed, data = json.loads(self.worker.stdout.readline())
        if failed:
            future.set_exception(TaskExecutionFailed(data, "0"))
        else:
            future.set_result(self.fx_serializer.deserialize(data))

    def shutdown(self, **_: Any) -> None:
        self.worker.kill()
        self.worker.communicate()


def worker(tasks: str) -> None:
    """Be an endpoint's worker."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what functions print is not an answer
    serializer = ComputeSerializer()
    for line in sys.stdin:
        code, packed = json.loads(line)
        try:
            travelled = serializer.pack_buffers([code]) + packed
            function, arguments, keywords = serializer.unpack_and_deserialize(travelled)
            with Path(tasks).open("a") as told:
                told.write(f"{function.__name__}\n")
            answer = (False, serializer.serialize(function(*arguments, **keywords)))
        except Exception:  # whatever a function may raise goes to who asked for it
            answer = (True, traceback.format_exc())
        print(json.dumps(answer), file=answers, flush=True)


def main(tasks: str, words: list[str]) -> None:
    from steersman.cli import __main__ as command_line
    from steersman.executors import globus

    service = Service(tasks)
    globus.client_of = lambda site: service
    Executor._get_result_watcher = lambda self: service
    sys.argv = ["steersman", *words]
    command_line.main()


if __name__ == "__main__":
    worker(sys.argv[2]) if sys.argv[1] == "worker" else main(sys.argv[1], sys.argv[2:])
