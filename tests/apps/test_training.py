"""Models are judged on held-out frames, as far as these can tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steersman.apps.training import judge
from steersman.models.pca import PCA
from steersman.store import FRAME, Frames, GroupWriter, Span, Window


def score(model: PCA, frames: Window) -> dict[str, np.ndarray]:
    z, error = model.encode(frames["values"])
    return {"z": z, "error": error}


@pytest.mark.parametrize("held_out", [1, 2, 10])
def test_a_latent_space_that_tells_frames_apart_is_used_however_few_are_held_out(tmp_path: Path, held_out: int) -> None:
    """One frame lies at one point whatever the model."""
    values = np.random.default_rng(1).normal(size=(10, 6)).astype(np.float32)
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": values})
    writer.publish()
    window = Window(Frames(tmp_path), [Span("w0", 0, held_out)])
    verdict = judge(score, PCA.fit(values), None, window, "error")
    assert verdict["accepted"], verdict["reason"]
