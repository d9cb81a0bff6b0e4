"""Earlier runs of a benchmark, this run -> which figures got slower; a history is a file with a run a line.

What is compared follows from a figure's name: of `..._per_s` more is better; of `..._s`, `..._ms` and `..._us`, also
followed by `_per_...`, less is better. All others are kept and not compared.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

HIGHER_IS_BETTER, LOWER_IS_BETTER = re.compile(r"_per_s(_|$)"), re.compile(r"_(s|ms|us)(_per_|$)")
FEWEST, KEPT = 3, 20  # earlier runs that a figure is compared with
LEAST, NOISES = 1.25, 5.0  # times as slow, and deviations of the history, that are no noise
DEVIATION = 1.4826  # of numbers spread normally, over their median absolute deviation


@dataclass(frozen=True)
class Measurement:
    """What a run of a benchmark measured, and on which machine.

    Attributes:
        date: ISO 8601, UTC.
        options: of the benchmark.
        machine: its processor, how many, and its GPU; runs are compared on the same one.
        reference_s: seconds of a product of matrices in this run; None where nobody measured it.
        figures: what it measured, by name, the names of nested objects joined by dots.
    """

    date: str
    benchmark: str
    options: tuple[str, ...]
    machine: str
    host: str
    git_commit: str | None
    versions: dict[str, str | None]
    reference_s: float | None
    figures: dict[str, float]

    def like(self, other: Measurement) -> bool:
        """Whether the two may be compared: the same on the same machine, and in both or in neither a reference."""
        same = (self.benchmark, self.options, self.machine) == (other.benchmark, other.options, other.machine)
        return same and (self.reference_s is None) == (other.reference_s is None)


@dataclass(frozen=True)
class Slower:
    """A figure that got slower: how many times, the limit above which this is said, and the median before."""

    times: float
    limit: float
    now: float
    before: float


def figures_of(result: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Flatten a benchmark's JSON object: the finite numbers in it; lists are left out."""
    found: dict[str, float] = {}
    for name, value in result.items():
        if isinstance(value, Mapping):
            found |= figures_of(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[prefix + name] = float(value)
    return found


def read(path: Path) -> tuple[list[Measurement], list[str]]:
    """Read a history. Returns: its runs, and for each line that is none where it is and why; no file has no runs."""
    runs, damaged = [], []
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        try:
            runs.append(msgspec.json.decode(line, type=Measurement))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            damaged.append(f"{path}:{number}: {error}")
    return runs, damaged


def append(path: Path, run: Measurement) -> None:
    """Add a line, after a line that was cut off as well."""
    with path.open("ab+") as file:
        cut = file.seek(0, 2) > 0 and file.seek(-1, 2) >= 0 and file.read(1) != b"\n"
        file.write(b"\n" * cut + json.dumps(asdict(run)).encode() + b"\n")


def slower(run: Measurement, earlier: Sequence[Measurement]) -> dict[str, Slower]:
    """Find the figures that got slower than the median of the last runs like this one.

    A figure counts only where it is slower both as measured and over `reference_s`, so that neither a busy machine nor
    a disturbed reference makes one. Its limit is LEAST, or NOISES deviations of the earlier runs where these are more;
    the deviation is its own or the median of all figures', whichever is larger, since that of three runs is often small
    by chance.
    """
    earlier = [each for each in earlier if each.like(run)][-KEPT:]
    names = [name for name in run.figures if comparable(name, run, earlier)]
    if not names:
        return {}
    runs = (*earlier, run)
    costs = np.array([[direction(name) * math.log(each.figures[name]) for each in runs] for name in names])
    references = [each.reference_s or 1.0 for each in runs]  # all have one or none has
    found = [_excess(costs), _excess(costs - np.log(references))]
    shifts, limits = np.array(found).transpose(1, 2, 0)  # (names, as measured and over the reference), logarithms
    slower = {}
    for name, shift, limit in zip(names, shifts, limits, strict=True):
        if (shift > limit).all():
            before = float(np.median([each.figures[name] for each in earlier]))
            slower[name] = Slower(float(np.exp(shift.min())), float(np.exp(limit.max())), run.figures[name], before)
    return slower


def comparable(name: str, run: Measurement, earlier: Sequence[Measurement]) -> bool:
    """Whether a figure says how fast something is, and all these runs have it."""
    return (
        len(earlier) >= FEWEST
        and direction(name) != 0
        and all(each.figures.get(name, 0) > 0 for each in (run, *earlier))
    )


def direction(name: str) -> int:
    """1: less is better, -1: more is better, 0: neither can be told from the name."""
    return -1 if HIGHER_IS_BETTER.search(name) else 1 if LOWER_IS_BETTER.search(name) else 0


def _excess(costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How much slower each figure is in the last run than its median before, and its limit; (names,) each.

    Args:
        costs: (names, runs) logarithms of seconds.
    """
    before = np.median(costs[:, :-1], axis=1)
    deviations = DEVIATION * np.median(np.abs(costs[:, :-1] - before[:, None]), axis=1)
    noise = np.maximum(deviations, np.median(deviations))
    return costs[:, -1] - before, np.maximum(math.log(LEAST), NOISES * noise)
