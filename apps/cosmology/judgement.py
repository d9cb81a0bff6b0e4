"""What was found of universes -> scores; and what a regression without a network finds of the same ones."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from steersman.apps.cosmology.summaries import CROPS
from steersman.apps.cosmology.universe import DIMENSIONS, targets

NULL_ERROR = 0.5  # mean error of a model that always says the middle, where targets are even from -1 to 1


def judgement(said: np.ndarray, points: np.ndarray) -> dict[str, np.ndarray]:
    """What a committee says of crops, where the parameters of their universes are known.

    Args:
        said: (n * 8, members, 3), of each universe's crops one after the other, from -1 to 1.
        points: (n, 3) from 0 to 1.
    Returns: `found` (n, 8, 3), the members' mean; `spread` (n,), their standard deviation; `error` (n,), what the mean
        errs. Both are means over parameters and crops, in units of half a parameter's range.
    """
    of_crops = said.reshape(len(points), CROPS, -1, DIMENSIONS)
    mean = of_crops.mean(2)
    error = np.abs(mean - targets(points)[:, None]).mean((1, 2))
    return {"found": mean, "spread": of_crops.std(2).mean((1, 2)), "error": error}


def errors_of_summary(values: Mapping[str, np.ndarray], held_out: np.ndarray) -> np.ndarray:
    """(held-out universes * 8, 3) what is left when parameters are regressed on the summaries of all other universes.

    Args:
        values: the scores summary (n, 8, d) and point (n, 3).
        held_out: (n,) bool.
    """
    wanted = targets(values["point"])[:, None].repeat(CROPS, axis=1)
    summaries = values["summary"]
    known, asked = (summaries[part].reshape(-1, summaries.shape[-1]) for part in (~held_out, held_out))
    guess = regressed(known, wanted[~held_out].reshape(-1, DIMENSIONS), asked)
    return np.asarray(guess - wanted[held_out].reshape(-1, DIMENSIONS))


def regressed(known: np.ndarray, targets: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """What a ridge regression makes of summaries.

    Args:
        known: (n, d) summaries whose targets (n, t) are known.
        asked: (m, d) others.
    Returns: (m, t) the targets that it expects of these.
    """
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(0.1, 1e4, 11)))
    return np.asarray(model.fit(known, targets).predict(asked))
