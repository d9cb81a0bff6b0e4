"""Frames that are damaged, whatever in them: commands that read them say so in a line, with exit code 6."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from steersman.cli.__main__ import main
from steersman.data.results import Results
from steersman.data.verify import verify
from steersman.journal.run_directory import RunDirectory
from steersman.store import merge
from steersman.system.errors import DamagedFile
from tests.dashboard.conftest import MadeRun

WORKFLOW = """
from steersman import Params, Workflow, budget

class Fold(Params):
    sequence: str = ""
    latent: int = 3

wf = Workflow("fold", Fold, stop=budget(frames=1000))

@wf.simulate()
def simulate(p, start, out): pass

@wf.score()
def score(p, model, frames): return {"z": frames["contacts"]}

@wf.yardstick()
def closed(p, frames): return frames["contacts"].mean((1, 2)) > 0.4
"""
ANALYSE, EXPORT = ["analyse", "--trust"], ["export", "--frames", "out.nc", "--score", "error=-1e9:"]


class Unbiased(MadeRun):
    def _bias(self, frames: int) -> None:
        pass


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    made = Unbiased(tmp_path_factory.mktemp("kept") / "fold-0001", segments=40).write()
    made.workflow.write_text(WORKFLOW)
    return made


def described(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Change the metadata of the variable `contacts`, as its group publishes them."""

    def do(group: Path) -> None:
        file = group / "zarr.json"
        metadata = json.loads(file.read_text())
        change(metadata["consolidated_metadata"]["metadata"]["contacts"])
        file.write_text(json.dumps(metadata))

    return do


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a lost shard": lambda group: next((group / "contacts" / "c").rglob("0")).joinpath("0", "0").unlink(),
    "a lost group": shutil.rmtree,
    "an unknown codec": described(lambda array: array.update(codecs=[{"name": "nonsense", "configuration": {}}])),
    "a huge row": described(lambda array: array.update(shape=[array["shape"][0], 2**40, 2**20])),
    "no chunks": described(lambda array: array.pop("chunk_grid")),
}


def ended(words: list[str], run: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.chdir(run.parent)
    monkeypatch.setattr(sys, "argv", ["steersman", words[0], str(run), *words[1:]])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code or 0


@pytest.mark.parametrize(("damage", "words"), [*product(DAMAGES, (ANALYSE, EXPORT)), ("", EXPORT)])
def test_damage_is_told_in_a_line(
    kept: RunDirectory,
    damage: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Results, "model", None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = tmp_path / "fold-0001"
    shutil.copytree(kept.path, run)
    if damage:
        DAMAGES[damage](run / "frames.zarr" / "w0")
    code = ended(words, run, monkeypatch)
    printed = capsys.readouterr()
    assert (code == DamagedFile.exit_status) == bool(damage), printed
    assert "Traceback" not in printed.err


OF_WALKERS: list[Any] = [
    None, 5, [], ["w0"], {"w0": 5}, {"w0": []}, {"w0": {}}, {"w0": {"attributes": 3}},
    {"w0": {"attributes": {}, "frame": 3}}, {"w0": {"attributes": {}, "frame": ["a", "b"]}},
    {"w0": {"attributes": {}, "frame": [-5, 10]}}, {"w0": {"attributes": {}, "frame": [0, 10**30]}},
]  # fmt: skip


def test_a_merged_group_that_does_not_say_where_its_walkers_lie_is_damaged(kept: RunDirectory, tmp_path: Path) -> None:
    """No row of another walker is taken for one of theirs."""
    shutil.copytree(kept.path, tmp_path / "fold-0001")
    directory = RunDirectory(tmp_path / "fold-0001")
    merge.merge(directory.frames, ["w0", "w1"], "m0")
    for walker in ("w0", "w1"):
        merge.remove(directory.frames, walker)
    file = directory.frames.path / "m0" / "zarr.json"
    whole = json.loads(file.read_text())
    for walkers in OF_WALKERS:
        file.write_text(json.dumps(whole | {"attributes": whole["attributes"] | {"walkers": walkers}}))
        frames = RunDirectory(directory.path).frames
        with pytest.raises((DamagedFile, FileNotFoundError)):
            frames.count("w0")
        assert {"frames.zarr/w0", "frames.zarr/w1"} <= {each.where for each in verify(RunDirectory(directory.path))}
