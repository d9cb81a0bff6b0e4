"""Does an audited surrogate find where an alloy orders, and for how many calls? `python -m lab.surrogate`.

The workflow `order` with each of several seeds, on the cell all of whose 10,518,300 energies are known: they are looked
up, so a call costs nothing and is only counted. Of each surrogate and number of calls (to fit + to audit): the rms
error of the temperature at which the heat capacity is highest, the median width of its interval (95 %), in how
many runs it holds the exact temperature, and the error where the surrogate is believed instead. Beside it, direct
sampling of the same energies.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from ase import Atoms
from ase.build import bulk
from torch import Tensor

from steersman.apps.alloys import exact, thermodynamics
from steersman.apps.alloys.flat import density
from steersman.apps.alloys.lattice import Lattice
from steersman.apps.alloys.surrogate import Surrogate, audits, energies, judged
from steersman.benchmarks.three_figures import rounded
from steersman.models.device import best
from steersman.models.networks.vectors import Vectors
from steersman.steering.audits import audited, coverage, saved
from steersman.steering.errors import AuditsRefused
from steersman.workflows import order

LEARN, CHECKED = 80, (160, 320, 640)  # energies before each of two trainings, and audits after them
DIRECT = (300_000, 1_000_000)
KINDS = {  # clusters that a surrogate sees
    "pairs and triangles": {"triplets": 1},
    "pairs": {"triplets": 0},
    "nearest pairs": {"pairs": 1, "triplets": 0},
}


class Known:
    """Cu24Au8, every energy of which is in a table.

    Attributes:
        calls: of `energy` so far.
        exact_K: where the heat capacity is highest.
    """

    def __init__(self) -> None:
        self.exact, (gold, _, self._orbit) = exact.Exact.load(), exact.orbits()
        self.configurations = torch.from_numpy(np.argsort(~gold, axis=1, kind="stable"))
        self.share = self.exact.size / self.exact.size.sum()
        self.exact_K = self.peak_K(self.exact.energy)
        self.table = torch.from_numpy(self.exact.energy[self._orbit].astype(np.float64))
        self.calls = 0

    def energy(self, atoms: Atoms) -> float:
        """eV, as the workflow's function gives it."""
        self.calls += 1
        return float(self.exact.energy[self._orbit[exact.rank(np.flatnonzero(atoms.symbols == "Au"))]])

    def energies(self, configurations: Tensor) -> Tensor:
        """(W,) eV of configurations (W, N)."""
        self.calls += len(configurations)
        return self.table[torch.from_numpy(exact.rank(configurations[:, : exact.GOLD].sort(1)[0].numpy()))]

    def peak_K(self, energies: np.ndarray) -> float:
        """Where the heat capacity is highest if the orbits have these energies (n,), eV."""
        capacity, _ = thermodynamics.moments(self.share[None], energies, thermodynamics.TEMPERATURES_K)
        return float(thermodynamics.peak(capacity)[0])


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.surrogate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=8, help="how many")
    parser.add_argument("--first", type=int, default=0, help="of the seeds")
    parser.add_argument(
        "--measure", type=int, default=order.Order.model_fields["measure"].default, help="steps to count configurations"
    )
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen = parser.parse_args(list(arguments))
    known = Known()
    found: dict[str, Any] = {"exact_K": rounded(known.exact_K), "device": str(best()), "seeds": chosen.seeds}
    found["surrogate_steps_per_s"] = rounded(rate(known))
    for calls in DIRECT:
        found[f"direct, {calls:,}"] = direct(known, calls, chosen.seeds)
    for kind, clusters in KINDS.items():
        lattice = Lattice(bulk("Cu", "fcc", a=3.72, cubic=True).repeat(exact.CELLS), "Au", exact.GOLD, **clusters)
        runs = []
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            runs.append(campaign(known, lattice, chosen.measure, seed))
            print(kind, seed, runs[-1], file=sys.stderr, flush=True)
        for number, audited_ in enumerate(CHECKED):
            row = summary([run[number] for run in runs], known.exact_K)
            found[f"{kind}, {2 * LEARN} + {audited_}"] = row
    print(json.dumps(found))


def campaign(known: Known, lattice: Lattice, measure: int, seed: int) -> list[dict[str, Any]]:
    """What the workflow does in rounds. Returns: of each number of audits what is known by then."""
    frames, model, found, before = list[dict[str, Any]](), None, list[dict[str, Any]](), known.calls

    def table() -> dict[str, np.ndarray]:
        return {name: np.array([frame[name] for frame in frames]) for name in frames[0]}

    def draw(until: int) -> None:
        while len(frames) < until:
            after = frames[-1] if frames else None
            frames.extend(audits(lattice, model, known.energy, seed=seed * 10**6 + len(frames), after=after))

    for calls in (LEARN, 2 * LEARN):
        draw(calls)
        model = Surrogate.fit(lattice, table(), last=model, measure=measure, seed=seed)
    assert model is not None
    alone = known.peak_K(model.said(lattice.correlations(known.configurations).numpy())[0])
    for each in CHECKED:
        draw(2 * LEARN + each)
        values = judged(model, table())
        assert saved(values).expensive == known.calls - before
        used = audited(values)
        inside = coverage(values)[-1]
        row = {
            "alone_K": alone, "residual_meV": 1e3 * (values["truth"] - values["said"])[used].std(),
            "covered": inside.held.sum(), "judged": len(inside.held),
        }  # fmt: skip
        try:
            answer = thermodynamics.transition(values)
            row |= {"K": float(answer.value), "low": float(answer.low), "high": float(answer.high)}
        except AuditsRefused as refused:
            row["refused"] = str(refused)
        found.append(row)
    return found


def summary(rows: Sequence[dict[str, Any]], exact_K: float) -> dict[str, Any]:
    """Of all seeds."""
    answers = [row for row in rows if "K" in row]
    found: dict[str, Any] = {
        "refused": len(rows) - len(answers),
        "residual_meV": rounded(float(np.mean([row["residual_meV"] for row in rows]))),
        "coverage": rounded(sum(row["covered"] for row in rows) / sum(row["judged"] for row in rows)),
        "error_alone_K": rounded(rms([row["alone_K"] - exact_K for row in rows])),
    }
    if answers:
        found |= {
            "error_K": rounded(rms([row["K"] - exact_K for row in answers])),
            "width_K": rounded(float(np.median([row["high"] - row["low"] for row in answers]))),
            "hold": sum(row["low"] <= exact_K <= row["high"] for row in answers),
        }
    return found


def direct(known: Known, calls: int, seeds: int, walkers: int = 64) -> dict[str, float]:
    """The same chain on the energies themselves."""
    lattice, away = order.lattice(exact.GOLD), []
    for seed in range(seeds):
        steps = calls // walkers
        found = density(
            lattice.random(walkers, seed), known.energies, lattice.swapped, width=0.01, learn=steps // 4,
            measure=steps - steps // 4, seed=seed,
        )  # fmt: skip
        raw = np.flatnonzero(np.diff(found.bins.number.numpy(), prepend=-1))
        middle = found.bins.low + (raw + 0.5) * found.bins.width
        capacity, _ = thermodynamics.moments(np.exp(found.ln_g)[None], middle, thermodynamics.TEMPERATURES_K)
        away.append(float(thermodynamics.peak(capacity)[0]) - known.exact_K)
    return {"error_K": rounded(rms(away))}


def rate(known: Known, seconds: float = 3.0) -> float:
    """Energies of the surrogate a second, on the device that is here."""
    lattice, device = order.lattice(exact.GOLD), best()
    states = lattice.random(65_536 if device.type != "cpu" else 512, 0).to(device)
    correlations = lattice.correlations(known.configurations[:200]).numpy()
    committee = Vectors.fit(correlations, known.exact.energy[:200, None], width=0, epochs=1)
    energy = energies(committee, lattice)

    def timed(steps: int) -> tuple[int, float]:
        began = time.perf_counter()
        found = density(states, energy, lattice.swapped, width=0.025, learn=steps, measure=steps, seed=0)
        return found.steps, time.perf_counter() - began

    steps, took = timed(16)
    steps, took = timed(max(16, int(16 * seconds / took)))
    return steps / took


def rms(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


if __name__ == "__main__":
    main(sys.argv[1:])
