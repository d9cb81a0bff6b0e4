"""A package outside of the tree that adds one part of each kind, and some that cannot be used."""

from __future__ import annotations

from pathlib import Path

PARTS = """
from dataclasses import dataclass
import torch
from steersman.models import Model
from steersman.steering import Policy, ScoreName, SegmentRule

@dataclass(frozen=True)
class Newest(Policy):
    score: ScoreName

    def rank(self, scores, rng):
        return self.candidates(scores, scores.row.argsort()[::-1], scores.row, "row {value:.0f}")

class Never(SegmentRule):
    def reason(self, scores, rows):
        return None

def greet(name: str, times: int = 1):
    'Greet somebody.'
    print("Hello", name, times)

class Constant(Model):
    def __init__(self):
        super().__init__()
        self.value = torch.nn.Parameter(torch.ones(1))
"""
SCHEDULERS = """
from pathlib import Path
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.schedulers.slurm import Slurm

class Oar(Slurm):
    TITLE, WITHIN, IN_JOB = "OAR", True, "OAR_JOB_ID"
    project: str = ""

class Half(Scheduler):
    TITLE = "Half"
"""
RAISES = "raise RuntimeError('two\\nlines')"
VIEW = "def answer(watched):\n    return {'walkers': len(watched.history.state.walkers)}"
SCRIPT = """
import { card, fill } from "steersman/dom.js";
export default class {
  place = 35;
  constructor(source) {
    this.source = source;
    this.node = card("crew", "Who walks?");
  }
  async update() {
    const { walkers } = await this.source.values("crew", {});
    fill(this.node, `${walkers} walkers`);
  }
}
"""
GROUPS = {
    "views": {"crew": "outside.crew", "fails": "outside.fails", "plain": "outside.parts"},
    "commands": {"greet": "outside.parts:greet"},
    "policies": {"Newest": "outside.parts:Newest", "Never": "outside.parts:Never"},
    "models": {"Constant": "outside.parts:Constant"},
    "schedulers": {
        "oar": "outside.schedulers:Oar",
        "half": "outside.schedulers:Half",
        "other": "outside.schedulers:Path",
        "number": "math:pi",
        "gone": "outside.schedulers:Gone",
    },
}
# Names of ours, or none at all.
TAKEN = {
    "views": ["failures"],
    "commands": ["run"],
    "policies": ["Novelty"],
    "models": ["PCA"],
    "schedulers": ["slurm", "__base__", "model_config"],
}


def installed(folder: Path) -> Path:
    """Install it in a folder, for PYTHONPATH; some of its parts raise or exit when they are imported, or take names."""
    files = {"__init__": "", "parts": PARTS, "raises": RAISES, "exits": "raise SystemExit(0)", "loud": "print(1)"}
    files |= {"schedulers": SCHEDULERS, "crew": VIEW, "fails": "def answer(watched):\n    return 1 / 0"}
    (folder / "outside").mkdir()
    for name, text in files.items():
        (folder / "outside" / f"{name}.py").write_text(text)
    for name in "crew", "fails":
        (folder / "outside" / f"{name}.js").write_text(SCRIPT.replace("crew", name))
    (folder / "outside-1.dist-info").mkdir()
    (folder / "outside-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1\n")
    lines = []
    for group, taken in TAKEN.items():
        bad = {"raises": "outside.raises:Part", "exits": "outside.exits:Part"} | dict.fromkeys(
            taken, "outside.loud:Part"
        )
        lines += [f"[steersman.{group}]", *(f"{name} = {part}" for name, part in (GROUPS[group] | bad).items())]
    (folder / "outside-1.dist-info" / "entry_points.txt").write_text("\n".join(lines))
    return folder
