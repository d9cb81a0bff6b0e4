"""Plans before and after the loop: what they call is done on workers, in the order of what it needs.

A plan runs in a thread and only makes futures; Parsl waits for those that are arguments. What is done is in the
journal, with the SHA-256 of its result, so a plan that is run again gets it at once.
"""

from __future__ import annotations

import functools
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from parsl.dataflow.errors import DependencyError

from steersman.engine.errors import PlanFailed, TaskFailed
from steersman.engine.jobs import Jobs
from steersman.engine.work import Work
from steersman.journal.calls import RESULT
from steersman.journal.recorder import Recorder, see
from steersman.journal.records import Called, End, Task
from steersman.journal.run_directory import RunDirectory, sha256
from steersman.stages import versions
from steersman.stages.task import Later, key_of, pack, planned_by, words_of
from steersman.stages.workflow import Workflow
from steersman.system.errors import told
from steersman.system.files import replace_file
from steersman.worker import tasks
from steersman.worker.calls import Receipt, result

BEGIN_AT_ONCE = 100  # calls in one step: the driver hears of everything else between


@dataclass
class _Call:
    key: str
    name: str
    packed: bytes
    needs: list[Later]
    words: str
    left: int  # failures that are tried again
    receipt: Future[Receipt] = field(default_factory=Future)  # what Parsl waits for
    work: Work | None = None
    later: Later = field(init=False)

    def __str__(self) -> str:
        return f"{self.name}({self.words})"


class Planner:
    """The calls of one plan, with one Parsl."""

    def __init__(self, directory: RunDirectory, workflow: Workflow, recorder: Recorder, jobs: Jobs) -> None:
        self._directory, self._workflow, self._recorder, self._jobs = directory, workflow, recorder, jobs
        self._code = functools.cache(lambda of: versions.code(of, directory.path))  # each object names its class
        self._calls: dict[str, _Call] = {}
        self._last: dict[str, str] = {}  # the key that was asked for last, by its task or plan
        self._lock = threading.Lock()  # the plan calls in its thread
        self._asked, self._ended = deque[_Call](), deque[_Call]()
        self._settled = 0
        self._plan: Future[Later] = Future()

    def followed(
        self,
        stage: str,
        step: Callable[[Callable[[], None]], None],
        over: Callable[[], End | None],
        plan: Callable[..., Any],
        *given: Any,
    ) -> Receipt | End:
        """Do what a plan calls, in steps of the driver, until it is done, or the run is over meanwhile.

        Returns: what came of it, that of `before` being what prepares all starts; or how the run ends.
        """
        self.begin(plan, *given)
        try:
            while (made := self.made) is None:
                step(self.advance)
                if end := over():
                    return end
        except PlanFailed as failed:
            self._record_failure(plan.__name__)
            reason = f"{stage}: {failed}{self._kept(stage, failed.__cause__)}"
            if stage == "after":
                reason += f"; with a file where it is mended: `steersman resume {self._directory.path} --workflow FILE`"
            return End(outcome="failed", reason=reason)
        finally:
            self.close()
        if plan is self._workflow.before_plan:
            pickled = (self._directory.task(made.call) / RESULT).read_bytes()
            replace_file(self._directory.prepared, pickled, sync=True, mode=0o600)
        return made

    def _kept(self, stage: str, error: BaseException | None) -> str:
        """Keep the traceback of a plan where those of stages are; a task's is there already."""
        if error is None or isinstance(error, TaskFailed):
            return ""
        file = self._directory.traceback(stage)
        text = "".join(traceback.format_exception(error))
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
        return see(file)

    def begin(self, plan: Callable[..., Any], *given: Any) -> None:
        """Run a plan in a thread; what it gives is the result of one more call, under its name."""

        def run() -> None:
            try:
                with planned_by(self):
                    returned = plan(*given)
                self._plan.set_result(self.call(plan.__name__, ((returned,), {}), 0))
            except BaseException as error:  # sys.exit() too; a user's function may raise anything
                self._plan.set_exception(error)

        threading.Thread(target=run, name="plan", daemon=True).start()

    def call(self, name: str, given: Any, copy: int) -> Later:
        """See `stages.task`; from any thread."""
        key = key_of(name, given, copy, self._code)
        packed, needs = pack(given)
        task = self._workflow.tasks.get(name)
        with self._lock:
            self._last[name] = key
            if known := self._calls.get(key):
                return known.later
            new = _Call(key, name, packed, needs, words_of(given) if task else "", task.retries if task else 0)
            new.later = Later(key, lambda: result(self._directory, new.receipt.result()), f"{name}(...)")
            new.receipt.add_done_callback(lambda done: _tell(new.later, done.exception()))
            self._calls[key] = new
            self._asked.append(new)
        return new.later

    def advance(self) -> None:
        """Hand out what was called, and take in what has ended."""
        for _ in range(min(len(self._asked), BEGIN_AT_ONCE)):
            self._begin(self._asked.popleft())
        for _ in range(len(self._ended)):
            self._look(self._ended.popleft())
        self._record_asked()

    @property
    def made(self) -> Receipt | None:
        """Of what the plan gave; None until that and all calls are done.

        Raises: PlanFailed: the plan did, or a call whose failure the plan did not see.
        """
        if not self._plan.done():
            return None
        if error := self._plan.exception():
            raise PlanFailed(str(error) if isinstance(error, TaskFailed) else told(error)) from error
        if self._settled < len(self._calls):
            return None
        for call in self._calls.values():
            if (error := call.receipt.exception()) and not call.later.seen:
                raise PlanFailed(str(error)) from error
        return self._calls[self._plan.result().key].receipt.result()

    def close(self) -> None:
        """A plan that waits for a result ends."""
        for call in list(self._calls.values()):
            _tell(call.later, TaskFailed(call.name, call.words, "the driver ended"))

    def _begin(self, call: _Call) -> None:
        known = self._recorder.state.calls.get(call.key)
        file = self._directory.task(call.key) / RESULT
        digest = sha256(file) if known and file.is_file() and file.stat().st_uid == os.getuid() else ""
        if known and digest and known.sha256 in ("", digest):
            if not known.sha256:  # it was written, and the driver died before it knew
                self._recorder.record(Task(call=call.key, sha256=digest, size=file.stat().st_size))
            self._settle(call, Receipt(call.key, digest))
            return
        if known and known.sha256:
            self._recorder.note(f"the result of {known} is missing or was changed; it is made again")
        file.unlink(missing_ok=True)  # so that what lies there later is what this call gave
        if known is None:
            needs = tuple(each.key for each in call.needs)
            self._recorder.record(Called(call=call.key, task=call.name, needs=needs, words=call.words))
        self._submit(call)

    def _record_asked(self) -> None:
        """Of each task the call that was asked for last, where that was not the last that was begun."""
        state = self._recorder.state
        with self._lock:
            last = self._last.copy()
        for name, key in last.items():
            if state.asked.get(name) != key and key in state.calls:
                self._recorder.record(state.calls[key].called)

    def _record_failure(self, plan: str) -> None:
        """Of a plan that gave nothing: what it gave before is not its answer any more."""
        self._record_asked()
        if self._plan.done() and self._plan.exception():
            self._recorder.record(Called(call="", task=plan))

    def _submit(self, call: _Call) -> None:
        needs = [self._calls[each.key].receipt for each in call.needs]

        def submit() -> Future[Any]:
            path = str(self._directory.path)
            words = path, call.key, call.name, call.packed, *needs
            return self._jobs.submit("simulation", tasks.call, *words, ended=lambda: self._ended.append(call))

        call.work = Work(str(call), submit, self._recorder.note)
        call.work.advance()

    def _look(self, call: _Call) -> None:
        assert call.work is not None
        job = call.work.advance()
        if job is None:
            call.work.advance()  # its worker was lost: it begins again
            return
        error = job.exception()
        if error is None:
            receipt: Receipt = job.result()
            self._recorder.record(
                Task(call=call.key, sha256=receipt.sha256, node=receipt.node, took_s=receipt.took_s, size=receipt.size)
            )
            self._settle(call, receipt)
            return
        failed = self._failed_need(call) if isinstance(error, DependencyError) else None
        if failed is None and call.left:
            call.left -= 1
            self._recorder.note(f"{call} is tried again: {told(error)}")
            self._submit(call)
            return
        where = see(self._directory.traceback(f"task-{call.name}-{call.key[:12]}"))
        failure = TaskFailed(call.name, call.words, f"it needs {failed}" if failed else f"{told(error)}{where}")
        self._recorder.record(Task(call=call.key, cause=failure.cause))
        self._settle(call, failure)

    def _settle(self, call: _Call, outcome: Receipt | TaskFailed) -> None:
        """Let those go on that wait for it."""
        self._settled += 1
        if isinstance(outcome, TaskFailed):
            call.receipt.set_exception(outcome)
        else:
            call.receipt.set_result(outcome)

    def _failed_need(self, call: _Call) -> TaskFailed | None:
        for each in call.needs:
            error = self._calls[each.key].receipt.exception()
            if isinstance(error, TaskFailed):
                return error
        return None


def _tell(later: Later, error: BaseException | None) -> None:
    if later.done():
        return
    if error is None:
        later.set_result(None)
    else:
        later.set_exception(error)
