"""Classes of pixels: how rare they are, and how well a committee finds them.

Axes: n images, M members, K classes, H and W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steersman.models.networks.committee import Committee, disagreement


def class_weights(labels_nHW: np.ndarray, classes: int, power: float) -> list[float]:
    """Weights of classes, frequency^-power, such that the mean over all pixels is 1.

    Args:
        labels_nHW: int.
        power: 0 weighs all alike, 1 gives each class the same share of a loss, 0.5 lies between.
    Returns: (K,); a class without pixels weighs as one with a single pixel.
    Source: Kurth et al. (2018), arXiv 1810.01993, where power is 0.5.
    """
    counts = np.bincount(labels_nHW.ravel().astype(np.int64), minlength=classes)
    weights = (np.maximum(counts, 1) / counts.sum()) ** -power
    return [float(each) for each in weights * counts.sum() / (weights @ counts)]


def confusion(labels_nHW: np.ndarray, found_nHW: np.ndarray, classes: int) -> np.ndarray:
    """Count the pixels of each image, (n, K, K) int64: their class, then the class that was found."""
    pairs = (labels_nHW.astype(np.int64) * classes + found_nHW).reshape(len(labels_nHW), -1)
    return np.stack([np.bincount(row, minlength=classes**2) for row in pairs]).reshape(-1, classes, classes)


def iou(confusion_KK: np.ndarray) -> np.ndarray:
    """Intersection over union of each class, (K,), of counts pooled over images; NaN for one that is nowhere.

    Pooled: an image without a class says nothing about it, where a mean over images would count it as found.
    """
    both = np.diag(confusion_KK)
    either = confusion_KK.sum(0) + confusion_KK.sum(1) - both
    return np.asarray(np.where(either > 0, both / np.maximum(either, 1), np.nan))


def judgement(
    model: Committee, images_nCHW: np.ndarray, labels_nHW: np.ndarray, weights: Sequence[float]
) -> dict[str, np.ndarray]:
    """What a committee makes of images whose classes are known.

    Args:
        weights: (K,) of the classes in the error; those of a training would judge each model in another unit.
    Returns: `disagreement` (n,) of members about each other, mean over pixels, nats; `error` (n,), weighted
        cross-entropy of their mean, nats; `confusion` (n, K * K), counts of pixels, see `confusion`.
    """
    probabilities, labels_nHW = model.probabilities(images_nCHW), labels_nHW.astype(np.int64)
    mean = probabilities.mean(1)
    classes = mean.shape[1]
    given = np.take_along_axis(mean, labels_nHW[:, None], 1)[:, 0]
    return {
        "disagreement": disagreement(probabilities).mean((1, 2)),
        "error": -(np.array(weights)[labels_nHW] * np.log(np.maximum(given, 1e-12))).mean((1, 2)),
        "confusion": confusion(labels_nHW, mean.argmax(1), classes).reshape(len(labels_nHW), -1),
    }
