"""What a worker executes for a label: one frame, one call of the label function, one file with its answer."""

from __future__ import annotations

import contextlib
import io
import math
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from steersman.stages import loading
from steersman.stages.kinds.label import Label
from steersman.stages.start import StoredFrame
from steersman.steering.streams import stage_seed
from steersman.store import Frames
from steersman.store.names import walker_name
from steersman.system import node
from steersman.system.errors import BadValue
from steersman.system.files import replace_file
from steersman.system.random_numbers import drawing
from steersman.worker import tasks, torch_defaults
from steersman.worker.known import checked
from steersman.worker.watchdog import Watchdog


def label(
    run: str,
    number: int,
    frame: tuple[int, int],
    model: int,
    settings: dict[str, Any],
    known: tuple[str, int] | None,
) -> dict[str, Any]:
    """Answer for one frame, in a folder that goes with it, and leave the answer for the driver; or look at the one that
    is there.

    Args:
        model: version of the model that is judged by it; 0: none.
        known: group and row of the run's labels that has the answer; None: the function is called.
    Returns: where that was done, how long it took, and how wrong the model is.
    """
    directory, workflow, params = tasks.opened(run)
    stage, began = workflow.labelling, time.monotonic()
    assert stage is not None
    file = directory.answer(number)
    with tasks.keeping_cause(directory.traceback("label", number)), Watchdog(stage.hang_s):
        stored = StoredFrame(directory.frames.row(walker_name(frame[0]), frame[1]))
        with torch_defaults.kept(), drawing(stage_seed(tasks.seed_of(run), "label", number)):
            if known:
                values = dict(Frames(directory.labels).row(*known))
            elif file.exists():  # the worker died when it measured the error
                values = read(file)
            else:
                with TemporaryDirectory(prefix="steersman-label-") as folder, contextlib.chdir(folder):
                    values = checked(stage.function(loading.changed(workflow, params, settings), stored))
                _leave(file, values)  # before the error is measured, for that may fail and the answer was expensive
            took_s = time.monotonic() - began
            error = measured(stage, tasks.model_of(run, model), stored, values) if stage.error and model else None
    return {"node": node.name(), "took_s": took_s, "error": error}


def measured(stage: Label, model: Any, frame: StoredFrame, answer: dict[str, np.ndarray]) -> float:
    """How wrong a model is about a frame. Raises: BadValue: the file's function gave no finite number."""
    assert stage.error is not None
    error = stage.error(model, frame, answer)
    try:
        if math.isfinite(number := float(error)):
            return number
    except (TypeError, ValueError):
        pass
    raise BadValue("@wf.label(error=...)", f"{error!r:.60}", "return a finite number")


def _leave(file: Path, values: dict[str, np.ndarray]) -> None:
    packed = io.BytesIO()
    np.savez(packed, **values)  # type: ignore[arg-type]  # of arrays by name
    file.parent.mkdir(exist_ok=True)
    replace_file(file, packed.getvalue(), sync=True)


def read(file: Path) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}
