"""The path of `make demo` at a tiny size, in rounds so that it repeats: sequence, OpenMM, CVAE, steering, report."""

from pathlib import Path

import numpy as np
import pytest
import xarray

from steersman.dashboard.figures import FIGURES
from steersman.journal import file as journal
from steersman.journal import published
from steersman.journal.records import Start
from steersman.journal.replay import replay
from steersman.models import CVAE
from steersman.stages import loading
from tests.engine.conftest import completed, steersman

pytestmark = pytest.mark.slow

DEMO = Path(__file__).parents[2] / "workflows" / "demo.yaml"
STEERED = """
from steersman.steering import LocalOutlierFactor, Novelty
wf.steer(LocalOutlierFactor("z", neighbours=20) | Novelty("z"), explore=0.2)
"""
TINY = ["sequence=GYDPETG", "segment_ps=0.4", "train_every=30", "sim_ns=0.04"]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification")  # packed bits
def test_the_demo_at_a_tiny_size(tmp_path: Path) -> None:
    settings = [word for setting in TINY for word in ("--set", setting)]
    file = tmp_path / "steered.py"
    file.write_text(loading.find("fold").read_text() + STEERED)
    directory, state, summary = completed(file, "--params", DEMO, *settings, "--rounds", "--seed", 3, cwd=tmp_path)
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
