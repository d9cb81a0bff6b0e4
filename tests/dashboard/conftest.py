"""A finished run, written with the real journal and the real store, in a fraction of a second."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from steersman.dashboard import report
from steersman.dashboard.live.watched import Watched
from steersman.data.history import History
from steersman.journal import run_directory
from steersman.journal.file import Journal
from steersman.journal.modes.biases import file_of
from steersman.journal.records import (
    Began,
    Biased,
    End,
    Ended,
    FrameId,
    Hired,
    Metrics,
    Published,
    Run,
    Scored,
    Session,
    Start,
    Trained,
    Training,
)
from steersman.journal.run_directory import RunDirectory
from steersman.steering import Opes, Scores
from steersman.store import FRAME, GroupWriter, Variable

SLOTS, FRAMES, RESIDUES, SEGMENT_S = 2, 5, 8, 0.5
HOSTILE = "</pre><script>alert('x')</script>"
REASON = "its cell of z holds <3 frames"
VARIABLES = {
    "time": Variable((), "ps", "time since the segment's start"),
    "contacts": Variable(("residue", "residue2"), "1", "near"),
    "positions": Variable(("atom", "xyz"), "nm", "atom positions"),
    "energy": Variable((), "kJ mol-1", "potential energy"),
    "vorticity": Variable(("lat", "lon"), "s-1", "relative vorticity"),
}


class MadeRun:
    """Writes what walkers and the engine would have written.

    Args:
        segments: of each walker; they run side by side.
    """

    def __init__(self, path: Path, segments: int, *, guided: bool = False) -> None:
        self.directory, self.segments = run_directory.create(path.parent, "fold", path), segments
        self.now = 1_800_000_000.0
        self.journal = Journal(self.directory.journal, clock=lambda: self.now)
        self.rng = np.random.default_rng(1)
        self.journal.append(Run(workflow="fold", seed=7, slots=SLOTS, guided=guided, time_unit="ps"))
        self.journal.append(Session(host="here", pid=1))
        settings = {
            "workflow": "fold",
            "seed": 7,
            "params": {"sequence": "<GGG>", "latent": 3},
            "site": {"name": "laptop"},
        }
        self.directory.settings_file.write_text(yaml.safe_dump(settings))

    def write(self) -> RunDirectory:
        """The whole run, from the first walker to the end."""
        for walker in range(SLOTS):
            self.journal.append(Hired(walker=walker, slot=walker))
        self.now += 1.0
        for number in range(self.segments):
            self._round(number)
        self._frames()
        self._model(1, accepted=True)
        self._model(2, accepted=False)
        self._scores()
        self.journal.append(End(outcome="goal", reason="coverage rose by less than 1 %"))
        self.journal.close()
        return self.directory

    def _round(self, number: int) -> None:
        """One segment of every walker; the last but one of the first fails, the last one is stopped."""
        for walker in range(SLOTS):
            row = number // 2 * FRAMES + number % FRAMES  # anywhere in the parent, so that lineages have several frames
            parent = FrameId(1 - walker, row, number // 2) if number else None
            policy = ("Novelty", "LocalOutlierFactor", "explore")[number % 3] if number else "prepared"
            start = number * SLOTS + walker
            self.journal.append(
                Start(start=start, seed=start + 1, slot=walker, parent=parent, policy=policy, reason=REASON)
            )
            self.journal.append(
                Began(walker=walker, segment=number, start=start, first_row=number * FRAMES, waited_s=0.01)
            )
        self.now += SEGMENT_S
        for walker in range(SLOTS):
            self._end(walker, number)

    def _end(self, walker: int, number: int) -> None:
        failed = walker == 0 and number == self.segments - 2
        stopped = walker == 0 and number == self.segments - 1
        self.journal.append(Ended(
            walker=walker, segment=number, start=number * SLOTS + walker,
            how="failed" if failed else "stopped" if stopped else "finished", cause=HOSTILE if failed else "",
            first_row=number * FRAMES, end_row=(number + 1) * FRAMES, simulated=2.0, read_s=0.01, waited_s=0.01,
            ran_s=SEGMENT_S - 0.02,
        ))  # fmt: skip
        if failed:
            (self.directory.errors / f"w{walker}.{number}.txt").write_text(f"Traceback {HOSTILE}")

    def _frames(self) -> None:
        rows = self.segments * FRAMES
        for walker in range(SLOTS):
            writer = GroupWriter(self.directory.frames.path / f"w{walker}", variables=VARIABLES)
            near = self.rng.random((rows, RESIDUES, RESIDUES)) < np.linspace(0.1, 0.6, rows)[:, None, None]
            writer.extend(FRAME, {
                "time": np.tile(np.arange(1.0, FRAMES + 1), self.segments),
                "segment": np.repeat(np.arange(self.segments, dtype=np.int32), FRAMES),
                "contacts": near | near.transpose(0, 2, 1),
                "positions": self.rng.normal(size=(rows, 12, 3)).astype(np.float32),
                "energy": self.rng.normal(-100, 5, rows),
                "vorticity": 1e-5 * self.rng.normal(size=(rows, 8, 16)).astype(np.float32),
            })  # fmt: skip
            writer.close()
            self.journal.append(Published(walker=walker, frames=rows, segments=self.segments))

    def _model(self, version: int, *, accepted: bool) -> None:
        self.journal.append(Training(model=version, frames=self.segments * FRAMES))
        self.now += 1.0
        held_out, predecessor = 0.1 * version, 0.1 if version > 1 else None
        reason = "the first model" if accepted else "worse than its predecessor"
        spent = {"IpUpdateTime": 0.01, "FwdTime": 0.03, "BwdTime": 0.04, "WtUpdateTime": 0.02, "SyncTime": 0.0}
        profile = {**spent, "TotalCompTime": 0.1}
        history = [{"loss": 10.0 / epoch, "seconds": 0.1, **profile} for epoch in range(1, 6)]
        self.journal.append(Trained(
            model=version, accepted=accepted, reason=reason, frames=40, epochs=5, seconds=1.0, loss=2.0,
            held_out=held_out, predecessor=predecessor,
        ))  # fmt: skip
        self.directory.model(version).mkdir(parents=True)
        verdict = {"accepted": accepted, "reason": reason, "held_out": held_out, "predecessor": predecessor}
        card = {"version": version, "gate": "error", "history": history, **verdict}
        (self.directory.model(version) / "card.json").write_text(json.dumps(card))

    def _bias(self, frames: int) -> None:
        row = np.arange(frames)
        values = {"z": np.random.default_rng(frames).normal(size=frames), "bias": np.zeros(frames)}
        scores = Scores(np.zeros(frames, int), row, row // 5, np.zeros(frames), np.zeros(frames), values, 1)
        made = Opes("z", barrier_kT=10).made(scores)
        version = frames // (SLOTS * FRAMES)
        file_of(self.directory, version).parent.mkdir(exist_ok=True)
        file_of(self.directory, version).write_bytes(made.to_bytes())
        sha256 = run_directory.sha256(file_of(self.directory, version))
        self.journal.append(Biased(bias=version, model=1, frames=frames, sha256=sha256, kernels=len(made.heights)))

    def _scores(self) -> None:
        rows = self.segments * FRAMES
        for done in (0.5, 1.0):
            self.journal.append(Scored(model=1, frames=int(done * SLOTS * rows)))
            self.journal.append(Metrics(values={"coverage": 40 * done}))
            self._bias(int(done * SLOTS * rows))
            self.now += 0.5
        self.directory.scores.mkdir()
        writer = GroupWriter(self.directory.scores / "0001", attributes={"model": 1})
        writer.extend(FRAME, {
            "walker": np.repeat(np.arange(SLOTS, dtype=np.int32), rows),
            "row": np.tile(np.arange(rows), SLOTS),
            "z": self.rng.normal(size=(SLOTS * rows, 3)).astype(np.float32),
            "error": self.rng.random(SLOTS * rows).astype(np.float32),
        })  # fmt: skip
        writer.close()


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A finished run with its report; to be read only."""
    directory = MadeRun(tmp_path_factory.mktemp("runs") / "fold-0001", segments=12).write()
    report.write_report(directory)
    return directory


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A finished run, to be read only."""
    return MadeRun(tmp_path_factory.mktemp("runs") / "fold-0001", segments=12).write()


@pytest.fixture
def finished(tmp_path: Path) -> RunDirectory:
    return MadeRun(tmp_path / "fold-0001", segments=12).write()


@pytest.fixture
def guided(tmp_path: Path) -> RunDirectory:
    return MadeRun(tmp_path / "fold-0002", segments=4, guided=True).write()


@pytest.fixture
def empty(tmp_path: Path) -> RunDirectory:
    """A run that ended before its first walker."""
    made = MadeRun(tmp_path / "fold-0003", segments=0)
    made.journal.append(End(outcome="failed", reason="prepare: ValueError: no such letter"))
    made.journal.close()
    return made.directory


@pytest.fixture
def watched(made: RunDirectory) -> Watched:
    return Watched.of(History(made))
