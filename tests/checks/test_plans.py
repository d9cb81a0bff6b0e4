"""Plans are tried in this process, each task once."""

from pathlib import Path

import pytest

from steersman.checks.trying import tried
from steersman.stages import loading

PLANNED = """
from pathlib import Path

from steersman import Workflow, budget

wf = Workflow("planned", stop=budget(frames=1))


@wf.task
def one(i):
    Path("calls.txt").open("a").close()
    return i


@wf.task
def total(parts):
    return sum(parts)


@wf.before
def plan(p):
    return {"sum": total.later([one.later(i) for i in range(5, 1005)])}


@wf.simulate
def segment(p, start, out):
    out.append(x=float(start.prepared["sum"]))
    out.append(x=1.0)
"""


def test_of_a_plan_each_task_is_called_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand calls may take days; the first result stands for all."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(PLANNED)
    workflow = loading.load(tmp_path / "mine.py")
    steps = {step.what: step for step in tried(workflow, workflow.params(), tmp_path / "mine.py")}
    assert all(step.ok for step in steps.values())
    assert "1000 x one, 1 x total" in steps["before"].found
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]
