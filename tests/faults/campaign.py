"""A small campaign whose processes are killed at random, and what must be true of it whatever was killed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil

from steersman import open_run
from steersman.data.replay import replay
from steersman.data.verify import verify
from steersman.engine import orphans
from steersman.journal import file as journal
from steersman.journal import lock, published
from steersman.journal.modes.biases import Biases
from steersman.journal.modes.labels import Labels
from steersman.journal.records import Blame, Published, Start, Tell
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.store import Span

SLOTS = 2
SITE = f"lease_s: 5\nsimulation: {{workers: {SLOTS}}}\ntraining: {{workers: 1}}\n"
# Groups of walkers are merged all the time, so that this is killed too.
MERGING = """
from steersman.cli.__main__ import main
from steersman.engine import merger
merger.LOOK_EVERY_S, merger.GRACE_S = 0.5, 1.0
merger.Merger.__init__.__kwdefaults__ |= {"fan_in": 2, "quiet_s": 2.0}
main()
"""
STEERSMAN = [sys.executable, "-c", MERGING]
RECOVERY_S = 120.0
OFTEN = {
    "walker": 5,
    "trainer": 4,
    "server": 4,
    "manager": 2,
    "helper": 1,
    "interchange": 2,
    "driver": 4,
    "everything": 2,
}


class Campaign:
    """A campaign in `folder`, driven and killed.

    Args:
        workflow: a file beside this one.
    Attributes:
        kills: how often each kind was killed.
    """

    def __init__(self, folder: Path, rng: random.Random, workflow: str = "workflow.py") -> None:
        self.run, self.rng = folder / "run", rng
        self.kills: Counter[str] = Counter()
        self._deck: list[str] = []
        self._seen: dict[str, list[tuple[int, str]]] = {}
        self._fenced = set[int]()  # walkers that may have been given up although they lived
        (folder / "site.yaml").write_text(SITE)
        words = ["run", str(Path(__file__).with_name(workflow)), "--site", "site.yaml", "--no-report"]
        words += ["--run-dir", str(self.run)]
        self._log = (folder / "driver.log").open("ab")
        self._driver = subprocess.Popen([*STEERSMAN, *words], cwd=folder, stdout=self._log, stderr=self._log)
        self.until(lambda state: state.frames > 100)

    @property
    def directory(self) -> RunDirectory:
        return RunDirectory(self.run)

    def state(self) -> State:
        file = self.run / "journal.jsonl"
        return State(journal.read(file)) if file.exists() else State()

    def burst(self, most: int) -> None:
        """Kill some things in quick succession, the driver last, then let the campaign work again."""
        for kind in sorted((self._deal() for _ in range(min(most, self.rng.randint(5, 7)))), key=list(OFTEN).index):
            self.kill(kind)
            time.sleep(self.rng.uniform(0.0, 0.8))  # this is the random moment, not a wait for something
        frames = self.state().frames
        self.until(lambda state: state.frames > frames + 20)

    def _deal(self) -> str:
        if not self._deck:
            self._deck = list(Counter(OFTEN).elements())
            self.rng.shuffle(self._deck)
        return self._deck.pop()

    def kill(self, kind: str) -> None:
        """Kill one kind of process with SIGKILL, if there is one now; a dead driver is resumed at once."""
        victims = self._victims(kind)
        self._look()
        theirs = _children(victims) if kind == "manager" else []
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()
        assert not psutil.wait_procs(theirs, timeout=RECOVERY_S)[1], "workers outlived their manager"
        if victims:
            self.kills[kind] += 1
        else:
            self._deck.insert(0, kind)
        self._drive()

    def stand_still(self, for_s: float) -> None:
        """Stop all processes for a while. Walkers that are given up meanwhile may still write, which is not read."""
        self._look()
        self._fenced |= {number for number, walker in self.state().walkers.items() if walker.alive}
        processes = [psutil.Process(self._driver.pid), *orphans.of_run(self.run)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        time.sleep(for_s)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def until(self, reached: Callable[[State], bool]) -> State:
        deadline = time.monotonic() + RECOVERY_S
        while time.monotonic() < deadline:
            self._drive()
            if reached(state := self.state()):
                return state
            time.sleep(0.1)
        raise AssertionError(f"no progress within {RECOVERY_S:.0f} s after {self.kills}\n{self._last_words()}")

    def _last_words(self) -> str:
        """What its driver and its journal told last: of a campaign on another machine nothing else is left."""
        files = self.run.parent / "driver.log", self.run / "journal.jsonl"
        return "\n".join(line for file in files for line in file.read_text().splitlines()[-20:])

    def finish(self, frames: int) -> State:
        """Set a budget a little ahead and let the campaign reach it."""
        told = subprocess.run(
            [*STEERSMAN, "tell", str(self.run), "set", f"frames={frames}"], capture_output=True, text=True
        )
        assert told.returncode == 0, told.stderr
        try:
            self._driver.wait(timeout=2 * RECOVERY_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"told to end, it goes on\n{self._last_words()}") from None
        return self.state()

    def close(self) -> None:
        """Leave nothing behind, whatever came of it."""
        self._driver.kill()
        self._driver.wait()
        orphans.end(orphans.of_run(self.run))
        self._log.close()

    def _drive(self) -> None:
        if self._driver.poll() is not None:
            words = [*STEERSMAN, "resume", str(self.run)]
            self._driver = subprocess.Popen(words, cwd=self.run.parent, stdout=self._log, stderr=self._log)

    def _victims(self, kind: str) -> list[psutil.Process]:
        if kind == "driver":
            return [psutil.Process(self._driver.pid)]
        found = {process.pid: _words(process) for process in orphans.of_run(self.run)}
        if kind == "everything":
            return [psutil.Process(self._driver.pid), *map(psutil.Process, found)]
        if kind == "server":
            server = json.loads((self.directory.bus / "bus.json").read_text())["pid"]
            chosen = [server] if server in found else []
        elif kind == "interchange":
            chosen = [pid for pid, words in found.items() if "interchange" in words]
        else:
            managers = {pid: words for pid, words in found.items() if "process_worker_pool" in words}
            role = "/training" if kind == "trainer" else "/simulation"
            chosen = [pid for pid, words in managers.items() if kind in ("manager", "helper") or role in words]
            if kind != "manager":
                chosen = [pid for manager in chosen for pid in _forked(manager, helper=kind == "helper")]
        return [psutil.Process(self.rng.choice(chosen))] if chosen else []

    def _look(self) -> None:
        """Remember what is committed now."""
        for walker in self.directory.frames.walkers():
            rows = self.directory.frames.count(walker)
            if rows:
                self._seen.setdefault(walker, []).append((rows, self._digest(walker, rows)))

    def _digest(self, walker: str, rows: int) -> str:
        return hashlib.sha256(self.directory.frames.read("position", Span(walker, 0, rows)).tobytes()).hexdigest()

    def check(self, state: State, budget: int) -> None:
        """What must be true whatever was killed."""
        self._check_frames(state)
        self._check_starts(state)
        self._check_labels(state)
        assert verify(self.directory) == []
        again = replay(self.directory, loading.load(self.directory.workflow))
        assert again["different"] == [], "the journal tells what was known when a start was chosen"
        assert again["same_biases"] == again["biases"], "and when a version of the bias was made"
        assert [bias.bias for bias in state.mode(Biases).versions] == list(
            range(1, len(state.mode(Biases).versions) + 1)
        )
        chunk = max(self._chunks())
        limit = max(budget, self._frames_when_told())
        assert budget <= state.frames <= limit + SLOTS * chunk, f"{state.frames} of {limit} frames, a chunk has {chunk}"
        assert not orphans.of_run(self.run), "a process outlived its driver"
        assert lock.owner(self.run) is None

    def _check_frames(self, state: State) -> None:
        """No committed frame is lost, changed or counted twice."""
        for group, looks in self._seen.items():
            for rows, digest in looks:
                assert self._digest(group, rows) == digest, f"{group}: committed rows changed"
        for number, walker in state.walkers.items():
            name = f"w{number}"
            stored = self.directory.frames.count(name) if name in self.directory.frames.walkers() else 0
            words = f"{name}: {stored} frames are stored, the journal counts {walker.frames}"
            assert walker.frames == stored or (number in self._fenced and walker.frames < stored), words
            counted = [(segment.first, walker.rows_end(segment)) for segment in walker.segments if segment.counts]
            assert all(before[1] <= after[0] for before, after in pairwise(counted))
        spans = published.spans(state)
        assert sum(span.rows for span in spans) == state.frames, "every counted frame belongs to a segment"

    def _check_starts(self, state: State) -> None:
        """Every start is waiting, done once, blamed, or went on as another; every choice is explained."""
        starts = list(journal.read(self.directory.journal, Start))
        blamed = {record.start for record in journal.read(self.directory.journal, Blame)}
        again = {record.again for record in starts if record.again is not None}
        counted = Counter(segment.start for segment in state.segments if segment.counts)
        explained = {json.loads(line)["start"] for line in self.directory.decisions.read_text().splitlines()}
        assert [record.start for record in starts] == list(range(len(starts)))
        for record in starts:
            number = record.start
            assert counted[number] <= 1, f"start {number} counts {counted[number]} times"
            assert counted[number] or number in state.starts or number in blamed | again, f"start {number} got lost"
            assert number in explained or record.again is not None, f"start {number} is not explained"

    def _check_labels(self, state: State) -> None:
        """Each frame is asked for once, but by audits; each answer is that of its frame."""
        labels = state.mode(Labels)
        assert list(labels.asked) == list(range(len(labels.asked)))
        chosen = [each.frame[:2] for each in labels.asked.values() if not each.drawn]
        assert len(set(chosen)) == len(chosen)
        labelled = open_run(self.run).labelled
        np.testing.assert_array_equal(*(
            (labelled["twice"], 2 * labelled["position"]) if len(labelled) else (0, 0)
        ))  # fmt: skip

    def _frames_when_told(self) -> int:
        """Frames that there were when the budget was set: the campaign had gone on meanwhile."""
        state = State()
        for record in journal.read(self.directory.journal):
            state.apply(record)
            if isinstance(record, Tell):
                return state.frames
        return 0

    def _chunks(self) -> list[int]:
        seen: Counter[int] = Counter()
        chunks = [0]
        for record in journal.read(self.directory.journal, Published):
            if not record.adopted:
                chunks.append(record.frames - seen[record.walker])
                seen[record.walker] = record.frames
        return chunks


def _children(processes: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += process.children(recursive=True)
    return found


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _forked(manager: int, *, helper: bool) -> list[int]:
    """A manager's worker processes: what its fork server made, but the first, the helper, which holds its queues."""
    try:
        (server,) = (child for child in psutil.Process(manager).children() if "forkserver" in _words(child))
        forked = sorted((child.create_time(), child.pid) for child in server.children())
    except (psutil.NoSuchProcess, ValueError):
        return []
    return [pid for _, pid in (forked[:1] if helper else forked[1:])]
