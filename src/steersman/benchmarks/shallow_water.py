"""Shallow water: how fast and how exact.

    python -m steersman.benchmarks.shallow_water --json
    python -m steersman.benchmarks.shallow_water --table  # cases 5, 6 and the jet against T170: 10 minutes

One thread. Speeds are CPU seconds in turns with what they are compared with, so that a busy machine slows both alike;
a ratio is the median over the turns. In each turn everything is done twice: "warm" is the second time, when what it
needs is in the cache, as in a run that has the processor to itself; all else is the first, as on a shared one.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch

from steersman.apps.shallow_water import ShallowWater, default_step
from steersman.apps.shallow_water import cases as cases
from steersman.apps.shallow_water.cases import DAY, GRAVITY, Case
from steersman.benchmarks import shallow_water_gpu
from steersman.benchmarks.three_figures import rounded
from steersman.models import device
from steersman.models.sphere.harmonics import SphericalHarmonics
from steersman.models.sphere.packed import GridProducts, Packing

DIFFUSION_HOURS = 28.0  # for the smallest waves of every truncation: at T42 the 5e15 m4/s of NCAR's own case 6
OUR_STEP_S = 102_000.0  # times truncation: 1200 s at T85, stable for this jet
COARSE, REFERENCE = 42, 106
TRUNCATIONS = (42, 63, 85, 106)
TABLE = {"mountain": (15.0,), "rossby_haurwitz": (7.0,), "galewsky": (4.0, 6.0)}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print one JSON object."""
    given = arguments().parse_args(argv)
    torch.set_num_threads(1)
    if given.table:
        print(json.dumps(table(given.reference or 170)))
        return
    reference = given.reference or REFERENCE
    stages: dict[str, Callable[[], dict[str, Any]]] = {
        "speed": lambda: speed(given.truncation, given.turns),
        "limit": lambda: limit(given.truncation, given.turns),
        "case 2": lambda: {"case2_l2": max(steady_error(alpha) for alpha in (0.0, np.pi / 2 - 0.05))},
        "case 5": lambda: {"case5_l2_day15": errors("mountain", (15.0,), [COARSE], reference)[0]["l2"]},
        "GPU": on_gpu,
    }
    measured: dict[str, Any] = {}
    for name, measure in stages.items():
        print(name, file=sys.stderr, flush=True)
        measured |= measure()
    print(json.dumps({**measured, "truncation": given.truncation, "torch": torch.__version__}))


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="steersman bench shallow-water", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="the output is always one JSON object")
    parser.add_argument("--table", action="store_true", help="the convergence of every case instead")
    parser.add_argument("--truncation", type=int, default=85, help="of the speeds")
    parser.add_argument("--reference", type=int, help=f"truncation of the truth; T{REFERENCE}, and T170 for the table")
    parser.add_argument("--turns", type=int, default=15)
    return parser


def speed(truncation: int, turns: int) -> dict[str, Any]:
    """CPU seconds for a simulated day in float64, of a batch of 8, and of the way over the grid."""
    made = functools.partial(solver, "galewsky", truncation, step_s=OUR_STEP_S / truncation)
    # A solver for each number of members, as in a run: one keeps memory for one number at a time.
    (model, state), (of_8, one_of_8) = made(), made()
    (single, single_state), (single_of_8, single_one_of_8) = made(torch.float32), made(torch.float32)
    batch, single_batch = (each.repeat_interleave(8, dim=2) for each in (one_of_8, single_one_of_8))
    packing, ones = Packing(model.sphere), np.ones(model.sphere.rows // 2)
    there_and_back = GridProducts(model.sphere, packing, fields=4, products=5, members=1, factor=ones)
    steps_a_day = DAY / model.step_s
    tried: dict[str, Callable[[], object]] = {
        "ours": lambda: model.step(state),
        "batch": lambda: of_8.step(batch),
        "transforms": lambda: there_and_back(lambda fields, products: None),
        "ours, float32": lambda: single.step(single_state),
        "batch, float32": lambda: single_of_8.step(single_batch),
    }
    twice = in_turns(tried, turns)
    seconds = {name: taken[:, 0] for name, taken in twice.items()}
    one, warm = seconds["ours"], {name: taken[:, 1] for name, taken in twice.items()}
    return {
        "seconds_per_day": rounded(median(one) * steps_a_day),
        "batch8_ratio": rounded(median(seconds["batch"] / 8 / one)),
        "batch8_ratio_float32": rounded(median(seconds["batch, float32"] / 8 / seconds["ours, float32"])),
        "seconds_per_day_warm": rounded(median(warm["ours"]) * steps_a_day),
        "batch8_ratio_warm": rounded(median(warm["batch"] / 8 / warm["ours"])),
        "batch8_ratio_float32_warm": rounded(median(warm["batch, float32"] / 8 / warm["ours, float32"])),
        "transform_share": rounded(median(4 * warm["transforms"] / warm["ours"])),
        "step_s": model.step_s,
    }


def limit(truncation: int, turns: int) -> dict[str, Any]:
    """Time of one evaluation (a quarter of a step) in float32 over what arithmetic and traffic need at least.

    The limit is the sum of: Legendre products of 9 fields at the speed of a large matrix product; FFTs of 9 contiguous
    fields; and every number read and written once (grid and Fourier coefficients of 9 fields, tables of Legendre
    functions, state), at the speed of a copy. All of them measured in turns with the step. A batch has the tables in
    common, and nothing else: a member of 8 at the limit, over one at the limit, is `batch8_limit_ratio`.
    """
    model, state = solver("galewsky", truncation, torch.float32)
    sphere = model.sphere
    square, field = torch.randn(768, 768), torch.randn(9, sphere.rows, sphere.columns)
    source = torch.randn(16 * 2**20)
    target = torch.empty_like(source)
    tried = {
        "step": lambda: model.step(state),
        "product": lambda: square @ square,
        "transforms": lambda: torch.fft.rfft(field),
        "copy": lambda: target.copy_(source),
    }
    twice = in_turns(tried, turns)
    seconds = {name: taken[:, 0] for name, taken in twice.items()}
    coefficients = (sphere.truncation + 1) * (sphere.truncation + 2) / 2
    flops = 9 * 2 * 2 * coefficients * sphere.rows / 2
    tables = 4 * coefficients * sphere.rows
    traffic = tables + 4 * (2 * 9 * sphere.rows * (sphere.columns + 2 * sphere.orders) + 12 * coefficients)
    seconds_a_byte = seconds["copy"] / (8 * 16 * 2**20)
    least = flops * seconds["product"] / (2 * 768**3) + seconds["transforms"] + traffic * seconds_a_byte
    least_of_8 = least - 7 / 8 * tables * seconds_a_byte
    return {
        "limit_ratio": rounded(median(seconds["step"] / 4 / least)),
        "limit_ratio_warm": rounded(median(twice["step"][:, 1] / 4 / least)),
        "batch8_limit_ratio": rounded(median(least_of_8 / least)),
        "limit_ms": rounded(1e3 * median(least)),
        "evaluation_ms": rounded(1e3 * median(seconds["step"] / 4)),
    }


def on_gpu() -> dict[str, Any]:
    """What this machine's GPU takes, in float32; an empty table where there is none."""
    here = device.best()
    made = functools.partial(solver, "galewsky", dtype=torch.float32, device=here.type)
    return {"gpu": [] if here.type == "cpu" else shallow_water_gpu.table(made)}


def steady_error(alpha: float, truncation: int = COARSE) -> float:
    """l2 error of depth of Williamson's case 2 at day 5, float64."""
    sphere = SphericalHarmonics(truncation)
    case = cases.zonal_flow(*on_grid(sphere), alpha=alpha)
    model = ShallowWater(sphere, case, step_s=default_step(truncation))
    state = model.spectral(case)
    for _ in range(round(5 * DAY / model.step_s)):
        state = model.step(state)
    return norms(model.fields(state)[0][0].numpy(), case.depth, sphere)["l2"]


def table(reference: int) -> dict[str, Any]:
    """Errors of height and vorticity at T42, T63, T85 and T106, as far as they are coarser than the reference."""
    rows, coarser = [], [truncation for truncation in TRUNCATIONS if truncation < reference]
    for case, days in TABLE.items():
        print(case, file=sys.stderr, flush=True)
        rows += errors(case, days, coarser, reference)
    return {"reference": reference, "rows": rows}


def errors(case: str, days: Sequence[float], truncations: Sequence[int], reference: int) -> list[dict[str, Any]]:
    """Errors against a finer run, on the grid of the finer one.

    Returns: rows with l1, l2 and linf of the height of the free surface, and l2 of vorticity.
    """
    sphere = SphericalHarmonics(reference)
    truth = heights_and_vorticity(case, days, reference, sphere)
    rows = []
    for truncation in truncations:
        found = heights_and_vorticity(case, days, truncation, sphere)
        for day, (height, vorticity), (true_height, true_vorticity) in zip(days, found, truth, strict=True):
            row = {"case": case, "day": day, "truncation": truncation, **norms(height, true_height, sphere)}
            rows.append(row | {"vorticity_l2": norms(vorticity, true_vorticity, sphere)["l2"]})
            print(row, file=sys.stderr, flush=True)
    return rows


def heights_and_vorticity(
    case: str, days: Sequence[float], truncation: int, finer: SphericalHarmonics
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Run a case; at each day give its height (m) and vorticity (1/s) on a finer grid, from its coefficients."""
    model, state = solver(case, truncation)
    found, step = [], 0
    for day in days:
        while step < round(day * DAY / model.step_s):
            state, step = model.step(state), step + 1
        coefficients = torch.stack([state[:, :, 2] + model.ground[:, :, 0], state[:, :, 0]], dim=2)
        orders, degrees = min(model.sphere.orders, finer.orders), min(model.sphere.degrees, finer.degrees)
        wide = torch.zeros(*finer.degree.shape, 2, dtype=torch.complex128)
        wide[:orders, :degrees] = coefficients[:orders, :degrees]
        height, vorticity = finer.synthesis(wide).numpy()
        found.append((height / GRAVITY, vorticity))
    return found


def norms(found: np.ndarray, truth: np.ndarray, sphere: SphericalHarmonics) -> dict[str, float]:
    """Errors of Williamson et al. (1992), eq. 82-84, relative."""
    weights = sphere.weights[:, None]
    wrong = np.abs(found - truth)
    return {
        "l1": float((wrong * weights).sum() / (np.abs(truth) * weights).sum()),
        "l2": float(np.sqrt((wrong**2 * weights).sum() / (truth**2 * weights).sum())),
        "linf": float(wrong.max() / np.abs(truth).max()),
    }


def solver(
    name: str,
    truncation: int,
    dtype: torch.dtype = torch.float64,
    step_s: float | None = None,
    device: str = "cpu",
) -> tuple[ShallowWater, torch.Tensor]:
    """A model with its case's beginning; the default step unless given."""
    sphere = SphericalHarmonics(truncation, dtype=dtype, device=device)
    case: Case = cases.named(name)(*on_grid(sphere))
    step_s = step_s or default_step(truncation)
    model = ShallowWater(sphere, case, step_s=step_s, diffusion_hours=DIFFUSION_HOURS)
    return model, model.spectral(case)


def in_turns(tried: dict[str, Callable[[], object]], turns: int) -> dict[str, np.ndarray]:
    """CPU seconds of each, twice in each turn, after a turn that does not count. Returns: (turns, 2) each."""
    seconds: dict[str, list[float]] = {name: [] for name in tried}
    for turn in range(turns + 1):
        for name, function in tried.items():
            for _ in range(2):
                begun = time.process_time()
                function()
                seconds[name] += [time.process_time() - begun] if turn else []
    return {name: np.array(taken).reshape(turns, 2) for name, taken in seconds.items()}


def on_grid(sphere: SphericalHarmonics) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes and longitudes of a grid."""
    lon, lat = np.meshgrid(sphere.longitudes, sphere.latitudes)
    return lat, lon


if __name__ == "__main__":
    main()
