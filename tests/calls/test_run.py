"""`steersman.run`: the examples of docs/from_python.md, all of them on one run, whose first caller is killed."""

import contextlib
import importlib
import io
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_core.utils import ensure_event_loop

import steersman
from steersman.calls import run as calls
from steersman.calls.errors import RunFailed
from steersman.calls.start import begin, expect_same
from steersman.data.verify import verify
from steersman.engine import campaign
from steersman.journal import file as journal
from steersman.journal.file import Journal, rewrite
from steersman.journal.lock import driven
from steersman.journal.records import End, Record, Run, Session
from steersman.journal.run_directory import RunDirectory, create
from steersman.journal.state import State
from steersman.stages import loading
from steersman.stages.errors import BadWorkflow
from steersman.stages.outline import outline
from steersman.stages.workflow import Workflow
from steersman.steering import Random, audits, budget
from steersman.system.errors import BadInput, BadValue, UnknownName
from tests.engine.conftest import await_record
from tests.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "from_python.md"
BLOCK = re.compile(r'```python title="([\w.]+)"\n(.*?)```', re.DOTALL)
GIVEN: dict[str, Any] = {"set": {"frames": 3_000}, "seed": 1, "run_dir": "runs/first"}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page, in the current folder."""
    for name, text in BLOCK.findall(PAGE.read_text()):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_names_are_shown_and_nothing_is_imported_for_it() -> None:
    code = "import sys, steersman; print(*dir(steersman)); assert not {'torch', 'pandas', 'parsl'} & set(sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said == dir(steersman)
    assert all(callable(getattr(steersman, name)) for name in {*said} - {"audits"}), "one is a module"
    assert importlib.import_module("steersman.audits") is steersman.audits
    assert steersman.audits.coverage is audits.coverage


def test_a_workflow_of_a_notebooks_cell_is_refused() -> None:
    made: dict[str, Workflow] = {}
    exec("wf = Workflow('mine', stop=budget(frames=1))", {"Workflow": Workflow, "budget": budget}, made)
    with pytest.raises(BadInput):
        made["wf"].run()


def test_a_file_that_starts_a_run_while_it_is_imported_is_refused(page: Path) -> None:
    """Else every walker would start it, too."""
    (page / "mine.py").write_text((page / "my.py").read_text() + "\nwf.run()\n")
    with pytest.raises(BadWorkflow) as told:
        loading.load(page / "mine.py")
    assert told.value.line == len((page / "mine.py").read_text().splitlines())
    assert told.value.problem.startswith(BadInput.__name__)


def test_a_workflow_that_is_not_what_its_file_says_is_refused(page: Path) -> None:
    file = page / "my.py"
    workflow = loading.load(file)
    loading.expect(file, loading.load(file), outline(workflow))
    for part in ("steering", "stop", "metric far"):
        changed = loading.load(file)
        if part == "steering":
            changed.steer(Random())
        elif part == "stop":
            changed.stop = budget(frames=7)
        else:
            changed.metrics["far"] = len
        with pytest.raises(BadInput, match=part):
            loading.expect(file, workflow, outline(changed))


@pytest.mark.slow
def test_a_run_whose_caller_is_killed_goes_on_by_the_same_call_from_anywhere(page: Path) -> None:
    run = page / "runs" / "first"
    interrupted_and_killed_in_a_notebook(page, run)
    committed = State(journal.read(run / "journal.jsonl")).frames
    with kernel(page) as (_, client):
        shown = outputs(client, f"import steersman\n{(page / 'cell.py').read_text()}")
        assert [each for each in shown if each[0] not in ("display_data", "update_display_data")] == []
        assert "<td>budget: " in shown[-1][1]["text/html"], "the table is that of the end"
        assert outputs(client, "run.state.outcome") == [("execute_result", {"text/plain": "'budget'"})]
    state = State(journal.read(run / "journal.jsonl"))
    assert (state.end and state.end.outcome, len(state.sessions)) == ("budget", 3)
    assert state.frames >= max(3_000, committed)
    assert (run / "report.html").exists()
    assert verify(RunDirectory(run)) == []
    before = (run / "journal.jsonl").read_bytes()
    for words in (["script.py"], ["parsl_app.py"], ["-m", "steersman.cli", *RUN_CONTINUE]):
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}
        )
        assert done.returncode == 0, done.stderr[-2000:]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # tests/without is there
    clean["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{clean['PATH']}"
    done = subprocess.run(["snakemake", "--cores", "1"], capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (page / "farthest.txt").exists()
    assert (run / "journal.jsonl").read_bytes() == before
    with pytest.raises(BadInput):
        steersman.run("my.py", **GIVEN | {"set": {"frames": 3_001}})
    assert (run / "journal.jsonl").read_bytes() == before
    only_the_same_run_is_gone_on_with(page, run)


def only_the_same_run_is_gone_on_with(page: Path, run: Path) -> None:
    same: dict[str, Any] = {"assignments": {"frames": 3_000}, "seed": 1, "rounds": False}
    text = (page / "my.py").read_text()
    for what, value in {"seed": 2, "rounds": True}.items():
        plan = campaign.plan("my.py", **same | {what: value})
        with pytest.raises(BadInput) as told:
            begin(plan, run_dir=run, go_on=True, seed=plan.seed)
        assert [each.partition(" is ")[0] for each in told.value.values["differing"].split("; ")] == [what]
    other = campaign.plan("my.py", assignments={"frames": 2_999}, seed=2, rounds=True)
    with pytest.raises(BadInput) as told:
        begin(other, run_dir=run, go_on=True, seed=2)
    assert [each.partition(" is ")[0] for each in told.value.values["differing"].split("; ")] == [
        "parameter frames",
        "rounds",
        "seed",
    ]
    (page / "my.py").write_text(text.replace("range(p.steps)", "range(p.steps + 1)"))
    with pytest.raises(BadInput) as differ:
        begin(campaign.plan("my.py", **same), run_dir=run, go_on=True)
    assert differ.value.values["differs"] == "segment"
    for added, changed in (
        ("\n@wf.after\ndef found(params, run):\n    return 1\n", {"found"}),
        ("# a comment\n", set()),
    ):
        (page / "my.py").write_text(text + added)
        made = begin(campaign.plan("my.py", **same), run_dir=run, go_on=True)
        assert made.mended
        assert made.mended.changed == changed
    (page / "my.py").write_text(text)
    made = begin(campaign.plan("my.py", **same), run_dir=run, go_on=True)
    assert made.state.finished
    assert made.mended is None


SET_AND_NUMBER = """
from steersman import Params, Workflow, budget

class P(Params):
    x: float = 1.0
    e: set[str] = set()

wf = Workflow("p", P, stop=budget(frames=1))

@wf.simulate()
def simulate(p, start, out): out.append(x=1)
"""


def test_a_run_is_the_same_whatever_its_parameters_are(tmp_path: Path) -> None:
    """NaN is NaN, and a set has no order."""
    (tmp_path / "p.py").write_text(SET_AND_NUMBER)
    plan = campaign.plan(str(tmp_path / "p.py"), assignments={"x": float("nan"), "e": ["b", "a", "c"]}, seed=1)
    directory = campaign.begin(plan, run_dir=tmp_path / "run").directory
    for order in (sorted, lambda each: sorted(each, reverse=True)):
        settings = dict(directory.settings())
        settings["params"]["e"] = order(settings["params"]["e"])
        directory.settings_file.write_text(yaml.safe_dump(settings))
        expect_same(plan, directory, 1)
    for other in ({"x": 1.0}, {"e": ["a", "b"]}, {"e": ["a", "b", "d"]}):
        given = {"x": float("nan"), "e": ["a", "b", "c"]} | other
        with pytest.raises(BadInput):
            expect_same(campaign.plan(str(tmp_path / "p.py"), assignments=given, seed=1), directory, 1)


def test_an_option_that_there_is_not_is_refused_and_named() -> None:
    """Nothing else looks at the names of these options."""
    calls: tuple[tuple[Any, dict[str, Any]], ...] = (
        (steersman.run, {"worker": 1}),
        (steersman.run, {"frames": 3_000}),
        (steersman.compare, {"policy": ["Random()"]}),
        (steersman.tune, {"over": ["steps=5:50"], "trial": 9}),
    )
    for call, wrong in calls:
        with pytest.raises(UnknownName) as refused:
            call("double_well", **wrong)
        assert refused.value.name in wrong
    with pytest.raises(BadValue):
        steersman.compare("double_well", seed=7)
    with pytest.raises(BadValue):
        steersman.compare("double_well", seeds=1)


def test_a_seed_is_any_whole_number() -> None:
    assert type(campaign.plan("double_well", seed=np.int64(7)).seed) is int  # type: ignore[arg-type]
    for wrong in (7.0, "7", -1):
        with pytest.raises(BadValue):
            campaign.plan("double_well", seed=wrong)  # type: ignore[arg-type]


RUN_CONTINUE = ["run", "my.py", "--set", "frames=3000", "--seed", "1", "--run-dir", "runs/first", "--continue"]


@contextlib.contextmanager
def kernel(page: Path) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """A kernel of Jupyter's, in that folder."""
    homes = {name: str(page / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")}
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(page), env=os.environ | homes)
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        ensure_event_loop().close()  # that of this thread, which Jupyter leaves open


def outputs(client: BlockingKernelClient, cell: str) -> list[tuple[str, Any]]:
    """What a cell shows."""
    return shown_of(client, client.execute(cell))


def shown_of(client: BlockingKernelClient, asked: str) -> list[tuple[str, Any]]:
    """What a cell shows until it has ended: kind of message, and by MIME type what is shown, or the error's name."""
    shown: list[tuple[str, Any]] = []
    while True:
        message = client.get_iopub_msg(timeout=240)
        content, kind = message["content"], message["msg_type"]
        if message["parent_header"].get("msg_id") != asked or kind == "execute_input":
            continue
        if kind != "status":
            shown.append((kind, content.get("data") or content.get("ename") or content.get("text")))
        elif content["execution_state"] == "idle":
            return shown


def interrupted_and_killed_in_a_notebook(page: Path, run: Path) -> None:
    """The cells of the page: "interrupt" ends the segments, and a run whose kernel is killed is not driven any more."""
    cell = (page / "cell.py").read_text()
    (page / "my.py").rename(page / "cells.py")
    with kernel(page) as (manager, client):
        outputs(client, f"%%writefile my.py\n{(page / 'cells.py').read_text()}")
        [(_, told)] = outputs(client, "import os\nos.getpid()")
        pid = int(told["text/plain"])
        asked = client.execute(f"import steersman\n{cell}")
        await_record(run, lambda state: state.frames)
        manager.interrupt_kernel()
        *_, (_, table), end = shown_of(client, asked)
        assert end == ("error", "KeyboardInterrupt")
        assert "<td>interrupted: " in table["text/html"]
        before = State(journal.read(run / "journal.jsonl")).frames
        client.execute(cell)
        await_record(run, lambda state: state.frames > before)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not driven(run))


GATED = """

@wf.prepare
def start(p):
    from pathlib import Path

    if Path(p.folder, "fail").exists():
        raise ValueError("no start")


def wait(p, out):
    while not out.stopped:
        time.sleep(0.01)
"""


@pytest.mark.slow
def test_a_run_that_is_followed_ends_and_ctrl_c_ends_the_run(page: Path) -> None:
    """The first session fails, the second goes on from there."""
    text = (page / "my.py").read_text().replace("frames: int = 2_000", "frames: int = 100\n    folder: str")
    (page / "mine.py").write_text(text.replace("time.sleep(0.002)", "wait(p, out)") + GATED)
    (page / "fail").touch()
    run = page / "runs" / "mine"
    given: dict[str, Any] = {"set": {"folder": str(page)}, "seed": 1, "workers": 1}
    followed = steersman.run("mine.py", run_dir=run, wait=False, **given)
    assert [record.kind for record in followed.follow()][-1] == "end"
    assert followed.state.outcome == "failed"
    assert "no start" in followed.state.reason
    (page / "fail").unlink()
    code = f"import steersman\nsteersman.run('mine.py', run_dir={str(run)!r}, **{given})"
    caller = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    await_record(run, lambda state: state.running)
    assert steersman.run("mine.py", run_dir=run, wait=False, **given).state.outcome == "running"
    with pytest.raises(BadInput):
        steersman.run("mine.py", run_dir=run, wait=False, **given | {"seed": 2})
    caller.send_signal(signal.SIGINT)
    _, said = caller.communicate(timeout=200)
    assert "KeyboardInterrupt" in said
    assert not driven(run)
    assert followed.state.outcome == "interrupted"


def test_a_run_that_failed_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[Record] = [Run(), Session(host="here", pid=1), End(outcome="failed", reason="no start")]
    Journal(tmp_path / "journal.jsonl").append(*ends)
    for answer, outcome in ((str(tmp_path), "failed"), (None, "")):
        replies = io.BytesIO(pickle.dumps(answer) if answer else b"")
        process = subprocess.Popen(["true"])
        monkeypatch.setattr(calls, "_started", lambda *_, given=(process, replies): given)
        with pytest.raises(RunFailed) as told:
            steersman.run("double_well", run_dir=tmp_path)
        assert told.value.outcome == outcome
        assert told.value.reason == ("no start" if answer else "exit status 0")


@pytest.mark.parametrize(("ended", "goes_on"), [(None, True), (50.0, False), (150.0, True)])
def test_the_end_of_an_earlier_session_is_not_that_of_a_run_that_goes_on(
    ended: float | None, goes_on: bool, tmp_path: Path
) -> None:
    """`run(wait=False)` gives it when its driver has begun; it may have ended since."""
    directory = create(tmp_path, "run", tmp_path / "run")
    said: list[Record] = [Run(t=1.0), Session(t=1.0, host="here", pid=1)]
    rewrite(directory.journal, [*said, *([End(t=ended, outcome="interrupted", reason="a signal")] if ended else [])])
    assert calls._goes_on(directory.path, since=100.0) is goes_on
