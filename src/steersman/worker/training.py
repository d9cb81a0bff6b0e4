"""Frames -> model: fit, compare with the predecessor on held-out frames, save with a card."""

from __future__ import annotations

import copy
import json
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from steersman.journal.run_directory import sha256
from steersman.stages.kinds.train import Gate
from steersman.stages.score_names import NAME_TAKEN, TAKEN
from steersman.steering.errors import BadScores
from steersman.steering.scores import some_missing
from steersman.store import BadVariable, Window
from steersman.store.column import check_new
from steersman.store.errors import MASKED
from steersman.system.errors import told
from steersman.system.files import replace_file
from steersman.system.random_numbers import drawing
from steersman.worker.errors import JudgingFailed

if TYPE_CHECKING:
    from steersman.models import Model


SAME = 1e-5  # of the spread of a score: by so much it may be another one of the model that is loaded again
LOST = (
    "it differs once the model is saved and loaded: plain tensors are not saved, make them buffers (`register_buffer`)"
)
EXACT = 2**53  # integers up to which a float has them all, as `run.scores` does
COLLAPSED = 1e-3  # of the spread that the coordinates of one frame after the other should have


def train(
    *,
    fit: Callable[[Window, Any], Model],
    score: Callable[[Any, Window], Mapping[str, Any]],
    frames: Window,
    judging: Window | None,
    last: Model | None,
    gate: Gate,
    most: float | None = None,
    directory: Path,
    version: int,
) -> dict[str, Any]:
    """Fit a model, save it, judge what was saved: as the run is going to use it, in eval mode and loaded again.

    Args:
        fit: (frames, last) -> model.
        score: (model, frames) -> scores.
        gate: name of the score, or a function (model, frames) -> number, that must not get worse, smaller being better.
        most: what that number may be; None: any.
        judging: frames to judge it by, which the fit does not see; None when there are none yet.
    Raises: TypeError: the fit gave no model. JudgingFailed: the score did not work with it. BadScores: what is loaded
        gives other scores than what was fitted.
    Returns: the card: version, window, losses per epoch, ranks, held-out figures, whether it is accepted and why, a
        warning.
    """
    began = time.monotonic()
    model = fit(frames, copy.deepcopy(last))  # a stage may change what it gets, and `last` is still compared and used
    seconds = time.monotonic() - began
    if isinstance(model, type) or not callable(getattr(model, "save", None)):
        what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"the train stage returned {what}; it returns a Model, see docs/models.md")
    model.eval()
    model.save(directory)
    try:
        loaded = load_model(directory).to(next((each.device for each in model.state_dict().values()), "cpu"))
        try:
            verdict = judge(score, loaded, last, judging, gate, most)
            lost, warning = kept(score, model, loaded, judging, gate)
        except Exception as error:  # a user's score may raise anything
            raise JudgingFailed(told(error)) from error
        if lost:
            raise BadScores(*lost)
    except Exception:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    card = {
        "version": version,
        "frames": frames.rows,
        "window": [[span.walker, span.first, span.end] for span in frames.spans],
        "seconds": round(seconds, 3),
        "history": getattr(model, "history", []),
        "ranks": getattr(model, "card", {}).get("ranks", 1),
        "warning": warning,
        **verdict,
    }
    replace_file(directory / "card.json", json.dumps(card, indent=1), sync=True)
    return card | {"files": files(directory)}


def files(model: Path) -> dict[str, str]:
    """SHA-256 of what is in a model's folder, by name."""
    return {file.name: sha256(file) for file in sorted(model.iterdir()) if file.is_file()}


def judge(
    score: Callable[[Any, Window], Mapping[str, Any]],
    model: Model,
    last: Model | None,
    judging: Window | None,
    gate: Gate,
    most: float | None = None,
) -> dict[str, Any]:
    """Compare a model with its predecessor: a worse one, or one whose latent space collapsed, is not used.

    Nor is one whose number at the gate is more than `most`, or which has none.
    """
    if not isinstance(gate, str):
        score, gate = _with(score, gate)
    verdict: dict[str, Any] = {"gate": gate, "held_out_frames": 0, "held_out": None, "predecessor": None}
    if not np.isfinite(loss := _loss(model)):
        return verdict | {"accepted": False, "reason": f"its loss is {loss}"}
    if judging is None:
        return verdict | {"accepted": most is None, "reason": "there are no held-out frames yet"}
    new = _arrays(score(model, judging))
    if name := judging.changed():
        problem = f"it, or the gate, changes frames[{name!r}] in place, so the next model would be judged by others"
        raise BadScores("", f"{problem}: write x = x * 10 in place of x *= 10")
    old = _arrays(score(last, judging)) if last is not None else {}
    if gate not in new:
        reason = f"the scores have no {gate!r} to compare, see @wf.train(gate=)"
        return verdict | {"accepted": most is None, "reason": reason}
    mean = float(np.mean(new[gate]))
    verdict |= {"held_out_frames": judging.rows, "held_out": mean}
    if not np.isfinite(mean):
        return verdict | {"accepted": False, "reason": f"its held-out {gate} is not a number"}
    scored = {name: values for name, values in new.items() if name not in judging}  # not what is stored as it is
    if (name := collapsed(scored, old)) and differ(judging):
        reason = f"{name!r} has collapsed: all held-out frames lie at one point"
        return verdict | {"accepted": False, "reason": reason}
    if most is not None and mean > most:
        return verdict | {"accepted": False, "reason": f"held-out {gate} {mean:.4g}, more than {most:g}"}
    if last is None:
        return verdict | {"accepted": True, "reason": "the first model"}
    before = float(np.mean(old[gate])) if gate in old else np.nan
    verdict["predecessor"] = before
    better = not mean > before  # a predecessor that is no number is no hurdle
    words = "not worse than" if better else "worse than"
    digits = next((each for each in (4, 7, 10) if f"{mean:.{each}g}" != f"{before:.{each}g}"), 4)
    reason = f"held-out {gate} {mean:.{digits}g}, {words} {before:.{digits}g} of its predecessor"
    return verdict | {"accepted": better, "reason": reason}


def kept(
    score: Callable[[Any, Window], Mapping[str, Any]], model: Model, loaded: Model, judging: Window | None, gate: Gate
) -> tuple[tuple[str, str] | None, str]:
    """Compare a model with the same one loaded again, whose weights are then changed to see what the gate does.

    Returns: the score that is another one of the loaded model, and what to do; a warning of a gate that is the same of
        any weights.
    """
    if judging is None or not np.isfinite(_loss(model)):
        return None, ""
    if not isinstance(gate, str):
        score, gate = _with(score, gate)

    def scored(model: Model) -> dict[str, np.ndarray]:
        with drawing(0):  # so that what a score draws is the same
            return _arrays(score(model, judging))

    one, other = scored(model), scored(loaded)
    if (lost := unlike(one, other)) and not unlike(one, scored(model)):
        return (lost, LOST), ""
    if gate in other and not _depends(lambda: scored(loaded)[gate], loaded):
        return None, f"the gate {gate!r} is the same of any weights, {np.mean(other[gate]):.4g}: it can refuse no model"
    return None, ""


def unlike(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> str | None:
    """Name the first score of two models that differs by more than 1e-5 of its spread."""
    for name, values in one.items():
        if values.dtype.kind not in "biuf" or values.shape != other[name].shape:
            continue  # it is no score, which others say
        values, others = values.astype(float), other[name].astype(float)
        apart = np.where((values == others) | (np.isnan(values) & np.isnan(others)), 0.0, np.abs(values - others))
        if not apart.max(initial=0.0) <= SAME * (np.nanstd(values) or np.nanmax(np.abs(values))):
            return name
    return None


def _depends(gate: Callable[[], np.ndarray], model: Model) -> bool:
    """Whether a number changes with the weights: first a little, for a model of large ones may do anything."""
    import torch

    before, random = gate(), torch.Generator().manual_seed(0)
    weights = [each for each in model.state_dict().values() if each.is_floating_point()]
    for share in (1e-3, 10.0, 10.0, 10.0):  # what is right by now may be right again
        for each in weights:
            noise = torch.randn(each.shape, generator=random).to(each)
            each += share * (each.abs().mean() + 1e-3) * noise
        try:
            if not np.array_equal(before, gate()):
                return True
        except Exception:  # it has no number with these weights
            return True
    return not weights


def _loss(model: Model) -> float:
    """Of its last epoch; 0 where it has none."""
    return next((record["loss"] for record in reversed(getattr(model, "history", [])) if "loss" in record), 0.0)


def _arrays(scores: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(values) for name, values in scores.items()}  # of tensors, as their scores are kept


def _with(
    score: Callable[[Any, Window], Mapping[str, Any]], gate: Callable[[Any, Window], float]
) -> tuple[Callable[[Any, Window], Mapping[str, Any]], str]:
    """Scores among which is what a function gives, and its name, which is that of no score."""
    name = f"{getattr(gate, '__name__', 'gate')}()"
    return lambda model, frames: {**score(model, frames), name: gate(model, frames)}, name


def collapsed(new: Mapping[str, Any], old: Mapping[str, Any]) -> str | None:
    """Name the coordinates (n, Z) that no longer separate frames, by the predecessor's spread or their own size."""
    for name, values in new.items():
        if np.ndim(values) < 2:
            continue
        scale = np.std(old[name], axis=0) if name in old else np.abs(values)
        if np.std(values, axis=0).max() <= COLLAPSED * np.max(scale):
            return name
    return None


def differ(frames: Window) -> bool:
    """Whether frames differ in more than their time: of those that do not, every model makes one point."""
    return any((values != values[:1]).any() for name, values in frames.items() if name not in TAKEN)


def counted(
    score: Callable[[Any, Window], Mapping[str, Any]], missing: Collection[str]
) -> Callable[[Any, Window], Mapping[str, Any]]:
    """A score without the frames for which one of these names is NaN."""

    def whole(model: Any, frames: Window) -> Mapping[str, Any]:
        values = _arrays(score(model, frames))
        kept = ~incomplete(values, missing, frames.rows)
        return {name: value[kept] for name, value in values.items()}

    return whole if missing else score


def whole(frames: Window | None, missing: Collection[str]) -> Window | None:
    """The frames in which none of these variables is NaN; None where there are none."""
    if frames is None or not missing:
        return frames
    kept = ~incomplete(frames, missing, frames.rows)
    return frames.only(kept) if kept.any() else None


def incomplete(values: Mapping[str, Any], missing: Collection[str], rows: int) -> np.ndarray:
    """(rows,) bool: whether one of these names is NaN."""
    return some_missing({name: np.asarray(values[name]) for name in missing if name in values}, rows)


def checked_scores(
    values: Mapping[str, Any],
    rows: int,
    also: Collection[str] = (),
    missing: Collection[str] = (),
    without: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Scores as float arrays with one row per frame.

    Args:
        also: names of stored variables that steering must see.
        missing: names of those that may be NaN.
        without: (rows,) bool, frames in which a variable is missing: these have no scores; None: nothing can be.
    Raises: BadScores: no mapping, a name that cannot be one, another length, values that are not numbers, or one of
        `also` is not there.
    """
    if not isinstance(values, Mapping):
        raise BadScores("", f"it returned {type(values).__name__}; return {{name: array with one row per frame}}")
    if unseen := set(also) - values.keys():
        raise BadScores(min(unseen), "it is stored, and steering must see it: return it from the score stage")
    checked = {}
    for name, value in values.items():
        array = np.asarray(value)
        if not isinstance(name, str):
            raise BadScores(str(name), "the name of a score is text")
        if np.ma.is_masked(value):
            raise BadScores(name, MASKED)
        if name in TAKEN:
            raise BadScores(name, NAME_TAKEN)
        if array.dtype.kind not in "biuf":
            raise BadScores(name, f"its dtype is {array.dtype}; numbers and booleans can be scores")
        if array.shape[:1] != (rows,):
            raise BadScores(name, f"its shape is {array.shape} for {rows} frames; return one row per frame")
        if array.dtype.kind in "iu" and array.size and max(abs(int(array.min())), int(array.max())) > EXACT:
            raise BadScores(
                name, "it has integers beyond 2**53, which are kept as floats; keep them in the frames only"
            )
        gone = np.False_ if without is None else without.reshape(-1, *[1] * (array.ndim - 1))
        if without is not None:  # integers have no NaN
            array = np.where(gone, np.nan, array)
        if not (np.isfinite(array) | (np.isnan(array) & (gone | (name in missing)))).all():
            raise BadScores(name, f"{int((~np.isfinite(array)).sum())} of its values are not finite; return numbers")
        try:
            check_new(name, array, rows, None)
        except BadVariable as bad:
            raise BadScores(name, bad.problem) from None
        checked[name] = array
    _check_columns(checked)
    return checked


def _check_columns(values: Mapping[str, np.ndarray]) -> None:
    """Raises: BadScores: two scores would be the same column of `run.scores`."""
    columns = [
        (name, f"{name}_{i}") for name, value in values.items() for i in range(value[:1].size * (value.ndim > 1))
    ]
    for name, column in columns:
        if column in values:
            raise BadScores(
                column, f"this is the name of a column of the score {name!r}, which has several; take another"
            )


def load_model(directory: Path) -> Model:
    """Read a model that `train` saved; torch is imported here, by the workers that need it only."""
    from steersman.models import Model

    return Model.load(directory, trusted=True)


def asked() -> AbstractContextManager[list[tuple[int, int]]]:
    """Give the samples, and the samples per batch, of each fit() inside."""
    from steersman.models.ranks import begin

    return begin.asked()
