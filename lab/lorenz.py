"""Does a network that a Fortran program asks pay? The climates of Lorenz 96 with and without its fast variables.

python -m lab.lorenz --program lorenz       # examples/solvers/lorenz.py says how to build it

For each seed a campaign of examples/solvers/lorenz.py trains networks: the first on frames of the full solver alone,
the last also on states to which networks led. Then each closure runs as long as the full solver: a JSON line for each.
mean, variance: of the slow variables. spectrum: root mean square of the logarithm of their spatial spectrum's ratio to
that of the full solver. autocorrelation: root mean square of the difference of theirs, up to a lag of 2 time units.
cpu_us: processor time of a slow step, of program and walker together.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import steersman
from examples.solvers import lorenz
from steersman import Out, Start, models
from steersman.apps.program import program

SPIN, EVERY, FRAMES, LAGS = 2000, 20, 500, 20  # slow steps, slow steps between frames, frames, frames
BANDS = 32
Answer = Callable[[Any, Any, Mapping[str, Any]], dict[str, Any]]


def none(p: Any, model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {"u": np.zeros_like(inputs["x"])}


def polynomial(x: np.ndarray, u: np.ndarray) -> Answer:
    """Of the fourth degree, of the slow variable itself, as Wilks (2005) fits it."""
    fitted = np.polyfit(x[:, lorenz.NEAR.index(0)], u[:, 0], 4)
    return lambda p, model, inputs: {"u": np.polyval(fitted, inputs["x"])}


def climate(given: dict[str, Any], seed: int, answer: Answer | None, model: Any = None) -> tuple[np.ndarray, float]:
    """(frames, places) of a long run, and processor time of a slow step in microseconds."""
    p = lorenz.Lorenz(**given, frames_each=FRAMES, coarse=0, spin=SPIN, every=EVERY, fast=answer is None)
    start, out = Start(params=p, load=lambda: model), Out(seed=seed, frames=2 * FRAMES, seconds=1e6)
    out.workflow, before = SimpleNamespace(answers={"closure": answer} if answer else {}), used_s()
    for frame in program([p.program], start, out):
        out.append(**frame)
    return np.asarray(out.stored["x"]), 1e6 * (used_s() - before) / (SPIN + FRAMES * EVERY)


def used_s() -> float:
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in each)


def spectrum(x: np.ndarray) -> np.ndarray:
    """By bands of wavenumbers: a single one moves slowly."""
    return np.asarray((np.abs(np.fft.rfft(x, axis=1)[:, 1:]) ** 2).mean(axis=0).reshape(BANDS, -1).mean(axis=1))


def autocorrelation(x: np.ndarray) -> np.ndarray:
    x = x - x.mean()
    return np.array([(x[: len(x) - lag] * x[lag:]).mean() / (x**2).mean() for lag in range(LAGS)])


def compared(x: np.ndarray, full: np.ndarray) -> dict[str, float]:
    ratio = np.log(spectrum(x) / spectrum(full))
    apart = autocorrelation(x) - autocorrelation(full)
    found = {"mean": x.mean(), "variance": x.var()}
    found |= {"spectrum": np.sqrt((ratio**2).mean()), "autocorrelation": np.sqrt((apart**2).mean())}
    return {name: round(float(value), 4) for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--h", type=float, default=0.5, help="how strongly slow and fast variables are coupled")
    chosen = parser.parse_args()
    given = {"program": str(Path(chosen.program).resolve()), "h": chosen.h}
    for seed in range(1, chosen.seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "run"
            steersman.run(Path(lorenz.__file__), run_dir=place, set=given, rounds=True, workers=1, seed=seed)
            versions = sorted((place / "models").glob("[0-9]*"))
            networks = [models.Model.load(each) for each in (versions[0], versions[-1])]
            first = steersman.open_run(place).dataset().isel(frame=slice(0, 100)).load()
        closures: dict[str, tuple[Answer | None, Any]] = {
            "full": (None, None), "full, another seed": (None, None), "none": (none, None),
            "polynomial": (polynomial(*lorenz.pairs({name: first[name].values for name in ("x", "u")})), None),
            "network, first": (lorenz.closure, networks[0]), "network, last": (lorenz.closure, networks[1]),
        }  # fmt: skip
        full: np.ndarray | None = None
        for number, (name, (answer, model)) in enumerate(closures.items()):
            x, cpu_us = climate(given, 100 * seed + number, answer, model)
            full = x if full is None else full
            print(
                json.dumps(
                    {"h": chosen.h, "seed": seed, "closure": name, **compared(x, full), "cpu_us": round(cpu_us, 1)}
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
