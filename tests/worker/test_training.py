"""Models are judged on held-out frames, as far as these can tell; scores that are none are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from steersman.models.networks.pca import PCA
from steersman.steering import Opes, Steering, Unsteered
from steersman.steering.errors import BadScores
from steersman.steering.opes import HOT
from steersman.store import FRAME, Frames, GroupWriter, Span, Window
from steersman.store.errors import MissingVariable
from steersman.worker.errors import JudgingFailed
from steersman.worker.training import checked_scores, counted, judge, load_model, train, whole
from tests.models.mean_model import Scaled, Small, fresh, rows, streamed


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


@pytest.mark.parametrize("where", ["score", "gate"])
def test_what_changes_the_frames_for_the_next_model_that_is_judged_is_refused(window: Window, where: str) -> None:
    def spoiling(model: PCA, frames: Window) -> dict[str, np.ndarray]:
        found = score(model, frames)
        frames["values"][:] *= 10
        return found

    def gate(model: PCA, frames: Window) -> float:
        return float(spoiling(model, frames)["error"].mean())

    model = PCA.fit(window["values"].copy())
    with pytest.raises(BadScores):
        judge(*((score, model, model, window, gate) if where == "gate" else (spoiling, model, model, window, "error")))


@pytest.mark.parametrize("by", ["score", "variable"])
def test_the_gate_does_not_count_a_frame_that_misses_something(tmp_path: Path, by: str) -> None:
    """Of a score that may be missing, or a variable; else one such frame would keep every model out."""
    values = np.random.default_rng(1).normal(size=(10, 6)).astype(np.float32)
    gone = np.arange(10) % 3 == 1
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": values, "depth": np.where(gone, np.nan, 1.0), "gone": gone})
    writer.publish()
    window = whole(
        Window(Frames(tmp_path), [Span("w0", 0, 4), Span("w0", 4, 10)]), ["depth"] if by == "variable" else []
    )
    assert window
    assert (window.rows, window["gone"].sum()) == ((7, 0) if by == "variable" else (10, 3))

    def gate(model: PCA, frames: Window) -> dict[str, np.ndarray]:
        missing = np.nan if by == "score" else 1e6
        return score(model, frames) | {"error": np.where(frames["gone"], missing, 2.0)}

    verdict = judge(counted(gate, ["error"] if by == "score" else []), PCA.fit(values), None, window, "error")
    assert (verdict["accepted"], verdict["held_out"]) == (True, 2.0)


def test_a_frame_that_misses_a_variable_has_no_scores_and_no_other_may_be_nan() -> None:
    without = np.array([False, True, False, False])
    given = {"z": np.array([1.0, 2.0, np.nan, 4.0]), "cell": np.arange(4), "odd": np.array([1.0, np.inf, 1.0, 1.0])}
    checked = checked_scores(given, 4, missing=["z"], without=without)
    np.testing.assert_array_equal(checked["z"], [1.0, np.nan, np.nan, 4.0])
    np.testing.assert_array_equal(checked["cell"], [0.0, np.nan, 2.0, 3.0])
    for name, missing in (("z", []), ("odd", ["odd"])):
        with pytest.raises(BadScores) as refused:
            checked_scores({name: given[name]}, 4, missing=missing)
        assert refused.value.name == name


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
    barred = [judge(score, one, None, held_out, "error", most) for held_out in (window, None) for most in (1e9, 0.0)]
    assert [verdict["accepted"] for verdict in barred] == [True, False, False, False]
    unknown = [judge(score, one, None, window, "wrong", most)["accepted"] for most in (None, 1e9)]
    assert unknown == [True, False], "what has no number has not passed a bar"


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


def test_a_variable_that_steering_must_see_is_no_score_by_chance() -> None:
    """A bias that does not see which frames were hot would count them as cold."""
    seen = Steering(Unsteered(), bias=Opes("z", barrier_kT=10)).seen
    assert Steering(Unsteered()).seen == set()
    checked_scores({"z": np.zeros(4), HOT: np.ones(4, bool)}, 4, seen)
    with pytest.raises(BadScores) as refused:
        checked_scores({"z": np.zeros(4)}, 4, seen)
    assert refused.value.name == HOT


@pytest.mark.parametrize("made", [None, {"weights": 1}])
def test_a_train_stage_that_returns_no_model_is_told(made: Any, tmp_path: Path) -> None:
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": np.zeros((4, 2))})
    writer.publish()
    window = Window(Frames(tmp_path), [Span("w0", 0, 4)])
    with pytest.raises(TypeError, match=f"returned {type(made).__name__}"):
        train(
            fit=lambda frames, last: made, score=score, frames=window, judging=None, last=None, gate="error",
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
            score=lambda model, frames: {"error": frames["y"]}, judging=window, last=None, gate="error",
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
        judging=window, last=last, gate="error", directory=tmp_path / "model", version=2,
    )  # fmt: skip
    assert (card["held_out"], card["predecessor"], card["accepted"]) == (2.0, 0.0, False)
    assert not last.mean.any()


@pytest.fixture
def window(tmp_path: Path) -> Window:
    """Ten frames, one of them far from the others."""
    values = np.random.default_rng(1).normal(size=(10, 6)).astype(np.float32)
    values[3] = 1e3
    writer = GroupWriter(tmp_path / "w0")
    writer.extend(FRAME, {"values": values})
    writer.publish()
    return Window(Frames(tmp_path), [Span("w0", 0, 10)])


def scaled(window: Window, scale: float, score: Any, *, plain: bool = False, gate: Any = "error") -> dict[str, Any]:
    """The card of a model in training mode, as it is where `fit` is a loop of the author's own."""

    def fit(frames: Window, last: Any) -> Scaled:
        model = Scaled(plain)
        model.scale.fill_(scale)
        return model.train()

    return train(
        fit=fit, score=score, frames=window, judging=window, last=None, gate=gate,
        directory=window.frames.path / "model", version=1,
    )  # fmt: skip


def error(model: Scaled, frames: Window) -> dict[str, np.ndarray]:
    return {"error": np.abs(model.encode(frames["values"]) - 3 * frames["values"]).mean(axis=1)}


@pytest.mark.parametrize("plain", [True, False])
def test_a_model_is_judged_as_it_is_used_in_eval_mode_and_loaded_again(window: Window, plain: bool) -> None:
    """Nothing is dropped. A number that is lost with the model is no reason to use a worse one without a word."""
    folder = window.frames.path / "model"
    if plain:
        with pytest.raises(BadScores) as refused:
            scaled(window, 3.0, error, plain=True)
        assert refused.value.name == "error"
        assert not folder.exists()
    else:
        assert scaled(window, 3.0, error)["held_out"] == 0.0
        assert error(load_model(folder), window)["error"].max() == 0.0  # type: ignore[arg-type]


@pytest.mark.parametrize("apart", [0.3, 3.0])
def test_a_loaded_model_may_differ_by_1e_5_of_the_spread(window: Window, apart: float) -> None:
    """Of each score: another one may be large, or of no spread at all."""
    spread = np.std(window["values"])

    def score(model: Scaled, frames: Window) -> dict[str, np.ndarray]:
        z = frames["values"] + (model.scale.item() - 1) * 1e-5 * spread
        return {"error": 1e9 * np.arange(10.0), "alike": np.full(10, 5.0), "z": z.astype(np.float64)}

    if apart < 1:
        assert scaled(window, 1 + apart, score, plain=True)["accepted"]
    else:
        with pytest.raises(BadScores) as refused:
            scaled(window, 1 + apart, score, plain=True)
        assert refused.value.name == "z"


@pytest.mark.parametrize("seeded", [True, False])
def test_a_score_that_draws_random_numbers_says_nothing_of_what_was_lost(window: Window, seeded: bool) -> None:
    own = np.random.default_rng(3)

    def score(model: Scaled, frames: Window) -> dict[str, np.ndarray]:
        drawn = np.random.normal(size=10) if seeded else own.normal(size=10)  # noqa: NPY002
        return {"error": error(model, frames)["error"] + drawn}

    assert scaled(window, 2.0, score)["accepted"]


def stored(model: Scaled, frames: Window) -> dict[str, np.ndarray]:
    return {"error": np.abs(frames["values"]).mean(axis=1), "z": model.encode(frames["values"])}


@pytest.mark.parametrize(
    ("score", "gate", "can_refuse"),
    [
        (error, "error", True),
        (stored, "error", False),
        (stored, "z", True),
        (stored, lambda model, frames: 0.0, False),
        (stored, lambda model, frames: float(model.encode(frames["values"]).mean()), True),
        (
            lambda model, frames: {"error": model.encode(frames["values"])[:, 0] * frames["values"][:, 0] < 0},
            "error",
            True,
        ),
        (lambda model, frames: {"error": 1 / (abs(model.scale.item() - 2.0) < 0.1) * np.ones(10)}, "error", True),
    ],
    ids=["an error", "stored", "a coordinate", "a number", "a function", "all right by now", "none of odd weights"],
)
def test_a_gate_that_no_model_can_fail_is_named(window: Window, score: Any, gate: Any, can_refuse: bool) -> None:
    """It is the same of any weights, and not just of two models: two may be without an error."""
    card = scaled(window, 2.0, score, gate=gate)
    assert card["accepted"]
    assert bool(card["warning"]) is not can_refuse
    assert load_model(window.frames.path / "model").scale == 2.0, "what is used has the weights that were fitted"


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
            fit=fit, score=score, frames=Window(Frames(tmp_path), [Span("w0", 0, frames)]), judging=None,
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
