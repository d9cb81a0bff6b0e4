"""A run from a laptop, from its submission to its last frame: real SDK, real broker, real endpoint, real campaign.

What is not real is the hosted service, see service.py. The tests go on from one another: to start it all takes as long
as all of them.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from steersman.dashboard.report import write_report
from steersman.journal import copies, file
from steersman.journal.history import History
from steersman.journal.lock import driven, owner
from steersman.journal.records import Tell
from steersman.journal.run_directory import open_run
from steersman.journal.verify import verify
from steersman.remote.submitted import Submitted
from tests.remote import broker
from tests.remote.endpoint import Endpoint
from tests.remote.rig import Rig, left, rig

WORKFLOW = str(Path(__file__).with_name("workflow.py"))
WITHIN_S = 240.0  # it ends what hangs, and nothing else: the machine may be busy
NOBODY = 65534

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # what the SDK leaves open
]


@pytest.fixture(scope="module")
def here() -> Iterator[Rig]:
    if why := broker.missing():
        pytest.skip(why)
    with TemporaryDirectory(prefix="steersman-remote-") as home:
        with rig(Path(home)) as made:
            yield made
        assert not left(Path(home)), "processes live on"


@pytest.fixture(scope="module")
def name(here: Rig) -> str:
    """A long run that was submitted."""
    return here.run("submit", WORKFLOW, "--at", "here", "--workers", "1").stdout.strip()


def test_the_endpoint_is_looked_at_first(here: Rig) -> None:
    found = json.loads(here.run("remote", "check", "--at", "here", "--site", "laptop", "--json").stdout)["checks"]
    assert all(each["ok"] for each in found)
    assert {"endpoint", "template", "steersman", "python", "parsl", "dill", "folder"} <= {
        each["what"] for each in found
    }
    assert any(each["what"].startswith("site: ") for each in found)


def test_to_submit_the_same_again_starts_nothing(here: Rig, name: str) -> None:
    again = json.loads(here.run("submit", WORKFLOW, "--at", "here", "--workers", "1", "--json").stdout)
    assert (again["name"], again["fresh"]) == (name, False)
    until(lambda: driven(here.runs / name))
    assert len(drivers(here)) == 1
    (listed,) = json.loads(here.run("remote", "list", "--json").stdout)["runs"]
    assert (listed["name"], listed["at"], listed["state"]) == (name, "here", "running")


def test_it_is_looked_at_as_a_run_here(here: Rig, name: str) -> None:
    until(lambda: frames(here, name) >= 100)
    records = json.loads(here.run("remote", "journal", name, "--json").stdout)["records"]
    there = (here.runs / name / "journal.jsonl").read_text().splitlines()
    assert [record["t"] for record in records] == [json.loads(line)["t"] for line in there[: len(records)]]
    assert len(records) > 10
    assert "finished after 20 frames" in here.run("remote", "why", name, "w0.1").stdout
    assert "walk runs in" in here.run("remote", "logs", name).stdout


def test_what_is_said_is_journalled_with_who_said_it(here: Rig, name: str) -> None:
    for word in ("pause", "continue"):
        here.run("remote", "tell", name, word)
    said = [each for each in file.read(here.runs / name / "journal.jsonl") if isinstance(each, Tell)]
    assert [each.verb for each in said] == ["pause", "continue"]
    assert all("@" in each.who for each in said)
    wrong = here.run("remote", "tell", name, "set", "framess=1", code=2)
    assert "framess" in wrong.stderr


def test_a_copy_is_whole_while_the_run_grows(here: Rig, name: str) -> None:
    """Every frame that its journal speaks of is there; and the next fetch brings only what is new."""
    sizes = []
    for what in ("frames,models", "figures,frames,models"):
        here.run("remote", "fetch", name, "--what", what)
        copy = open_run(here.work / "runs" / name)
        assert verify(copy) == []
        sizes.append(History(copy).state.frames)
        assert sum(copy.frames.count(walker) for walker in copy.frames.walkers()) >= sizes[-1]
    assert 0 < sizes[0] <= sizes[1]
    copy.report.unlink()
    write_report(copy)
    assert 'class="failed"' not in copy.report.read_text(), "and here, from the copy"
    assert not (copy.path / "bus").exists(), "the password of the bus stays where it is"
    assert "has not ended yet" in copy.report.read_text(), "drawn there, where the frames are"
    refused = here.run("resume", str(copy.path), code=2)
    assert f"remote tell | resume {name}" in refused.stderr
    assert "at here, as of" in here.run("status", str(copy.path)).stdout


def test_what_is_too_large_stays_and_is_named(here: Rig, name: str) -> None:
    left_there = here.run("remote", "fetch", name, "--what", "frames", "--to", "small", "--most", "0.001").stderr
    assert str(here.runs / name) in left_there
    assert "globus transfer" in left_there
    assert not list((here.work / "small").glob("frames.zarr/*/*/c"))


def test_a_laptop_without_network_loses_nothing(here: Rig, name: str) -> None:
    offline = here.environment | {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    before = here.environment
    here.environment = offline
    assert "runs at sites continue" in here.run("remote", "status", name, code=4).stderr
    here.environment = before
    assert state(here, name) == "running"


def test_a_run_outlives_its_endpoint(here: Rig, name: str) -> None:
    before = drivers(here)
    here.endpoint.stop()
    assert "offline" in here.run("remote", "status", name, code=4).stderr
    assert drivers(here) == before
    here.endpoint.start()
    assert state(here, name) == "running"


def test_no_secret_is_in_what_a_run_wrote_or_shows(here: Rig, name: str) -> None:
    """Nor does any process of the run have one in its environment."""
    secrets = [here.service.secret, *here.service.tokens]
    assert secrets[1:]
    for process in psutil.process_iter():
        assert not any(each in _command(process) for each in secrets)
    mine = [psutil.Process(pid) for pid in drivers(here)]
    assert mine
    for process in [*mine, *(child for each in mine for child in each.children(recursive=True))]:
        assert not any(each in str(process.environ()) for each in secrets)
    kept = ("storage.db", "user_environment.yaml")  # the SDK's own store, and what this test gives the endpoint
    files = [path for top in (here.endpoint.home, here.home) for path in top.rglob("*") if path.name not in kept]
    for path in files:
        if path.is_file():
            content = path.read_bytes()
            assert not any(each.encode() in content for each in secrets), path


def test_a_cancelled_run_goes_on_and_comes_home(here: Rig, name: str) -> None:
    following = [
        here.start("remote", *words) for words in (("logs", name, "-f"), ("fetch", name, "--what=models", "--follow"))
    ]
    here.run("remote", "cancel", name)
    assert code(here, name) == 130
    for each in following:
        each.communicate(timeout=WITHIN_S)
        assert each.returncode == 0, "what follows a run ends with it"
    assert not drivers(here)
    here.run("remote", "resume", name, "--set", f"frames={frames(here, name) + 200}")
    assert "budget" in here.run("remote", "watch", name).stdout
    assert code(here, name) == 0
    here.run("remote", "fetch", name, "--what", "all")
    copy = open_run(here.work / "runs" / name)
    assert verify(copy) == []
    assert History(copy).state.frames == History(open_run(here.runs / name)).state.frames
    mark = copies.of(copy.path)
    assert mark is not None
    assert mark.state == "ended"


def test_a_driver_that_died_leaves_its_exit_code_and_last_words(here: Rig) -> None:
    here.run("submit", WORKFLOW, "--at", "here", "--workers", "1", "--name", "killed")
    until(lambda: frames(here, "killed") > 0)
    driver = owner(here.runs / "killed")
    assert driver is not None
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: there(here, "killed") == "ended")
    shown = here.run("remote", "status", "killed").stdout
    assert f"exit code -{signal.SIGKILL.value}" in shown
    assert "walk runs in" in shown, "the last lines that it printed"
    here.run("remote", "resume", "killed")
    until(lambda: driven(here.runs / "killed"))
    for each in (Submitted(str(here.runs), "killed").path, here.runs / "killed"):
        holder = owner(each)
        assert holder is not None
        os.kill(holder.pid, signal.SIGKILL)
    until(lambda: there(here, "killed") == "lost")
    assert state(here, "killed") == "lost"


def test_what_is_wrong_with_a_workflow_is_said_in_one_line_before_it_starts(here: Rig) -> None:
    wrong = here.run("submit", WORKFLOW, "--at", "here", "--set", "framess=3", code=2)
    assert "did you mean 'frames'?" in wrong.stderr
    assert wrong.stderr.count("\n") == 1


def test_a_driver_in_a_job_of_the_endpoint(here: Rig) -> None:
    """One task that lasts as long as the run, beside which others are answered."""
    words = ("submit", WORKFLOW, "--at", "here", "--where", "allocation", "--site", "laptop", "--workers", "1")
    name = here.run(*words, "--set", "frames=300", "--walltime", "10m").stdout.strip()
    assert here.run(*words, "--set", "frames=300", "--walltime", "10m").stdout.strip() == name
    until(lambda: driven(here.runs / name) or there(here, name) == "ended")
    assert len(drivers(here)) <= 1
    until(lambda: there(here, name) == "ended")
    assert code(here, name) == 0


def test_a_run_here_trains_and_scores_there(here: Rig) -> None:
    """Parsl's GlobusComputeExecutor with the same endpoint: walkers on the laptop, which shares the run directory."""
    (here.work / "ours.yaml").write_text(f"simulation: {{workers: 1}}\ntraining: {{globus: {here.endpoint.uuid}}}\n")
    begun = len(here.service.tasks)
    command = here.start("run", WORKFLOW, "--site", "ours.yaml", "--set", "frames=400", "--run-dir", "trained")
    command.communicate(timeout=WITHIN_S)
    state = History(open_run(here.work / "trained")).state
    assert state.model
    assert state.scored_with
    assert len(here.service.tasks) >= begun + 2


@pytest.mark.skipif(os.geteuid() != 0, reason="this user is an ordinary one: so was the endpoint of all these tests")
def test_an_ordinary_user_s_endpoint(here: Rig) -> None:
    """It gives its tasks all of its environment, the client's secret too; the run has none of it."""
    here.home.parent.chmod(0o755)
    theirs = Endpoint(here.service, here.home.parent / "user", user=NOBODY)
    try:
        theirs.start()
        folder = theirs.home / "runs"
        here.run("endpoints", "add", "theirs", theirs.uuid, "--folder", str(folder))
        here.run("submit", WORKFLOW, "--at", "theirs", "--workers", "1", "--name", "user")
        until(lambda: (folder / "user" / "journal.jsonl").exists())
        assert state(here, "user") == "running"
        run = [each for each in left(folder) if "steersman" in _command(each)]
        assert run
        assert {each.uids().real for each in run} == {NOBODY}
        assert not any(here.service.secret in str(each.environ()) for each in run)
        here.run("remote", "cancel", "user")
    finally:
        theirs.stop()


def state(here: Rig, name: str) -> str:
    return str(json.loads(here.run("remote", "status", name, "--json").stdout)["remote"]["state"])


def there(here: Rig, name: str) -> str:
    """The same, without asking for it."""
    return str(Submitted(str(here.runs), name).state()["state"])


def code(here: Rig, name: str) -> int:
    return int(Submitted(str(here.runs), name).state()["code"])


def frames(here: Rig, name: str) -> int:
    """Of the run itself, without asking for it."""
    journal = here.runs / name / "journal.jsonl"
    return History(open_run(journal.parent)).state.frames if journal.exists() else 0


def drivers(here: Rig) -> list[int]:
    """Processes; but those that are copies of one for a moment, until they become what it starts."""
    found = {each.pid: each for each in left(here.runs) if "steersman.cli" in _command(each)}
    return sorted(pid for pid, each in found.items() if _parent(each) not in found)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _parent(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return process.ppid()
    return 0


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not ready():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.2)
