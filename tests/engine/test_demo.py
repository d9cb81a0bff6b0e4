"""`make demo` at a tiny size, in rounds so that it repeats: from OpenMM to the report."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.data.replay import replay
from steersman.journal import file as journal
from steersman.journal import records
from steersman.journal.modes.biases import Biases, file_of
from steersman.journal.run_directory import RunDirectory
from steersman.models import Model
from steersman.stages import loading
from steersman.stages import start as stages
from steersman.steering import Bias
from steersman.store import Span, Window
from tests.dashboard.kept import kept
from tests.engine.conftest import completed

pytestmark = pytest.mark.slow


class Played:
    """Takes what a segment gives, of the same start in another process."""

    stopped = False

    def __init__(self, seed: int) -> None:
        self.seed, self.frames = seed, list[dict[str, Any]]()

    def append(self, **frame: Any) -> None:
        self.frames.append(frame)

    def state(self, **state: Any) -> None:
        pass


def played(directory: RunDirectory, start: records.Start) -> list[dict[str, Any]]:
    """The frames of a segment, made again from the run directory alone."""
    workflow, prepared = loading.load(directory.workflow), pickle.loads(directory.prepared.read_bytes())
    assert workflow.simulation is not None
    parent = start.parent
    frame = directory.frames.row(f"w{parent.walker}", parent.row) if parent else {}
    state = directory.frames.state(f"w{parent.walker}", parent.segment) if parent and start.exact else {}
    bias = Bias.from_bytes(file_of(directory, start.bias).read_bytes()) if start.bias else None
    model = (lambda: Model.load(directory.model(start.with_model))) if start.with_model else lambda: None
    out = Played(start.seed)
    params = loading.checked(workflow, directory.settings()["params"])
    workflow.simulation.function(params, stages.Start(prepared, frame, state, {}, bias, model), out)
    return out.frames


def test_the_demo_at_a_tiny_size(tmp_path: Path) -> None:
    """A model pushes one walker and never the other; versions and segments, made again, are the same bit for bit."""
    tiny = ["first=100", "segment_ps=1", "sim_ns=0.03"]
    settings = [word for setting in tiny for word in ("--set", setting)]
    directory, state, summary = completed(
        "dipeptide", "--report", *settings, "--workers", 2, "--rounds", "--seed", 3, cwd=tmp_path
    )
    assert summary["outcome"] == "budget"
    assert sum(bool(model.accepted) for model in state.models) >= 1
    assert not list(directory.errors.iterdir())
    assert len(state.mode(Biases).versions) > 3
    starts = {record.start: record for record in journal.read(directory.journal, records.Start)}
    control = [start for start in starts.values() if not start.share]
    pushed = [start for start in starts.values() if start.bias]
    assert len(control) == len(starts) / 2
    assert not any(start.bias for start in control)
    assert all(start.with_model for start in pushed)
    found = replay(directory, loading.load(directory.workflow))
    assert (found["different"], found["biases"], found["same_biases"]) == (
        [],
        len(state.mode(Biases).versions),
        len(state.mode(Biases).versions),
    )

    segments = {segment.start: segment for segment in state.segments}
    for start in (control[-1], pushed[0], pushed[len(pushed) // 2], pushed[-1]):
        segment = segments[start.start]
        stored = Window(directory.frames, [Span(f"w{segment.walker}", segment.first, segment.end or 0)])
        again = played(directory, start)
        assert len(again) == (segment.end or 0) - segment.first
        for name in ("positions", "features", "bias"):
            values = np.array([frame[name] for frame in again]).astype(stored[name].dtype)
            np.testing.assert_array_equal(values, stored[name], err_msg=f"{name} of start {start.start}")
        assert (np.abs(stored["bias"]).max() > 0) == (start.bias > 0)
    assert "bias" in {path.stem for path in directory.figures.glob("*.svg")}
    assert not kept(directory)["panels"]["trouble"]
