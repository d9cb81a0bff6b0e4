"""States of blocks -> what is missing: a run neither asks for nodes in vain forever, nor loses some in silence.

And the next block in time: Parsl asks for one when another has ended.
"""

from __future__ import annotations

import itertools
import math
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parsl.jobs.states import JobState, JobStatus

from steersman.executors.batch import JOB
from steersman.executors.together import TOGETHER
from steersman.system.errors import EngineError
from steersman.system.node import busy, load

FAILURES = 3  # blocks in a row that ended, or were refused, before a worker of theirs registered
REFUSED_S = 120.0  # a scheduler that takes no job may be restarting
QUEUED_S = 15.0  # a block that waits for longer in the queue is reported
GIVEN_UP_S = 30.0  # a block of which no manager is left ends within so long by itself
TAIL_CHARS = 400  # of a block's stderr that are shown
# What a node writes to stderr when its workers do not end well (launcher.py); {label} is what srun --label puts before.
ENDED = re.compile(r"^(?P<label>.*?)steersman: workers on (?P<node>\S+) ended with exit code \d+$", re.MULTILINE)
# What the first node of a block writes there when a line of `worker_init` fails (launcher.py).
INIT = re.compile(r"^steersman: worker_init on \S+ failed with .*$", re.MULTILINE)
NEVER = (JobState.FAILED, JobState.MISSING)
REFUSED = "Failed to start block"  # so Parsl begins what it says of a job that the scheduler did not take


class NoWorkers(EngineError):
    """The blocks of an executor come to nothing."""

    site: str
    cause: str

    def __str__(self) -> str:
        return f"site {self.site}: {self.cause}"


class Registration:
    """Parsl's error handler of one executor: it gives up when blocks in a row bring no worker.

    Args:
        site: names the site in the cause.
        silent_s: a block may run so long without a worker.
        refused_s: a scheduler may refuse for so long.
        queued_s: a block may wait so long in the queue before it is reported.
        here: blocks are on the driver's machine: while that is busy, a block may be silent for longer.
        nodes: of a block that have workers, when it is whole.
        succeeded_s: once a block has run so long the next one is asked for.
    Attributes:
        waiting: why no block runs, while none does: the same words for the same job; "" while one does.
        missing: in words each block that the scheduler did not take, or that runs without some of its workers or after
            a line of `worker_init` failed.
    """

    def __init__(
        self,
        site: str,
        silent_s: float,
        refused_s: float = REFUSED_S,
        queued_s: float = QUEUED_S,
        *,
        here: bool = False,
        nodes: int = 1,
        succeeded_s: float = math.inf,
    ) -> None:
        self.site, self.refused_s, self.silent_s, self.queued_s = site, refused_s, silent_s, queued_s
        self.here, self.nodes, self.succeeded_s, self.missing = here, nodes, succeeded_s, list[str]()
        self._counted: set[str] = set()  # blocks that are whole, or whose missing workers were reported
        self._begun: set[str] = set()  # blocks whose `worker_init` is over, or whose failure was reported
        self.waiting, self._waits_for, self._waits_since = "", "", 0.0
        self._running_since: dict[str, float] = {}
        self._given_up_since: dict[str, float] = {}
        self._refused_since: float | None = None
        self._refused = False  # the last block

    def __call__(self, executor: Any, status: Mapping[str, JobStatus]) -> None:
        # Parsl would not ask for states until a clock that was set back has its earlier time again.
        executor._last_poll_time = min(executor._last_poll_time, time.time())
        if executor.bad_state_is_set:
            return
        self._wait(executor, status)
        self._refuse(executor, status)
        self._begin(executor, status)
        cause = self._failures(executor, status) or self._silence(executor, status)
        if cause:
            executor.provider.cancel([executor.blocks_to_job_id[block] for block in _alive(executor, status)])
            executor.set_bad_state_and_fail_all(NoWorkers(self.site, cause))
            return
        self._give_up(executor)
        self._count(executor)
        self._succeed(executor, status)

    def _give_up(self, executor: Any) -> None:
        """End the blocks that lost all their workers: another follows.

        A manager of Parsl that misses its interchange ends, but may hang where a job ends in that moment. One that is
        told to end, because its block does soon, is not meant.
        """
        now, lasts_s = time.monotonic(), executor.drain_period or math.inf
        lost = {block for block, since in self._running_since.items() if 0 <= now - since < lasts_s}
        if lost:
            lost &= set(executor.connected_blocks())
            lost -= {manager["block_id"] for manager in executor.connected_managers()}
        self._given_up_since = {block: self._given_up_since.get(block, now) for block in lost}
        for block in sorted(lost, key=int):
            if now - self._given_up_since[block] > GIVEN_UP_S:
                self._replace(executor, block, f"block {block} of {executor.label} runs, but its workers are lost")

    def _replace(self, executor: Any, block: str, why: str) -> None:
        """End a block, once: Parsl asks for another."""
        job = executor.blocks_to_job_id[block]
        self.missing.append(f"{why}; its job {job} is ended, and another is requested")
        executor.provider.cancel([job])
        self._running_since[block] = math.inf

    def _succeed(self, executor: Any, status: Mapping[str, JobStatus]) -> None:
        """Ask for the blocks that are to follow those which end soon; what is in the queue already will do so."""
        now = time.monotonic()
        ending = sum(now - since > self.succeeded_s for since in self._running_since.values())
        lasting = sum(not each.terminal for each in status.values()) - ending
        wanted = executor.provider.min_blocks - lasting
        if ending and wanted > 0:
            executor.scale_out_facade(min(wanted, ending))

    def _wait(self, executor: Any, status: Mapping[str, JobStatus]) -> None:
        """Keep what is waited for: reported once, for a queue may be asked seldom."""
        wanted = _waited_for(executor, status)
        if wanted != self._waits_for:
            self.waiting, self._waits_for, self._waits_since = "", wanted, time.monotonic()
        if wanted and not self.waiting and time.monotonic() - self._waits_since >= self.queued_s:
            reason = getattr(executor.provider, "why_queued", lambda _: "")(wanted)
            self.waiting = f"{executor.label} waits for nodes: job {wanted} is in the queue" + (
                reason and f" ({reason})"
            )

    def _refuse(self, executor: Any, status: Mapping[str, JobStatus]) -> None:
        """Report that the scheduler takes no job, or no further one, once until it takes one."""
        said = _said(status[max(status, key=int)]) if status else ""
        refused = said.startswith(REFUSED)
        if refused and not self._refused:
            self.missing.append(f"the scheduler refuses a job for {executor.label}; the run tries again: {said}")
        self._refused = refused

    def _begin(self, executor: Any, status: Mapping[str, JobStatus]) -> None:
        """Report a line of `worker_init` that failed: workers may still start, without what it should provide."""
        over = {block for block, each in status.items() if each.terminal}
        running = {block for block, each in status.items() if each.state is JobState.RUNNING}
        begun = sorted((running | over) - self._begun, key=int)
        if begun:
            over |= set(executor.connected_blocks())
        for block in begun:
            file, text = _stderr(executor, block)
            if failed := INIT.search(text):
                words = " ".join(text[: failed.end()].split())[-TAIL_CHARS:]
                self.missing.append(f"block {block} of {executor.label}: {words} (see {file})")
            if failed or block in over:
                self._begun.add(block)

    def _failures(self, executor: Any, status: Mapping[str, JobStatus]) -> str:
        ended = [block for block in sorted(status, key=int) if status[block].terminal][-FAILURES:]
        never = len(ended) == FAILURES and all(status[block].state in NEVER for block in ended)
        if not never or set(ended) & set(executor.connected_blocks()) or executor.connected_managers():
            self._refused_since = None
            return ""
        said = _said(status[ended[-1]]) or "the reason is not known"
        if said.startswith(REFUSED):
            if _alive(executor, status):  # as many as a user may have
                self._refused_since = None
                return ""
            self._refused_since = self._refused_since or time.monotonic()
            waited_s = time.monotonic() - self._refused_since
            return f"the scheduler takes no job for {executor.label}: {said}" if waited_s >= self.refused_s else ""
        file, tail = stderr(executor, ended[-1])
        words = f"{FAILURES} blocks of {executor.label} in a row ended before one of their workers connected"
        hint = f"{_how_far(executor, ended[-1], self.here)} " if _began(executor, ended[-1]) else ""
        return f"{words}: {hint}{f'{tail} (see {file})' if tail else said}"

    def _silence(self, executor: Any, status: Mapping[str, JobStatus]) -> str:
        now = time.monotonic()
        running = [block for block in status if status[block].state is JobState.RUNNING]
        self._running_since = {block: self._running_since.get(block, now) for block in running}
        silent_s = self.silent_s * (max(1.0, load()) if self.here else 1.0)
        late = [block for block, since in self._running_since.items() if now - since > silent_s]
        silent = set(late) - set(executor.connected_blocks()) if late else ()
        if not silent:
            return ""
        block = min(silent, key=int)
        file, tail = stderr(executor, block)
        words = (
            f"a block of {executor.label} has run for {silent_s:.0f} s, but none of its workers has connected: "
            f"{_how_far(executor, block, self.here)} {tail} (see {file or 'parsl.log'})"
        )
        if not executor.connected_managers():
            return words
        self._replace(executor, block, words)
        return ""

    def _count(self, executor: Any) -> None:
        """Find the blocks of which only some nodes have workers; the run goes on with these."""
        begun = [block for block in self._running_since if block not in self._counted]
        if self.nodes == 1 or not begun:
            return
        came = Counter(manager["block_id"] for manager in executor.connected_managers())
        for block in begun:
            file, text = _stderr(executor, block)
            ended = list(ENDED.finditer(text)) if 0 < came[block] < self.nodes else []
            late = came[block] and time.monotonic() - self._running_since[block] > self.silent_s
            if came[block] + len(ended) < self.nodes and not late:
                continue
            self._counted.add(block)
            if came[block] < self.nodes:
                job, names = executor.blocks_to_job_id[block], "".join(f", not {each['node']}" for each in ended)
                have = f"{came[block]} of {self.nodes} nodes of job {job} have {executor.label} workers{names}"
                words = f"{_of_node(text, ended)} (see {file or 'parsl.log'})"
                self.missing.append(f"{have}; the run goes on without the others: {words}")


def _how_far(executor: Any, block: str, here: bool) -> str:
    """How far the workers of a block came that says nothing."""
    if here and (why := busy()):
        return f"{why}; try again when it is less so, or with fewer workers"
    if here and _began(executor, block):
        return f"they start, but do not reach the driver on this machine; see manager.log in {executor.worker_logdir}"
    if _began(executor, block):
        addresses = ", ".join(sorted(executor.all_addresses))
        return f"they start there but do not reach {addresses}; check whether `interface:` must name another network"
    return "they have not started there; check that `worker_init` ends, and how long Python takes to start (`starts_s`)"


def _began(executor: Any, block: str) -> bool:
    """Whether Parsl's program started on a node of a block: it begins a log."""
    return any(Path(executor.worker_logdir).glob(f"block-{block}/*/manager.log"))


def _waited_for(executor: Any, status: Mapping[str, JobStatus]) -> str:
    """The job in the queue that workers are to come from; "" where a block runs, or none is in the queue."""
    states = {status[block].state for block in status}
    queued = next((block for block in status if status[block].state is JobState.PENDING), None)
    return "" if queued is None or JobState.RUNNING in states else str(executor.blocks_to_job_id[queued])


def _said(of: JobStatus) -> str:
    return " ".join((of.message or "").split())[:1000]


def stderr(executor: Any, block: str) -> tuple[Path | None, str]:
    """The file with what a block wrote to standard error, and its last words."""
    file, text = _stderr(executor, block)
    return file, " ".join(text.split())[-TAIL_CHARS:]


def _of_node(text: str, ended: Sequence[re.Match[str]]) -> str:
    """The last words of the first node that ended, if that is known, or else of all."""
    label = ended[0]["label"] if ended else ""
    lines = [line.removeprefix(label) for line in text.splitlines() if line.startswith(label)]
    return " ".join(" ".join(lines).split())[-TAIL_CHARS:]


def _stderr(executor: Any, block: str) -> tuple[Path | None, str]:
    """What a block wrote to standard error, after what the job wrote that it shares, and the last file with words."""
    here, job = Path(executor.provider.script_dir), executor.blocks_to_job_id.get(block)
    jobs = here.glob(f"{TOGETHER}.*{JOB}")
    shared = [file.with_suffix(".stderr") for file in jobs if file.read_text() == job]
    own = (here.glob(f"*.{executor.label}.block-{block}.*{suffix}") for suffix in (".stderr", ".err"))
    files = [file for file in (*shared, *sorted(itertools.chain(*own))[-1:]) if file.exists()]
    said = {file: file.read_text(errors="replace") for file in files}
    with_words = [file for file in files if said[file]] or files
    return with_words[-1] if with_words else None, "".join(said.values())


def _alive(executor: Any, status: Mapping[str, JobStatus]) -> list[str]:
    return [block for block in status if not status[block].terminal and block in executor.blocks_to_job_id]
