"""docs/figures/projected_potential.png, and the tables beside it: the projected potential that a committee finds.

    python docs/figures/projected_potential.py         # with a probe of 8 mrad, whose discs overlap
    python docs/figures/projected_potential.py 4       # with another semi-angle: prints its table, draws nothing

No engine: patterns are drawn evenly, and a committee goes on from its last weights each time 300 more are there.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from steersman.apps.diffraction import counts, potential, seen
from steersman.apps.diffraction.conditions import SEMIANGLE_MRAD
from steersman.apps.diffraction.figures import potentials
from steersman.models import ImageRegressors
from steersman.steering import latin_hypercube

HELD_OUT, STEP, STEPS = 120, 300, 4
semiangle_mrad = float(sys.argv[1]) if sys.argv[1:] else SEMIANGLE_MRAD


def exposed(points: np.ndarray, first_seed: int) -> dict[str, np.ndarray]:
    """Pattern, potential and point of each."""
    drawn = [replace(potential.conditions(point), semiangle_mrad=semiangle_mrad) for point in points]
    patterns = [counts(conditions, seed) for seed, conditions in enumerate(drawn, first_seed)]
    return {
        "pattern": np.stack(patterns), "potential": np.stack([potential.projected(each) for each in drawn]),
        "point": points,
    }  # fmt: skip


held = exposed(np.asarray(latin_hypercube(HELD_OUT, potential.DIMENSIONS)), 0)
known = {name: values[:0] for name, values in held.items()}
rng = np.random.default_rng(1)
kinds = (held["point"][:, 0] * len(potential.CRYSTALS)).astype(int)
model = None
for number in range(STEP, STEP * STEPS + 1, STEP):
    more = exposed(rng.random((STEP, potential.DIMENSIONS)), HELD_OUT + len(known["point"]))
    known = {name: np.concatenate([known[name], more[name]]) for name in known}
    images, targets = seen(known["pattern"]), known["potential"] / potential.SCALE_VA
    model = ImageRegressors.fit(images, targets, members=2, epochs=15, init=model)
    said = model.estimates(seen(held["pattern"])) * potential.SCALE_VA
    both = {name: np.concatenate([held[name], known[name]]) for name in ("potential", "point")}
    beside = potential.errors_of_mean(both, np.arange(len(both["point"])) < HELD_OUT)
    null = np.abs(held["potential"] - known["potential"].mean(0)).mean()
    scores = potential.judgement(said, held)
    error, spread = scores["error"], scores["spread"]
    each = ", ".join(
        f"{name} {error[kinds == kind].mean():.1f} of {beside[kinds == kind].mean():.1f}"
        for kind, name in enumerate(potential.CRYSTALS)
    )
    print(
        f"{number} patterns: error {error.mean():.1f} V A, mean potential {null:.1f}, that of the crystal "
        f"{beside.mean():.1f}; {each}; correlation with the spread {np.corrcoef(error, spread)[0, 1]:.2f}",
        flush=True,
    )
if semiangle_mrad == SEMIANGLE_MRAD:
    figure, _ = potentials(held, said, float(beside.mean()))
    figure.savefig(Path(__file__).with_name("projected_potential.png"), dpi=110)
