"""`examples/groups.py` as a campaign whose driver is killed: openDIEL's golden trace, in order, each run once."""

import json
import pickle
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from examples.groups import GROUPS
from steersman import open_run
from steersman.data.verify import verify
from steersman.journal import file as journal
from steersman.journal.calls import RESULT
from steersman.journal.records import Called, Prepared, Task
from steersman.system.errors import UnknownName
from tests.engine.conftest import await_record, opened, started, steersman

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
GOLDEN = {"G1": 5, "G2": 3, "G3": 2, "G5": 1, "G4": 2, "Last": 1}  # runs of each group in a set
SETS = 3
MENDS = 'return {"lowest"', 'from mends import word; return {word(): True, "lowest"'


def test_the_golden_trace_runs_in_order_and_each_run_of_a_group_once_however_often_the_driver_dies(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    first = started("run", ROOT / "examples" / "groups.py", "--run-dir", run, "--workers", 2, cwd=tmp_path)
    await_record(run, lambda state: sum(bool(call.sha256) for call in state.calls.values()) >= 10, driver=first)
    first.kill()
    first.wait()
    kept = results(run)
    assert len(kept) >= 10
    second = started("resume", run, cwd=tmp_path)
    await_record(run, lambda state: state.prepared and state.frames >= 40, driver=second)
    second.kill()
    second.wait()
    prepared = results(run)
    assert {key: prepared[key] for key in kept} == kept
    done = steersman("resume", run, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = results(run)
    assert {key: found[key] for key in prepared} == prepared
    is_golden(run)
    assert json.loads(done.stdout)["tasks"] == {"done": 51}
    ended, state = open_run(run), opened(run)[1]
    assert ended.tasks.standing.value_counts().to_dict() == {"done": 51}
    assert ended.tasks.loc[state.calls.keys()].index.is_unique
    with pytest.raises(UnknownName):
        ended.result("nobody")
    assert steersman("why", run, "nobody", cwd=tmp_path).returncode == 2
    asked(run, state.calls[next(iter(state.calls))].key, tmp_path)
    only_what_comes_after_is_done_again(run, found, tmp_path)


def is_golden(run: Path) -> None:
    """Each call was done once, in order, and the run is whole."""
    directory, _ = opened(run)
    made = Counter(each.call for each in journal.read(directory.journal, Task) if each.sha256)
    assert set(made.values()) == {1}, "no call was done twice"
    assert Counter({each.call: each.task for each in journal.read(directory.journal, Called)}.values()) == {
        "group": 42, "trace": 1, "looked_at": 6, "table": 1, "found": 1,
    }  # fmt: skip
    assert len(list(journal.read(directory.journal, Prepared))) == 1
    is_in_order(pickle.loads(directory.prepared.read_bytes()))
    assert verify(directory) == []
    table = open_run(run).result("found")
    assert table["highest"] - table["lowest"] >= 1.0, "two copies of the same differ by 1"


def only_what_comes_after_is_done_again(run: Path, found: dict[str, tuple[bytes, int]], cwd: Path) -> None:
    """A task of `@wf.after` is mended when the run is over: its calls, and what was made of them, are made again."""
    mended, text = cwd / "mended.py", (ROOT / "examples" / "groups.py").read_text()
    mended.write_text(text.replace(*MENDS))
    (cwd / "mends.py").write_text("def word(): return 'mended'")
    frames = opened(run)[1].frames
    done = steersman("resume", run, "--workflow", mended, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    directory, state = opened(run)
    again = {state.calls[key].called.task for key, result in results(run).items() if result != found.get(key)}
    assert again == {"table", "found"}
    assert state.frames == frames
    assert open_run(run).result("found")["mended"]
    assert set(open_run(run).tasks.standing) == {"done"}
    assert verify(directory) == []
    [found_key] = [key for key, call in state.calls.items() if call.called.task == "found"]
    (directory.task(found_key) / RESULT).write_bytes(b"damaged")
    assert steersman("verify", run, "--repair", cwd=cwd).returncode == 0
    assert steersman("resume", run, cwd=cwd).returncode == 0
    assert open_run(run).result("found")["mended"]
    mended.write_text(text.replace("@wf.simulate", "@wf.simulate(retries=3)"))
    refused = steersman("resume", run, "--workflow", mended, cwd=cwd)
    assert refused.returncode == 2


def results(run: Path) -> dict[str, tuple[bytes, int]]:
    """Those that the journal has: bytes, and when they were written."""
    directory, state = opened(run)
    files = {key: directory.task(key) / RESULT for key, call in state.calls.items() if call.sha256}
    return {key: (file.read_bytes(), file.stat().st_mtime_ns) for key, file in files.items()}


def is_in_order(runs: list[dict]) -> None:  # type: ignore[type-arg]
    """Each begins after all that it needs have ended."""
    assert Counter((each["set"], each["group"]) for each in runs) == {
        (number, name): times for number in range(SETS) for name, times in GOLDEN.items()
    }
    for number in range(SETS):
        for name, group in GROUPS.items():
            mine = [each for each in runs if (each["set"], each["group"]) == (number, name)]
            before = [each for each in runs if each["set"] == number and each["group"] in group.after]
            before += [] if group.after else [each for each in runs if each["set"] == number - 1]
            assert min(each["began"] for each in mine) >= max((each["ended"] for each in before), default=0)
            assert all(one["ended"] <= two["began"] for one, two in pairwise(mine))
            assert all(each["modules"] == [f"{name}.{module}" for module in group.modules] for each in mine)


def asked(run: Path, key: str, cwd: Path) -> None:
    """`why` knows a call by its key, and by its name."""
    for name in (key[:12], "table"):
        done = steersman("why", run, name, cwd=cwd)
        assert done.returncode == 0, done.stderr
        assert "tasks/" in done.stdout
