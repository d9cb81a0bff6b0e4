"""A long segment that ends for a newer model: the one that goes on from its state has it, and nothing else differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import steersman
from steersman.data.verify import verify
from steersman.store import Span
from tests.engine.conftest import completed

pytestmark = pytest.mark.slow
WORKFLOW = """
import time
import numpy as np
from steersman import Params, Workflow, budget, every
from steersman.models import Model

class Version(Model):
    def __init__(self, number=0):
        super().__init__(number=number)

wf = Workflow("long", Params, stop=budget(frames=1200))

@wf.simulate()
def segment(p, start, out):
    count = start.state.get("count", 0)
    version = start.model.config["number"] if start.model else 0
    while not (out.stopped or out.outdated):
        time.sleep(0.002)
        count += 1
        out.append(x=float(count), version=version)
    out.state(count=np.array(count))

@wf.train(when=every(frames=300))
def train(p, frames, last):
    return Version(last.config["number"] + 1 if last else 1)

@wf.score()
def score(p, model, frames):
    return {"x": frames["x"]}
"""


def test_a_long_segment_ends_for_a_newer_model_and_the_next_one_has_it(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text(WORKFLOW)
    directory, state, _ = completed("long.py", "--workers", "1", cwd=tmp_path)
    segments = steersman.open_run(directory.path).segments
    assert not verify(directory)
    assert state.models.newest > 2
    versions, ends = segments["with_model"].to_numpy(), (segments["first_row"] + segments["frames"]).to_numpy()
    assert set(segments["how"][:-1]) == {"finished"}
    assert (np.diff(versions) > 0).all(), "each ended for a newer model, and none before that"
    assert versions[-1] >= state.models.newest - 1, "the last one may come too late"
    x, made_with = (directory.frames.read(name, Span("w0", 0, int(ends[-1]))) for name in ("x", "version"))
    assert x.tolist() == list(range(1, len(x) + 1)), "each goes on exactly"
    assert made_with.tolist() == np.repeat(versions, segments["frames"]).tolist()
