"""Observations -> a committee, and how far it may be trusted, beside the rule on the same observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from steersman.apps.storms.rule import CLASSES
from steersman.apps.storms.simulation import seen

if TYPE_CHECKING:
    from steersman.models.networks.committee import Committee

WORTH = 0.87, 12.6, 8.4  # weights of classes in an error: 1 / sqrt of their shares, in flows of even draws


def fitted(frames: Mapping[str, np.ndarray], choice: str = "all", power: float = 0.5, **settings: Any) -> Committee:
    """Fit a committee to flows.

    Args:
        frames: as `run` gives them, (n, ...) each.
        choice: of channels, see `seen`.
        power: classes weigh 1 / frequency^power in the loss.
        settings: of `Committee.fit`.
    Raises: see `Committee.fit`.
    """
    from steersman.models.networks.committee import Committee
    from steersman.models.networks.pixels import class_weights

    masks, classes = frames["mask"], len(CLASSES)
    weights = class_weights(masks, classes, power)
    return Committee.fit(seen(frames["observed"], choice), masks, classes=classes, weights=weights, **settings)


def judged(model: Committee, frames: Mapping[str, np.ndarray], choice: str = "all") -> dict[str, np.ndarray]:
    """Judge a committee by frames, see `models.networks.pixels.judgement`.

    Args:
        frames: as `run` gives them, (n, ...) each.
        choice: of channels, see `seen`.
    Returns: its scores; `rule` (n, 9), the confusion of the rule on what was observed; and the `point` of each frame.
    """
    from steersman.models.networks.pixels import confusion, judgement

    masks = frames["mask"]
    by_rule = confusion(masks, frames["ruled"], len(CLASSES)).reshape(len(masks), -1)
    of_model = judgement(model, seen(frames["observed"], choice), masks, WORTH)
    return of_model | {"rule": by_rule, "point": frames["point"]}


def pooled(values: Mapping[str, np.ndarray], held_out: np.ndarray, by: str = "confusion") -> dict[str, float]:
    """Intersection over union of each class, from the counts of all frames that are held out.

    Args:
        values: scores of frames as `judged` gives them.
        held_out: (n,) bool.
        by: "confusion" of the committee, or "rule".
    """
    from steersman.models.networks.pixels import iou

    counts = values[by][held_out].sum(0).reshape(len(CLASSES), len(CLASSES))
    return dict(zip(CLASSES, iou(counts).tolist(), strict=True))
