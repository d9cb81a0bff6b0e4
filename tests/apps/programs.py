"""What tests of programs share: the plate of examples/solvers, a compiler, and the frames of a program."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from steersman import Out, Params, Start
from steersman.apps.program import program

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "solvers"
NX, NY, STEPS, FRAMES = 12, 16, 10, 6
EXACT = "-O2", "-ffp-contract=off"  # sums as Python makes them
WAIT_S = 60.0


class Plate(Params):
    spark: float = 0.75
    frames_each: int = FRAMES
    name: str = "plate"
    many: int = 2**40


def tool(name: str) -> str:
    """A compiler, or mpiexec, which may lie beside this Python."""
    there = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    return there or pytest.skip(f"there is no {name}")


def frames(
    words: list[str], start: Start | None = None, out: Out | None = None, answers: Any = None, **options: Any
) -> list[dict[str, Any]]:
    out = out or Out(seed=5, frames=1000, seconds=1000)
    out.workflow = SimpleNamespace(answers=answers or {})
    return list(program(words, start or Start(params=Plate()), out, **options))
