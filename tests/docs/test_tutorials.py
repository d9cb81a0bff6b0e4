"""The tutorials are true: their files are written, their commands run, in order, as they stand. And what is true of the
runs that they leave: from OpenMM, or a flow on the sphere, to the report.
"""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray

from steersman.dashboard.figures import FIGURES
from steersman.data.replay import replay
from steersman.journal import file as journal
from steersman.journal import published
from steersman.journal.records import End, Start
from steersman.models import CVAE
from steersman.stages import loading
from steersman.steering.decide import CHOSE_NONE
from tests.apps import debian
from tests.dashboard.kept import captions, kept
from tests.engine.conftest import opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PAGES = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.md"))
NEEDS = {"gromacs": "gmx"}  # programs of Debian, by their package; a page has its name
BLOCK = re.compile(r'```(\w+)(?: title="([\w.]+)")?\n(.*?)```', re.DOTALL)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder in which a page was followed, once."""
    return functools.cache(lambda page: followed(page, tmp_path_factory.mktemp(page)))


def followed(page: str, folder: Path) -> Path:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if needed := NEEDS.get(page):
        (folder / needed).mkdir()
        path = f"{Path(debian.program(needed, page, folder / needed)).parent}:{path}"
    environment = os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "160"}
    steps = 0
    blocks = BLOCK.findall((PAGES[0].parent / f"{page}.md").read_text())
    for _, title, text in blocks:
        if title:
            (folder / title).write_text(text)
    for language, title, text in blocks:
        words = {"sh": ["bash", "-e", "-c", text], "python": [sys.executable, "-c", text]}.get(language)
        if words and not title:  # a reader takes it for a step
            assert "steersman run" not in text or "--rounds" in text, "a page names segments that the run has again"
            done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{text}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
            assert CHOSE_NONE not in done.stdout, "a tutorial of steering steers"
            steps += 1
    assert steps >= 2
    return folder


@pytest.mark.parametrize("page", [page.stem for page in PAGES])
def test_a_tutorial_runs(page: str, ran: Callable[[str], Path]) -> None:
    assert list((ran(page) / "runs").iterdir())


def test_a_model_that_is_learned_on_the_way_chooses_starts(ran: Callable[[str], Path]) -> None:
    directory, _ = opened(ran("steering") / "runs" / "alanine")
    starts = list(journal.read(directory.journal, Start))
    assert any(start.policy == "LocalOutlierFactor" and start.model for start in starts)


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3 specification")  # packed bits
def test_a_peptide_is_folded_and_stored_with_units_and_every_figure_is_drawn(ran: Callable[[str], Path]) -> None:
    folder = ran("peptide")
    directory, state = opened(folder / "runs" / "fold")
    assert [end.outcome for end in journal.read(directory.journal, End)] == ["budget", "budget"], "it was resumed"
    assert state.simulated >= 40
    assert sum(bool(model.accepted) for model in state.models) >= 2
    assert not list(directory.errors.iterdir())
    assert "ATOM" in directory.topology.read_text()
    assert "outcome=budget" in directory.log.read_text()
    assert (folder / "path.xtc").stat().st_size > 0
    with xarray.open_datatree(directory.frames.path, engine="zarr", consolidated=False) as tree:
        assert sum(tree[name].sizes["frame"] for name in tree.children) >= state.frames
    stored = xarray.open_zarr(directory.frames.path / directory.frames.walkers()[0])
    assert stored.contacts.dtype == bool
    assert stored.positions.attrs["units"] == "nm"
    assert np.isfinite(stored.energy.values).all()
    z, _ = CVAE.load(directory.model(state.models.newest)).encode(stored.contacts.values)
    assert z.shape == (stored.sizes["frame"], 2)
    assert not kept(directory)["panels"]["trouble"]
    drawn = {path.stem for path in directory.figures.glob("*.svg")}
    assert drawn == FIGURES.keys() - {"sphere", "bias"} | {"yardsticks"}


def test_members_are_drawn_and_run_as_drawn_and_counted(ran: Callable[[str], Path]) -> None:
    """The workflow's own figures stand in the report."""
    directory, state = opened(ran("flows") / "runs" / "jets")
    assert state.simulated == 56 * 6
    assert 0 < state.metrics["storms_percent"][-1] < 100
    drawn = [record.draw["point"] for record in journal.read(directory.journal, Start)]
    run = np.concatenate([directory.frames.read("point", span)[::24] for span in published.spans(state)])
    np.testing.assert_array_equal(run, drawn)
    assert replay(directory, loading.load(directory.workflow))["different"] == []
    stored = xarray.open_zarr(directory.frames.path / "w0")
    assert stored.vorticity.dims == ("frame", "lat", "lon")
    assert stored.vorticity.attrs["units"] == "s-1"
    assert {"sphere", "extremes"} <= {path.stem for path in directory.figures.glob("*.svg")}
    told = captions(directory)["sampled"]
    assert "started from one" in told, "drawn members have no frames that they came from"
    assert not kept(directory)["panels"]["trouble"]
