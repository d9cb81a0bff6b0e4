"""What do more projections of a crystal bring? Committees that see one, two or three, judged by the same crystals.

    python -m lab.zone_axes

No engine: crystals are drawn evenly, and a committee goes on from its last weights each time 160 more are there. All
see the same patterns, of which those with fewer projections leave the others out.
"""

from __future__ import annotations

import json

import numpy as np

from steersman.apps.diffraction import seen, zone_axes
from steersman.models import Committee
from steersman.steering import latin_hypercube

HELD_OUT, STEP, STEPS, EPOCHS = 120, 160, 3, 20


def exposed(points: np.ndarray, first_seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What a network takes of all three projections of each point, and the crystals."""
    patterns = [zone_axes.counted(point, 3, seed) for seed, point in enumerate(points, first_seed)]
    return seen(np.stack(patterns)), np.array([zone_axes.label(point) for point in points])


def main() -> None:
    """Print a line for each number of projections and of crystals."""
    held, truth = exposed(np.asarray(latin_hypercube(HELD_OUT, zone_axes.DIMENSIONS)), 0)
    images, labels = exposed(np.random.default_rng(1).random((STEP * STEPS, zone_axes.DIMENSIONS)), HELD_OUT)
    for projections in (1, 2, 3):
        model = None
        for number in range(STEP, STEP * STEPS + 1, STEP):
            model = Committee.fit(
                images[:number, :projections], labels[:number], classes=len(zone_axes.CRYSTALS), epochs=EPOCHS,
                init=model,
            )  # fmt: skip
            named = model.probabilities(held[:, :projections])
            wrong = named.mean(1).argmax(1) != truth
            mixed = {
                name: round(float(wrong[truth == label].mean()), 2) for label, name in enumerate(zone_axes.CRYSTALS)
            }
            report = {"projections": projections, "crystals": number, "error_rate": round(float(wrong.mean()), 3)}
            print(json.dumps(report | {"of_each": mixed}), flush=True)


if __name__ == "__main__":
    main()
