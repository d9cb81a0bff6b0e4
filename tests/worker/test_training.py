"""Models are judged on held-out frames, as far as these can tell; scores that are none are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steersman.models.networks.pca import PCA
from steersman.steering.errors import BadScores
from steersman.store import FRAME, Frames, GroupWriter, Span, Window
from steersman.store.errors import MissingVariable
from steersman.worker.errors import JudgingFailed
from steersman.worker.training import checked_scores, judge, load_model, train
from tests.models.mean_model import Small, fresh, rows, streamed


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


@pytest.mark.parametrize("alike", [True, False])
def test_a_model_of_one_point_has_collapsed_where_frames_differ_in_more_than_their_time(
    tmp_path: Path, alike: bool
) -> None:
    """An epidemic that dies out leaves frames that are all the same."""
    values = np.random.default_rng(1).normal(size=(10, 6)).astype(np.float32)
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": np.ones((10, 6)) if alike else values, "time": np.arange(10.0)})
    writer.publish()
    model = PCA.fit(values)
    model.components *= 0
    window = Window(Frames(tmp_path), [Span("w0", 0, 10)])
    assert judge(score, model, None, window, "error")["accepted"] is alike


def test_a_function_can_be_the_gate(tmp_path: Path) -> None:
    """It gets each model with the held-out frames; the scores need not hold an error."""
    values = np.random.default_rng(1).normal(size=(10, 6)).astype(np.float32)
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": values})
    writer.publish()
    window = Window(Frames(tmp_path), [Span("w0", 0, 10)])
    one, other = PCA.fit(values, latent=1), PCA.fit(values, latent=2)
    worth = {1: 3.0, 2: 5.0}

    def judged(model: PCA, last: PCA | None) -> tuple[bool, float, float | None]:
        found = judge(
            lambda model, frames: {"z": score(model, frames)["z"]}, model, last, window,
            lambda model, frames: worth[model.config["latent"]] + len(frames["values"]),
        )  # fmt: skip
        return found["accepted"], found["held_out"], found["predecessor"]

    assert judged(one, None) == (True, 13.0, None)
    assert judged(one, other) == (True, 13.0, 15.0)
    assert judged(other, one) == (False, 15.0, 13.0)
    worth[2] = np.nan
    assert not judged(other, one)[0]


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        (None, "it returned NoneType; return {name: array with one row per frame}"),
        (np.zeros(4), "it returned ndarray; return {name: array with one row per frame}"),
        ({"z": 1.0}, "its shape is () for 4 frames; return one row per frame"),
        ({"z": np.zeros((3, 2))}, "its shape is (3, 2) for 4 frames"),
        ({"z": np.zeros(5)}, "its shape is (5,) for 4 frames"),
        ({"z": [1, None, 3, 4]}, "its dtype is object"),
        ({"z": list("abcd")}, "its dtype is <U1"),
        ({"z": np.full(4, np.nan)}, "4 of its values are not finite"),
        *(({name: np.zeros(4)}, "take another") for name in ("frame", "row", "walker", "segment", "time")),
        ({"z": np.zeros((4, 2)), "z_1": np.zeros(4)}, "of the score 'z'"),
        ({"z": np.full(4, 2**53 + 1)}, "beyond 2**53"),
        ({"z": np.full(4, -(2**63))}, "beyond 2**53"),
        ({1: np.zeros(4)}, "the name of a score is text"),
        ({"z": np.zeros(4, np.longdouble)}, "its dtype is float128"),
        ({"z": np.zeros((4, 0))}, "which holds nothing"),
        ({"z": np.ma.masked_greater(np.arange(4.0), 2)}, "masked"),
    ],
)
def test_scores_that_cannot_be_used_are_told(scores: Any, told: str) -> None:
    with pytest.raises(BadScores, match=re.escape(told)):
        checked_scores(scores, 4)


@pytest.mark.parametrize("made", [None, {"weights": 1}])
def test_a_train_stage_that_returns_no_model_is_told(made: Any, tmp_path: Path) -> None:
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": np.zeros((4, 2))})
    writer.publish()
    window = Window(Frames(tmp_path), [Span("w0", 0, 4)])
    with pytest.raises(TypeError, match=f"returned {type(made).__name__}; it returns a Model"):
        train(
            fit=lambda frames, last: made, score=score, frames=window, held_out=None, last=None, gate="error",
            directory=tmp_path / "model", version=1,
        )  # fmt: skip


def test_a_score_that_does_not_work_with_a_new_model_is_no_fault_of_the_train_stage(tmp_path: Path) -> None:
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": np.eye(4)})
    writer.publish()
    window = Window(Frames(tmp_path), [Span("w0", 0, 4)])
    with pytest.raises(JudgingFailed) as failed:
        train(
            fit=lambda frames, last: PCA.fit(frames["values"], latent=1), frames=window,
            score=lambda model, frames: {"error": frames["y"]}, held_out=window, last=None, gate="error",
            directory=tmp_path / "model", version=1,
        )  # fmt: skip
    assert isinstance(failed.value.__cause__, MissingVariable)


def test_a_stage_that_changes_its_predecessor_is_compared_with_what_that_was(tmp_path: Path) -> None:
    """Fitting in place is the usual way to go on; the predecessor may still be in use for scores."""
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": np.zeros((4, 2))})
    writer.publish()
    window, last = Window(Frames(tmp_path), [Span("w0", 0, 4)]), PCA(size=2, latent=1)

    def worse(frames: Window, model: PCA) -> PCA:
        model.mean += 1
        return model

    card = train(
        fit=worse, score=lambda model, frames: {"error": np.full(frames.rows, float(model.mean.sum()))}, frames=window,
        held_out=window, last=last, gate="error", directory=tmp_path / "model", version=2,
    )  # fmt: skip
    assert (card["held_out"], card["predecessor"], card["accepted"]) == (2.0, 0.0, False)
    assert not last.mean.any()


def test_a_training_on_a_stream_that_is_done_again_is_the_same(tmp_path: Path) -> None:
    """It goes on from the version before, as that lies on disk, with frames that came since: the same files; what the
    first training drew is counted."""
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": rows().numpy()})
    writer.publish()

    def fit(frames: Window, last: Small | None) -> Small:
        model = fresh()
        model.warm_start(last)
        return streamed(1, model, data=torch.from_numpy(frames["values"]), ids=frames.ids, uses=2)

    def trained(folder: str, frames: int, last: str | None) -> dict[str, Any]:
        return train(
            fit=fit, score=score, frames=Window(Frames(tmp_path), [Span("w0", 0, frames)]), held_out=None,
            last=load_model(tmp_path / last) if last else None, gate="error", directory=tmp_path / folder, version=1,
        )  # fmt: skip

    trained("first", 48, None)
    once, again = (trained(folder, 96, "first")["files"] for folder in ("once", "again"))
    unlike = {"card.json", "model.json"}  # seconds stand there
    assert {name: once[name] for name in once if name not in unlike} == {
        name: again[name] for name in again if name not in unlike
    }
    assert "stream.safetensors" in once
    assert load_model(tmp_path / "once").card["reservoir"] == {"drawn": 2 * 80, "different": 96}
