"""A run directory that a stranger sends: no command that looks at it runs its code, whatever it says of itself."""

from __future__ import annotations

import getpass
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import steersman
from steersman.calls.opened import open_run
from steersman.cli import remote
from steersman.cli.__main__ import main
from steersman.executors import site_files
from steersman.journal import copies, run_directory
from steersman.journal.run_directory import RunDirectory
from steersman.remote import known
from steersman.remote.known import KnownEndpoint, Sent
from steersman.remote.submit import _keep_code
from steersman.stages import modules, trust
from steersman.system.errors import BadInput, DamagedFile
from tests.dashboard.conftest import MadeRun
from tests.dashboard.serving import serving

WORKFLOW = """
from pathlib import Path
from matplotlib.figure import Figure
from steersman import Workflow, budget
from steersman.steering import Novelty
import beside
Path(MARKER).touch()
wf = Workflow("fold", stop=budget(frames=1000))

@wf.simulate()
def simulate(p, start, out): pass

@wf.score()
def place(p, model, frames): return {"z": frames["positions"][:, 0, :]}

wf.steer(Novelty("z"))

@wf.figure("Mine")
def mine(p, results):
    results.model
    return Figure(), "mine"
"""
LOOKING = [
    ["status"], ["status", "--json"], ["watch"], ["why", "w0.1"], ["why", "w0.1", "--tree"], ["replay"], ["journal"],
    ["verify"], ["report"], ["analyse"], ["diff"], ["export", "--tables", "tables"], ["tell", "pause"], ["bus"],
]  # fmt: skip
Call = Callable[..., int]


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "PWN"


@pytest.fixture
def forged(tmp_path: Path, marker: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """It says that this user made it on this machine; its model and modules are programs, too."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    directory = MadeRun(tmp_path / "fold-0001", segments=6).write()
    source = tmp_path / "sent" / "flow.py"
    source.parent.mkdir()
    source.write_text(WORKFLOW.replace("MARKER", repr(str(marker))))
    touch = f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n"
    (source.parent / "beside.py").write_text(touch)
    site = site_files.load_site("laptop").model_dump(mode="json")
    run_directory.write_settings(directory, directory.settings() | {"params": {}, "site": site}, source)
    modules.keep(source, directory.path)
    (directory.path / "workflow" / "evil.py").write_text(touch)
    ours = {"host": platform.node(), "user": getpass.getuser(), "python": "3", "packages": {}}
    directory.environment_file.write_text(json.dumps(ours))
    for file in directory.path.glob("models/*/card.json"):
        described = {"class": "evil:Model", "config": {}, "sha256": "0", "history": [], "card": {}}
        file.with_name("model.json").write_text(json.dumps(described))
    return directory


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Call:
    def call(*words: object) -> int:
        """The exit code of a command; without a traceback."""
        monkeypatch.setattr(sys, "argv", ["steersman", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0)

    return call


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "copied"),
    [*((words, False) for words in LOOKING), (["watch"], True), (["report"], True)],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "copy" if each else "run",
)
def test_no_command_that_looks_runs_the_code_of_a_stranger(
    words: list[str], copied: bool, forged: RunDirectory, marker: Path, call: Call
) -> None:
    if copied:
        copies.mark(forged.path, copies.Origin("fold", "here", "/there/fold", 1.8e9, "ended"))
    call(words[0], forged.path, *([forged.path] if words == ["diff"] else []), *words[1:])
    assert not marker.exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["watch"], ["replay"], ["report"], ["analyse"]], ids=" ".join)
def test_trust_allows_it_and_is_remembered(
    words: list[str], forged: RunDirectory, marker: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(words[0], forged.path, "--trust")
    assert marker.exists(), "the law above would see it"
    marker.unlink()
    monkeypatch.setattr(trust, "_here", set())
    call(words[0], forged.path)
    assert marker.exists()


def test_neither_page_nor_python_runs_it(forged: RunDirectory, marker: Path) -> None:
    with serving(forged, trusted=None) as served:
        for view in ("segments", "state", "panels", "panel?name=mine", "metrics", "stages", "models"):
            served.ask(f"/run/fold-0001/{view}")
    run = open_run(forged.path)
    assert "mine" not in dir(run.plot)
    with pytest.raises(BadInput):
        run.plot.mine()
    assert not marker.exists()
    with pytest.raises((DamagedFile, BadInput)):
        steersman.open_run(forged.path, trust=True).plot.mine()
    assert marker.exists()


class Fetched:
    """What `remote watch` has of a run at a site."""

    begun, sent = True, Sent("fold", "fold", KnownEndpoint("there", "1"), "login", 0.0)

    def __init__(self, path: Path) -> None:
        self.path = path

    def catch_up(self) -> dict[str, object]:
        return {"state": "ended", "code": 0, "path": "/there/fold", "log": "", "log_end": 0}


@pytest.mark.slow
def test_remote_watch_takes_its_rule_from_what_was_submitted(
    forged: RunDirectory, marker: Path, call: Call, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(forged.path.parent / "config"))
    monkeypatch.setattr(remote, "_view", lambda name: Fetched(forged.path))
    assert call("remote", "watch", "fold") == 0
    assert "% of the budget" not in capsys.readouterr().out
    own = forged.path.parent / "own.py"
    own.write_text('from steersman import Workflow, budget\nwf = Workflow("fold", stop=budget(frames=120))\n'
                   "@wf.simulate()\ndef simulate(p, start, out): pass\n")  # fmt: skip
    _keep_code(own, known.submitted("fold"))
    assert call("remote", "watch", "fold") == 0
    assert "50 % of" in capsys.readouterr().out
    assert not marker.exists()
