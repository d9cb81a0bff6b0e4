"""A run with a model -> a yardstick for workflows that have none: cells of that model's latent space, the same for all.

The model is one of many that could have been trained, on the frames of its own run: prefer a yardstick of frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from steersman.data.history import History
from steersman.data.results import Results, place_of, placed
from steersman.journal.run_directory import RunDirectory
from steersman.stages.workflow import Workflow
from steersman.stages.yardstick import Yardstick
from steersman.system.errors import BadValue

BINS = 20  # per dimension, over what the run itself sampled; a frame beyond that lies in a cell of its own further out
OFFSET = 2**20  # cells below the run's range are cells, too


def yardstick_of(directory: RunDirectory, workflow: Workflow) -> Yardstick:
    """Count the cells that frames occupy, of the score with the most dimensions, under a run's newest model.

    Raises: BadValue: the run has no model, or no scores.
    """
    results = Results(history := History(directory))
    scores = results.scores
    if not history.state.models.newest or not scores.values or workflow.scoring is None:
        raise BadValue("--model-of", str(directory.path), "it has no model with scores; name a run that trained one")
    name = place_of(results, workflow)
    low, reach = scores.matrix(name).min(axis=0), np.ptp(scores.matrix(name), axis=0)
    width = np.where(reach > 0, reach, 1.0) / BINS
    place = placed(results, workflow, name)

    def cells(params: Any, frames: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.asarray(np.floor((place(params, frames) - low) / width), np.int64) + OFFSET

    return Yardstick(cells)
