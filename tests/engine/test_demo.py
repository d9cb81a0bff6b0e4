"""Shipped workflows at a tiny size, in rounds so that they repeat, `make demo` too: from OpenMM to the report."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from steersman.dashboard.figures import FIGURES
from steersman.data.replay import replay
from steersman.journal import file as journal
from steersman.journal import published, records
from steersman.journal.records import Start
from steersman.journal.run_directory import RunDirectory
from steersman.models import CVAE, Model
from steersman.stages import loading
from steersman.stages import start as stages
from steersman.steering import Bias
from steersman.store import Span, Window
from tests.engine.conftest import completed, steersman

pytestmark = pytest.mark.slow

FOLD = Path(__file__).parents[2] / "workflows" / "chignolin.yaml"
STEERED = """
from steersman.steering import LocalOutlierFactor, Novelty
wf.steer(LocalOutlierFactor("z", neighbours=20) | Novelty("z"), explore=0.2)
"""


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
    bias = Bias.from_bytes(directory.bias(start.bias).read_bytes()) if start.bias else None
    model = (lambda: Model.load(directory.model(start.with_model))) if start.with_model else lambda: None
    out = Played(start.seed)
    params = loading.checked(workflow, directory.settings()["params"])
    workflow.simulation.function(params, stages.Start(prepared, frame, state, {}, bias, model), out)
    return out.frames


def test_the_demo_at_a_tiny_size(tmp_path: Path) -> None:
    """A model pushes one walker and never the other; versions and segments, made again, are the same bit for bit."""
    tiny = ["first=100", "segment_ps=1", "sim_ns=0.03"]
    settings = [word for setting in tiny for word in ("--set", setting)]
    directory, state, summary = completed("dipeptide", *settings, "--workers", 2, "--rounds", "--seed", 3, cwd=tmp_path)
    assert summary["outcome"] == "budget"
    assert sum(bool(model.accepted) for model in state.models) >= 1
    assert not list(directory.errors.iterdir())
    assert len(state.biases) > 3
    starts = {record.start: record for record in journal.read(directory.journal, records.Start)}
    control = [start for start in starts.values() if not start.share]
    pushed = [start for start in starts.values() if start.bias]
    assert len(control) == len(starts) / 2
    assert not any(start.bias for start in control)
    assert all(start.with_model for start in pushed)
    found = replay(directory, loading.load(directory.workflow).steering)
    assert (found["different"], found["biases"], found["same_biases"]) == ([], len(state.biases), len(state.biases))

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
    assert "This figure is missing" not in directory.report.read_text()


TINY = ["sequence=GYDPETG", "segment_ps=0.4", "train_every=30", "sim_ns=0.04"]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification")  # packed bits
def test_fold_at_a_tiny_size(tmp_path: Path) -> None:
    settings = [word for setting in TINY for word in ("--set", setting)]
    file = tmp_path / "steered.py"
    file.write_text(loading.find("fold").read_text() + STEERED)
    directory, state, summary = completed(file, "--params", FOLD, *settings, "--rounds", "--seed", 3, cwd=tmp_path)
    assert summary["outcome"] == "budget"
    assert state.simulated >= 30
    assert sum(bool(model.accepted) for model in state.models) >= 2
    policies = {record.policy for record in journal.read(directory.journal, Start)}
    assert policies & {"LocalOutlierFactor", "Novelty"}, "a model chose starts"
    assert not list(directory.errors.iterdir())

    assert "ATOM" in directory.topology.read_text()
    assert "outcome=budget" in directory.log.read_text()
    told = steersman("export", directory.path, "w0.3", "--lineage", tmp_path / "w0.3.xtc", cwd=tmp_path)
    assert told.returncode == 0
    assert (tmp_path / "w0.3.xtc").stat().st_size > 0
    with xarray.open_datatree(directory.frames.path, engine="zarr", consolidated=False) as tree:
        assert sum(tree[name].sizes["frame"] for name in tree.children) >= state.frames

    walker = directory.frames.walkers()[0]
    opened = xarray.open_zarr(directory.frames.path / walker)
    assert opened.contacts.dtype == bool
    assert opened.positions.attrs["units"] == "nm"
    assert np.isfinite(opened.energy.values).all()
    z, _ = CVAE.load(directory.model(state.model)).encode(opened.contacts.values)
    assert z.shape == (opened.sizes["frame"], 3)

    page = directory.report.read_text()
    assert "This figure is missing" not in page
    assert {path.stem for path in directory.figures.glob("*.svg")} == FIGURES.keys() - {"sphere", "bias"} | {
        "yardsticks"
    }
    told = steersman("why", directory.path, "w0.3", cwd=tmp_path)
    assert "started from" in told.stdout

    again = steersman("report", directory.path, cwd=tmp_path)
    assert again.returncode == 0


def test_shallow_water_at_a_tiny_size(tmp_path: Path) -> None:
    """Members are drawn, run as drawn, and counted; two networks; the workflow's own figures stand in the report."""
    tiny = ["truncation=10", "train_every=6", "epochs=1", "storm_m_s=0.5", "runs=16"]
    settings = [word for setting in tiny for word in ("--set", setting)]
    directory, state, summary = completed("shallow_water", *settings, "--rounds", "--seed", 3, cwd=tmp_path)
    assert summary["outcome"] == "budget"
    assert state.simulated == 16 * 6
    assert sum(bool(model.accepted) for model in state.models) >= 2
    assert 0 < summary["metrics"]["storms_percent"] < 100
    drawn = [record.draw["point"] for record in journal.read(directory.journal, Start)]
    run = np.concatenate([directory.frames.read("point", span)[::24] for span in published.spans(state)])
    np.testing.assert_array_equal(run, drawn)
    assert replay(directory, loading.load(directory.workflow).steering)["different"] == []
    opened = xarray.open_zarr(directory.frames.path / "w0")
    assert opened.vorticity.dims == ("frame", "lat", "lon")
    assert opened.vorticity.attrs["units"] == "s-1"
    assert {"sphere", "extremes", "lead_times"} <= {path.stem for path in directory.figures.glob("*.svg")}
    told = directory.report.read_text()
    assert "no segment was started from one of them" in told, "drawn members have no frames that they came from"
    assert "This figure is missing" not in told
