"""A workflow that the caller has is what its file says, or it is refused."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from steersman import Params, budget
from steersman.stages import loading
from steersman.stages.outline import outline
from steersman.system.errors import BadInput

HELPER = """
STEP = 1.0
def step(): return STEP
class Walk:
    factor = 1
    def go(self, x): return x + self.factor * STEP
"""
FILE = """
import enum
import functools
import json
import logging
import random
from dataclasses import dataclass

import numpy as np
import outline_helper
from outline_helper import Walk, step

from steersman import Params, Workflow, budget
from steersman.steering import Novelty

class Kind(enum.Enum):
    ONE, TWO = 1, 2

@dataclass(frozen=True)
class Box:
    names: frozenset[str] = frozenset({"a", "b", "c", "d"})
    kind: Kind = Kind.ONE
    nothing: float = float("nan")

class P(Params):
    frames: int = 10
    names: set[str] = {"a", "b", "c", "d"}
    kind: Kind = Kind.TWO

LOG, RNG, UNUSED, STEPS = logging.getLogger(__name__), random.Random(), 1, 10
TABLE, BOX, OPTIONS = np.arange(4.0), Box(), {"a": [1, {"x", "y", "z"}]}
wf = Workflow("mine", P, stop=lambda p: budget(frames=p.frames))

@functools.lru_cache
def cached(i): return TABLE[i]

def scaled(by):
    def scale(x): return by * x
    return scale

twice = scaled(2)

@wf.simulate()
def simulate(p, start, out, first=0.0):
    LOG.info("%s", RNG.random())
    for i in range(STEPS):
        x = Walk().go(twice(first) + step() * outline_helper.STEP + cached(i % 4))
        out.append(time=float(i), x=x, n=len(OPTIONS), b=BOX.kind.value)

@wf.score
def score(p, model, frames): return {"x": frames["x"]}

@wf.metric
def metric(scores):
    from outline_helper import Walk as Other
    return Other().factor

@wf.task
def work(x, *, log=json): return x

wf.steer(Novelty("x"))

if __name__ == "__main__":
    from steersman.stages.outline import outline
    metric(None), cached(3), RNG.random()
    UNUSED = 7
    print(json.dumps(outline(wf)))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "outline_helper.py").write_text(HELPER)
    (tmp_path / "outline_mine.py").write_text(FILE)
    return tmp_path / "outline_mine.py"


@pytest.fixture
def mine(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The file as a script imports it."""
    monkeypatch.syspath_prepend(file.parent)
    yield importlib.import_module("outline_mine")
    for name in ("outline_mine", "outline_helper"):
        del sys.modules[name]


def driven(file: Path, seed: int = 1) -> dict[str, str]:
    """The outline that a process of its own sees."""
    code = f"from steersman.calls import driver; import json; from pathlib import Path; file = Path({str(file)!r})\n"
    code += "from steersman.stages import loading, outline\nprint(json.dumps(outline.outline(loading.load(file))))"
    return told([sys.executable, "-c", code], seed)


def told(command: list[str], seed: int) -> dict[str, str]:
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_what_nobody_changed_is_the_same_in_every_process(file: Path, mine: ModuleType) -> None:
    """As a script, imported, and as a driver loads it; whatever was called or is not used, as generators were."""
    mine.metric(None)
    mine.cached(2)
    vars(mine)["UNUSED"] = 2
    known = outline(mine.wf)
    assert known == driven(file, seed=2) == told([sys.executable, str(file)], seed=3)
    assert {each for each in known if each.startswith("global")} == {
        *(f"global {name}" for name in ("LOG", "RNG", "STEPS", "TABLE", "BOX", "OPTIONS", "Walk", "step", "twice")),
        *("global cached", "global budget", "global outline_helper"),
        *(f"global outline_helper.py: {name}" for name in ("STEP", "Walk")),
    }


def anew(mine: ModuleType) -> None:
    @mine.wf.simulate()  # type: ignore[untyped-decorator]
    def simulate(p: Any, start: Any, out: Any, first: float = 0.0) -> None:
        out.append(time=1.0)


def with_default(mine: ModuleType) -> None:
    mine.simulate.__defaults__ = (1.0,)


def other_params(mine: ModuleType) -> None:
    class P(Params):
        frames: int = 11

    mine.wf.params = P


def other_sign(mine: ModuleType) -> None:
    """All names and constants are those of the file."""
    made: dict[str, Any] = {}
    text = "def scaled(by):\n    def scale(x): return by - x\n    return scale"
    exec(compile(text, "a cell", "exec", dont_inherit=True), made)
    vars(mine)["twice"] = made["scaled"](2)


CHANGES: dict[str, Callable[[ModuleType], object]] = {
    "simulate": anew,
    "simulate ": with_default,
    "stop": lambda mine: setattr(mine.wf, "stop", lambda p: budget(frames=p.frames + 1)),
    "params": other_params,
    "task work": lambda mine: setattr(mine.work, "retries", 1),
    "global STEPS": lambda mine: setattr(mine, "STEPS", 11),
    "global STEPS ": lambda mine: delattr(mine, "STEPS"),
    "global TABLE": lambda mine: mine.TABLE.__setitem__(0, 1.0),
    "global TABLE ": lambda mine: setattr(mine, "TABLE", mine.TABLE.astype(np.float32)),
    "global OPTIONS": lambda mine: mine.OPTIONS["a"][1].add("w"),
    "global BOX": lambda mine: setattr(mine, "BOX", mine.Box(kind=mine.Kind.TWO)),
    "global BOX ": lambda mine: setattr(mine.Box, "kind", mine.Kind.TWO),
    "global twice": lambda mine: setattr(mine, "twice", mine.scaled(3)),
    "global twice ": other_sign,
    "global cached": lambda mine: setattr(mine, "cached", lambda i: 0.0),
    "global step": lambda mine: setattr(mine, "step", lambda: 2.0),
    "global outline_helper.py: STEP": lambda mine: setattr(mine.outline_helper, "STEP", 2.0),
    "global Walk": lambda mine: setattr(mine.Walk, "factor", 2),
}


@pytest.mark.parametrize("part", CHANGES)
def test_what_the_caller_changed_is_refused(part: str, file: Path, mine: ModuleType) -> None:
    before = outline(mine.wf)
    loading.expect(file, mine.wf, before)
    CHANGES[part](mine)
    with pytest.raises(BadInput, match=f"the {part.strip()} of"):
        loading.expect(file, mine.wf, before)
