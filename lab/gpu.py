"""A GPU day in eight minutes: everything that a GPU is for, once, part by part, the most important first.

    python -m lab.gpu [--parts loop,bias] [--seconds 45] [--out runs/gpu] [--keep]

Each part is a process of its own, which writes PART.json after each row: what was measured, and what was skipped and
why. A row begins while the part has time left, and a part that takes a third longer is ended. What is there already is
not measured again, so a second call goes on where the first was stopped. Without a GPU the sizes are tiny, and figures
mean nothing. `--keep` writes the rows of a GPU into docs/figures/gpu.json, of which `python docs/tables.py` makes the
table of docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from steersman.apps import molecular_dynamics as md
from steersman.apps.molecular_dynamics.context import Settings, SimulationContext
from steersman.benchmarks import bias, loop, network_table, shallow_water, shallow_water_gpu
from steersman.benchmarks.three_figures import rounded
from steersman.benchmarks.train import peak
from steersman.engine import campaign
from steersman.models import SphericalUNet, device
from steersman.store import Span, Window
from steersman.system.errors import UnknownName
from steersman.system.files import replace_file

KEPT = Path(__file__).parents[1] / "docs" / "figures" / "gpu.json"
OVER = 4 / 3  # so much longer a part may take until it is ended
STEPS, CHIGNOLIN = 250, "YYDPETGTWY"
ENDS_S = 15.0  # a campaign that is to end
GPU = device.best().type != "cpu"

Figures = Mapping[str, Any]
Row = Callable[[float], Figures]  # (seconds that it should take at most) -> what was measured


def bare(within_s: float) -> Figures:
    """Steps of one walker without the loop; what a segment costs to begin, and whether it is a function of its seed."""
    molecule = md.build_peptide(CHIGNOLIN if GPU else "AYG")
    context = SimulationContext(molecule, Settings(300.0))

    def path(seed: int) -> tuple[float, np.ndarray]:
        began = time.perf_counter()
        context.begin(molecule.positions, None, seed)
        begun_s = time.perf_counter() - began
        context.step(STEPS)
        return begun_s, context.read().positions

    first, other, again = path(1), path(2), path(1)
    quick, context.noise.quick = context.noise.quick, False
    anew_s, _ = path(1)
    context.noise.quick = quick
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < within_s / 3:
        context.step(STEPS)
        context.read()
        steps += STEPS
    rate = steps / (time.perf_counter() - began)
    return {
        "platform": context.platform, "atoms": molecule.atoms, "steps_per_s": rounded(rate),
        "begin_ms": rounded(1e3 * again[0]), "reinitialize_ms": rounded(1e3 * anew_s), "without_reinitialize": quick,
        "same_seed_same_bits": bool(np.array_equal(first[1], again[1])),
        "other_seed_other_bits": not np.array_equal(first[1], other[1]),
    }  # fmt: skip


def walkers(count: int, mps: bool, within_s: float) -> Figures:
    """Steps of all walkers of one GPU through the loop, with training, scoring and steering beside them."""
    if mps and not shutil.which("nvidia-cuda-mps-control"):
        raise FileNotFoundError("nvidia-cuda-mps-control is not on PATH")
    with TemporaryDirectory(prefix="steersman-gpu-") as folder:
        plan = campaign.plan(
            str(loop.WORKFLOW), assignments=[f"hours={within_s / 3600:.4f}"], seed=1, site=str(site(folder, count, mps))
        )
        run = campaign.begin(plan, run_dir=Path(folder) / "loop")
        state = run.execute()
        frames = run.directory.frames
        ends = [Window(frames, [Span(name, 0, frames.count(name))]) for name in frames.walkers()]
        seconds = max(each["made"][-1] for each in ends) - min(each["stepping"][0] for each in ends)
        steps = 50 * sum(len(each["made"]) for each in ends)  # a frame each 0.2 ps of 4 fs
        gaps = np.concatenate([loop.gaps_of(run.directory, name)[0] for name in frames.walkers()])
    return {
        "steps_per_s": rounded(steps / seconds), "refill_ms": rounded(1e3 * float(np.median(gaps))),
        "segments": state.ended.total(), "failed": state.ended["failed"], "models": len(state.models),
    }  # fmt: skip


def site(folder: str, count: int, mps: bool = False) -> Path:
    """A site file of this machine: so many walkers on one GPU, and training and scoring there, too."""
    path, gpus = Path(folder) / "gpu.yaml", int(GPU)
    shares = f"mps: {json.dumps(mps)}" if GPU else "mps: false"
    path.write_text(
        f"simulation: {{workers: {count}, gpus: {gpus}, {shares}}}\ntraining: {{workers: 2, gpus: {gpus}}}\n"
        f"labelling: {{workers: 1, gpus: {gpus}}}\n"
    )
    return path


def biased(sequence: str, within_s: float) -> Figures:
    """A DeepTICA-like bias in OpenMM: a step with it over one without, by wall time."""
    return bias.steps(sequence, len(sequence) == 1, None, 9 if GPU else 1, clock=time.perf_counter)


def run(name: str, count: int, changes: Figures, within_s: float) -> Figures:
    """A shipped workflow, for so long; then what `status` says of it."""
    with TemporaryDirectory(prefix="steersman-gpu-") as folder:
        told = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
        command = [
            sys.executable,
            "-m",
            "steersman.cli",
            "run",
            name,
            "--seed",
            "1",
            "--site",
            str(site(folder, count)),
        ]
        began = subprocess.Popen([*command, *told, "--run-dir", "run"], cwd=folder, stdout=2, start_new_session=True)
        try:
            began.wait(within_s)
        except subprocess.TimeoutExpired:
            began.send_signal(signal.SIGINT)
            try:
                began.wait(ENDS_S)
            except subprocess.TimeoutExpired:
                os.killpg(began.pid, signal.SIGKILL)
        asked = [sys.executable, "-m", "steersman.cli", "status", "run", "--json"]
        said = json.loads(subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True).stdout)
    known = ("frames", "segments", "labels", "simulated", "hours", "outcome")
    return {key: said[key] for key in known if key in said} | {"models": len(said["models"])}


def flow(truncation: int, members: int, dtype: torch.dtype, within_s: float) -> Figures:
    """Wall time of a simulated day, kernel by kernel and as a CUDA graph."""
    made = shallow_water.solver("galewsky", truncation, dtype=dtype, device=device.best().type)
    if not GPU:
        return {"ms_per_step": rounded(1e3 * shallow_water_gpu.seconds(made[0].step, made[1]))}
    return shallow_water_gpu.row(*made, members)


def trained(name: str, precision: str, within_s: float) -> Figures:
    """Samples per second of a network, computing alone and with input from a store."""
    found = network_table.measured(NETWORKS[name], {precision: peak(device.best(), precision)})
    return {"measured_at": found["measured_at"], "batch": found["batch"], **found[network_table.label(precision)]}


def unet(shape: tuple[int, ...]) -> SphericalUNet:
    return SphericalUNet(shape[0], shape[1])


NETWORKS = network_table.ROWS | {
    "unet": network_table.Row(unet, (3, 128, 256), (3, 16, 32), network_table.regressed, 16 if GPU else 1)
}
PRECISIONS = ("tf32", "bf16", "fp16") if GPU else ("fp32", "bf16")
TRAINED = ("cvae_deepex", "resnet50_imagenet", "deeplab", "unet") if GPU else ("cvae_deepex", "unet")
FLOWS = ((42, 1), (42, 64), (85, 1), (85, 64), (170, 8)) if GPU else ((10, 1),)  # truncation, members
COUNTS, WIDE = ((1, 8), (4, 2)) if GPU else ((1,), (2,)), 8 if GPU else 2
PARTS: dict[str, dict[str, Row]] = {
    "steps": {"chignolin": bare},
    "loop": {f"{n} walkers": partial(walkers, n, False) for n in COUNTS[0]},
    "sharing": {f"{WIDE} walkers, MPS": partial(walkers, WIDE, True),
                **{f"{n} walkers": partial(walkers, n, False) for n in COUNTS[1]}},
    "fold": {"chignolin": partial(run, "fold", WIDE // 2, {"sequence": CHIGNOLIN, "train_every": 1000})},
    "bias": {"chignolin": partial(biased, CHIGNOLIN), "alanine": partial(biased, "A")},
    "water": {f"T{t}, {m} members, {str(dtype)[6:]}": partial(flow, t, m, dtype)
              for t, m in FLOWS for dtype in (torch.float32, torch.float64)},
    "train": {f"{name}, {precision}": partial(trained, name, precision)
              for name in TRAINED for precision in PRECISIONS},
    "flows": {"shallow_water": partial(run, "shallow_water", WIDE // 2, {"train_every": 20}),
              "gales": partial(run, "gales", 1, {})},
    "labels": {"force_field": partial(run, "force_field", WIDE // 2, {"cost_s": 0})},
}  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.gpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="names, with commas")
    parser.add_argument("--seconds", type=float, default=45.0, help="of a part")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu"), help="folder of the results")
    parser.add_argument("--keep", action="store_true", help="write them into docs/figures/gpu.json")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    names = given.parts.split(",")
    for name in names:
        if name not in PARTS:
            raise UnknownName("part", name, PARTS)
    for name in names:
        (measure if given.inside else bounded)(name, given.out / f"{name}.json", given.seconds)
    if given.keep:
        keep(given.out)


def bounded(name: str, file: Path, seconds: float) -> None:
    """Measure a part in a process that is ended when it takes too long."""
    command = [sys.executable, "-m", "lab.gpu", "--inside", "--parts", name, "--seconds", f"{seconds}"]
    print(f"{name}: {seconds:.0f} s at most", file=sys.stderr, flush=True)
    part = subprocess.Popen([*command, "--out", str(file.parent)], start_new_session=True)
    try:
        ended = f"exit code {part.wait(OVER * seconds + ENDS_S)}"
    except subprocess.TimeoutExpired:
        ended = f"ended, for the part took longer than {OVER * seconds + ENDS_S:.0f} s"
    finally:
        if part.poll() is None:
            os.killpg(part.pid, signal.SIGKILL)
            part.wait()
    known = read(file)
    if running := known.pop("running", ""):
        known["skipped"][running] = ended
        write(file, known)
    print(json.dumps({name: known}), flush=True)


def measure(name: str, file: Path, seconds: float) -> None:
    """Measure the rows of a part that are not known yet, as far as there is time."""
    known, ends = read(file), time.monotonic() + seconds
    gpus = torch.get_device_module(device.best())
    known["device"], known["skipped"] = str(gpus.get_device_name()) if GPU else "cpu", {}
    left = [row for row in PARTS[name] if row not in known["rows"]]
    for number, row in enumerate(left):
        within_s = (ends - time.monotonic()) / (len(left) - number)
        if within_s <= 0:
            known["skipped"][row] = f"no time was left of {seconds:.0f} s"
            continue
        write(file, known | {"running": row})
        try:
            known["rows"][row] = dict(PARTS[name][row](within_s))
        except Exception as error:  # whatever a machine lacks: the other rows go on
            known["skipped"][row] = f"{type(error).__name__}: {error}"[:500]
    write(file, known)


def read(file: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return {"device": "", "rows": {}, "skipped": {}} | known


def write(file: Path, known: Figures) -> None:
    replace_file(file, json.dumps(known, indent=1))


def keep(out: Path) -> None:
    """Add what was measured on a GPU to what the docs show."""
    shown = json.loads(KEPT.read_text())
    for name, part in shown.items():
        found = read(out / f"{name}.json")
        if found["rows"] and found["device"] and GPU:
            part |= {row: figures | {"device": found["device"]} for row, figures in found["rows"].items()}
    write(KEPT, shown)


if __name__ == "__main__":
    main()
