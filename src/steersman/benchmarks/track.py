"""Did a benchmark get slower here? `steersman bench track NAME --json` runs it and prints one JSON object.

The run becomes a line of a history: its figures with date, commit, machine, versions, and what a product of matrices
took before and after it. It is compared, figure by figure, with the median of the last 20 runs with the same options on
the same machine, as soon as there are 3. A figure's name says what is compared: of ..._per_s more is better, of
..._s, ..._ms and ..._us less is better, all others are only kept.

A figure is slower when it is, by more than its limit, both as measured and over the product of matrices: so neither a
busy machine nor a disturbed product alone makes one. The limit follows the noise of the history: 5 deviations, by
medians, at least 25 %. When a figure is slower the benchmark is run once more, and only what is slower in both runs is
`slower`, with how many times and its limit. Then the exit code is 1. Options that are not listed here, after the name,
go to the benchmark.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from steersman.benchmarks.history import Measurement, Slower, append, figures_of, read, slower
from steersman.benchmarks.three_figures import rounded
from steersman.benchmarks.train import MATRIX, say, timed
from steersman.cli.shipped import BENCHMARKS
from steersman.journal.run_directory import environment
from steersman.models import device
from steersman.system.errors import BadInput, UnknownName
from steersman.system.files import text_of

PRODUCTS = 10  # before the benchmark, and after it


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="steersman bench track", description=__doc__, allow_abbrev=False)
    parser.add_argument("name", help="of a benchmark")
    parser.add_argument("--history", metavar="FILE", type=Path, default=Path("bench-history.jsonl"))
    parser.add_argument("--from", metavar="FILE", type=Path, dest="result", help="what the benchmark printed earlier")
    parser.add_argument("--json", action="store_true", help="the only format there is")
    chosen, options = parser.parse_known_args(list(arguments))
    if chosen.name not in BENCHMARKS or chosen.name == "track":
        raise UnknownName("benchmark", chosen.name, BENCHMARKS.keys() - {"track"})
    take = partial(measured, chosen.name, options) if chosen.result is None else partial(printed, chosen.result)
    earlier, damaged = read(chosen.history)
    for line in damaged:
        say(f"{line}; this line is left out")

    def once() -> Measurement:
        result, reference_s = take()
        run = described(chosen.name, options, result, reference_s)
        append(chosen.history, run)
        return run

    run = once()
    found = slower(run, earlier)
    if found and chosen.result is None:
        say("slower, so once more: " + ", ".join(found))
        again = slower(once(), earlier)
        found = {name: each for name, each in found.items() if name in again}
    for name, each in found.items():
        say(f"{name}: {each.times:.2f} times as slow as the median before (limit {each.limit:.2f})")
    print(json.dumps(report(run, earlier, found)))
    if found:
        sys.exit(1)


def measured(name: str, options: Sequence[str]) -> tuple[dict[str, Any], float]:
    """Run a benchmark in this process. Returns: what it printed, and seconds of a product in the same minutes."""
    torch.set_num_threads(1)
    before, caught = products_s(), io.StringIO()
    with contextlib.redirect_stdout(caught):
        import_module(f"steersman.benchmarks.{BENCHMARKS[name]}").main(options)
    torch.set_num_threads(1)
    return json.loads(caught.getvalue()), float(np.median(before + products_s()))


def printed(path: Path) -> tuple[dict[str, Any], None]:
    """Read what a benchmark printed; no product was measured in the same run."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}; --from takes what `steersman bench NAME --json` printed") from error
    if not isinstance(found, dict):
        raise BadInput(f"{path}: no JSON object; --from takes what `steersman bench NAME --json` printed")
    return found, None


def products_s() -> list[float]:
    """Seconds that each product of two square float32 matrices takes, by wall time as most figures."""
    matrix = torch.randn(MATRIX[device.best().type], MATRIX[device.best().type], device=device.best())
    timed(lambda: matrix @ matrix)
    return [timed(lambda: matrix @ matrix) for _ in range(PRODUCTS)]


def described(name: str, options: Sequence[str], result: dict[str, Any], reference_s: float | None) -> Measurement:
    """Add where, when and with what a benchmark ran."""
    here = environment()
    return Measurement(
        date=datetime.now(UTC).isoformat(timespec="seconds"), benchmark=name, options=tuple(options),
        machine=machine(), host=here["host"], git_commit=here["git_commit"],
        versions={"python": here["python"]} | here["packages"], reference_s=reference_s, figures=figures_of(result),
    )  # fmt: skip


def machine() -> str:
    """Kind and number of processors, and the GPU: the same for nodes that are built alike."""
    model = re.search(r"^model name\s*: (.*)$", text_of(Path("/proc/cpuinfo")), re.MULTILINE)
    here = [f"{os.cpu_count()} x {model[1] if model else platform.machine()}"]
    if device.best().type != "cpu":
        here.append(torch.get_device_module(device.best()).get_device_name())
    return ", ".join(here)


def report(run: Measurement, earlier: Sequence[Measurement], found: dict[str, Slower]) -> dict[str, Any]:
    """What is printed."""
    figures = {name: {key: rounded(value) for key, value in asdict(each).items()} for name, each in found.items()}
    return {
        "benchmark": run.benchmark,
        "machine": run.machine,
        "earlier": sum(run.like(each) for each in earlier),
        "reference_s": run.reference_s and rounded(run.reference_s),
        "slower": figures,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
