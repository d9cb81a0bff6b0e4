"""People steer a running campaign; what they said is in the journal with who and when, and replay holds."""

import subprocess
import time
from pathlib import Path

import pytest

from steersman import open_run
from steersman.data.history import History
from steersman.data.why import tree
from steersman.journal import file as journal
from steersman.journal.records import FrameId, Start, Tell
from steersman.journal.state import State
from steersman.system.errors import BadInput
from tests.engine.conftest import HEAD, await_record, opened, started, steersman

pytestmark = pytest.mark.slow
Running = tuple[Path, subprocess.Popen[bytes]]
WORKFLOW = """
import time
wf = Workflow("told", P, stop=lambda p: budget(frames=p.frames))

@wf.simulate()
def simulate(p, start, out):
    for i in range(p.steps):
        time.sleep(0.02)
        out.append(x=float(p.steps))
        if out.stopped: break
"""


def tell(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return steersman("tell", run, *words, cwd=run)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Running:
    cwd = tmp_path_factory.mktemp("running")
    (cwd / "mine.py").write_text(HEAD + WORKFLOW)
    driver = started("run", "mine.py", "--set", "frames=1000000", "--run-dir", "run", cwd=cwd)
    await_record(cwd / "run", lambda state: state.walkers.get(1) and state.walkers[1].segments and state.frames > 60)
    return cwd / "run", driver


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["puase"], "did you mean 'pause'"),
        (["set", "step=3"], "did you mean 'steps'"),
        (["set", "steps=many"], "integer"),
        (["set", "steps=@all"], "steps = @all: this is not YAML"),
        (["set", "frames=0"], "budget(frames) = 0"),
        (["set"], "write: set key=value"),
        (["stop", "w9.1"], "no segment 'w9.1'"),
        (["pin", "w0.0:99"], "has frames 0 to"),
        (["pin", "w0.0:²"], "has frames 0 to"),
    ],
)
def test_words_that_mean_nothing_are_told(running: Running, words: list[str], answer: str) -> None:
    refused = tell(running[0], *words)
    assert refused.returncode == 2
    assert answer in refused.stderr


def test_people_pause_continue_pin_stop_set_and_finish_a_run(running: Running) -> None:
    run, driver = running
    assert open_run(run).tell("pause")
    paused = await_record(run, lambda state: state.wishes.paused and not state.running)
    assert tell(run, "pin", "w0.0:3").returncode == 0
    assert opened(run)[1].next_start == paused.next_start, "nothing is chosen while it is paused"
    with pytest.raises(BadInput):
        open_run(run).tell("set", 400)  # type: ignore[arg-type]
    assert open_run(run).tell("set", {"steps": 400})
    assert tell(run, "continue").returncode == 0
    state = await_record(run, lambda state: state.next_start > paused.next_start + 1)
    pinned = [r for r in journal.read(run / "journal.jsonl", Start) if r.policy == "pin"]
    assert [record.parent for record in pinned] == [FrameId(0, state.walkers[0].segments[0].first + 3, 0)]
    assert [state.name_of(record.parent) for record in pinned if record.parent] == ["w0.0:3"], "as it was pinned"

    changed = pinned[0].start
    state = await_record(run, lambda state: any(s.start == changed for s in state.segments))
    long = next(segment for segment in state.segments if segment.start == changed)
    assert tell(run, "stop", long.name).returncode == 0
    assert tell(run, "finish").returncode == 0
    assert tell(run, "pause").returncode == 2, "it would change nothing any more"
    assert driver.wait(timeout=200) == 0

    directory, state = opened(run)
    assert state.end is not None
    assert state.end.outcome == "finished"
    segment = next(segment for segment in state.segments if segment.start == changed)
    assert segment.how == "stopped"
    if segment.end and segment.end > segment.first:
        assert directory.frames.row(f"w{segment.walker}", segment.first)["x"] == 400.0
    history = History(directory)
    sets = [tree(history, name)["set"] for name in (long.name, state.walkers[0].segments[0].name)]
    assert sets == [{"steps": 400}, {}], "what was set later did not determine it"
    said = list(journal.read(directory.journal, Tell))
    assert [record.verb for record in said] == ["pause", "pin", "set", "continue", "stop", "finish"]
    assert all("@" in record.who and record.t <= time.time() for record in said)
    again = State(journal.read(directory.journal))
    assert (again.wishes.settings, again.wishes.paused, again.wishes.pins) == ({"steps": 400}, None, [])
    assert steersman("resume", run, cwd=run).returncode == 0, "what a person finished is finished"
