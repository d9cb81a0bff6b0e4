"""A run from a laptop, from its submission to its last frame: real SDK, real broker, real endpoint, real campaign.

What is not real is the hosted service, see service.py. The tests go on from one another: to start it all takes as long
as all of them. What takes time by itself is started early, and looked at when it has ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from steersman.calls.opened import open_run as opened_run
from steersman.dashboard.report import write_report
from steersman.data.history import History
from steersman.data.verify import verify
from steersman.journal import copies, file
from steersman.journal.lock import driven, owner
from steersman.journal.records import Session, Tell
from steersman.journal.run_directory import RunDirectory, open_run
from steersman.remote.submitted import Submitted
from tests.dashboard.kept import kept
from tests.dashboard.serving import Served, serving
from tests.remote import broker
from tests.remote.endpoint import Endpoint
from tests.remote.rig import Rig, left, rig
from tests.waiting import HANGS_S, until

WORKFLOW = str(Path(__file__).with_name("workflow.py"))
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


@pytest.fixture(scope="module")
def in_job(here: Rig) -> str:
    """A short run whose driver is a task in a job of the endpoint; submitted twice."""
    short = ("--set", "frames=300", "--workers", "1", "--walltime", "10m")
    words = ("submit", WORKFLOW, "--at", "here", "--where", "allocation", "--site", "laptop", *short)
    first, again = (here.run(*words).stdout.strip() for _ in range(2))
    assert again == first
    return first


@pytest.fixture(scope="module")
def trained(here: Rig) -> subprocess.Popen[str]:
    """A run here, on the laptop, which trains and scores there: both see the run directory."""
    (here.work / "ours.yaml").write_text(f"simulation: {{workers: 1}}\ntraining: {{globus: {here.endpoint.uuid}}}\n")
    return here.start("run", WORKFLOW, "--site", "ours.yaml", "--set", "frames=400", "--run-dir", "trained")


@pytest.fixture(scope="module")
def theirs(here: Rig) -> Iterator[Endpoint]:
    """An ordinary user's endpoint, which may not be online yet; where the tests' user is one, that of all tests."""
    if os.geteuid() != 0:
        yield here.endpoint
        return
    here.home.parent.chmod(0o755)
    made = Endpoint(here.service, here.home.parent / "user", user=NOBODY)
    try:
        made.begin()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def submission(here: Rig, theirs: Endpoint) -> subprocess.Popen[str]:
    """The submission of a long run of theirs, which may not have come through yet."""
    theirs.wait()
    here.run("endpoints", "add", "theirs", theirs.uuid, "--folder", str(theirs.home / "runs"))
    return here.start("submit", WORKFLOW, "--at", "theirs", "--workers", "1", "--name", "user")


@pytest.fixture(scope="module")
def following(here: Rig, name: str) -> list[subprocess.Popen[str]]:
    """Two that follow the long run, and look every few seconds whether it has ended."""
    words = (("logs", name, "-f"), ("fetch", name, "--what", "models", "--follow", "--to", "followed"))
    return [here.start("remote", *each) for each in words]


@pytest.mark.usefixtures("theirs")
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
    assert len(drivers(here, name)) == 1
    (listed,) = json.loads(here.run("remote", "list", "--json").stdout)["runs"]
    assert (listed["name"], listed["at"], listed["state"]) == (name, "here", "running")


def test_a_laptop_without_network_loses_nothing(here: Rig, name: str) -> None:
    offline = here.environment | {"http_proxy": "http://127.0.0.1:9", "no_proxy": ""}
    before = here.environment
    here.environment = offline
    assert "sites continue" in here.run("remote", "status", name, code=4).stderr
    here.environment = before
    assert state(here, name) == "running"


def test_a_run_outlives_its_endpoint(here: Rig, name: str) -> None:
    before = drivers(here, name)
    here.endpoint.stop()
    assert "offline" in here.run("remote", "status", name, code=4).stderr
    assert drivers(here, name) == before
    here.endpoint.start()
    assert state(here, name) == "running"


@pytest.mark.usefixtures("in_job", "trained", "submission")
def test_it_is_looked_at_as_a_run_here(here: Rig, name: str) -> None:
    until(lambda: frames(here, name) >= 100)
    records = json.loads(here.run("remote", "journal", name, "--json").stdout)["records"]
    there = (here.runs / name / "journal.jsonl").read_text().splitlines()
    assert [record["t"] for record in records] == [json.loads(line)["t"] for line in there[: len(records)]]
    assert len(records) > 10
    assert "after 20 frames" in here.run("remote", "why", name, "w0.1").stdout
    assert "walk runs in" in here.run("remote", "logs", name).stdout


def test_what_is_said_is_journalled_with_who_said_it(here: Rig, name: str) -> None:
    for word in ("pause", "continue"):
        here.run("remote", "tell", name, word)
    run = open_run(here.runs / name)
    assert tells(run) == ["pause", "continue"]
    assert all("@" in each.who for each in file.read(run.journal, Tell))
    wrong = here.run("remote", "tell", name, "set", "framess=1", code=2)
    assert "framess" in wrong.stderr


def test_a_copy_is_whole_while_the_run_grows(here: Rig, name: str) -> None:
    """Every frame that its journal speaks of is there; who has opened it sees what the next fetch brings."""
    sizes = [fetched(here, name, "frames,models")]
    copy = open_run(here.work / "runs" / name)
    opened = opened_run(copy.path)
    with serving(copy) as served:
        until(lambda: shown(served, name)["change"] > 0)
        assert shown(served, name)["facts"]["frames"] == opened.state["frames"] == sizes[0]
        until(lambda: frames(here, name) > sizes[0])
        sizes.append(fetched(here, name, "figures,frames,models"))
        until(lambda: shown(served, name)["facts"]["frames"] > sizes[0])
        found = shown(served, name)
        assert found["facts"]["frames"] == opened.state["frames"] == sizes[1]
        assert (found["status"], found["flaws"]) == ("running", [])
        assert f"{name} at here" in found["copy"]
        assert not found["may_act"]
    copy.report.unlink()
    write_report(copy)
    assert not kept(copy)["panels"]["trouble"], "and here, from the copy"
    assert not (copy.path / "bus").exists(), "the password of the bus stays where it is"
    assert "not ended" in copy.report.read_text(), "drawn there, where the frames are"
    refused = here.run("resume", str(copy.path), code=2)
    assert f"remote tell | resume {name}" in refused.stderr
    assert "at here" in here.run("status", str(copy.path)).stdout


def test_what_is_too_large_stays_and_is_named(here: Rig, name: str) -> None:
    left_there = here.run("remote", "fetch", name, "--what", "frames", "--to", "small", "--most", "0.001").stderr
    assert str(here.runs / name) in left_there
    assert "globus transfer" in left_there
    assert not list((here.work / "small").glob("frames.zarr/*/*/c"))


def test_no_secret_is_in_what_a_run_wrote_or_shows(here: Rig, name: str) -> None:
    """Nor does any process of the run have one in its environment."""
    secrets = [here.service.secret, *here.service.tokens]
    assert secrets[1:]
    for process in psutil.process_iter():
        assert not any(each in _command(process) for each in secrets)
    mine = [psutil.Process(pid) for pid in drivers(here, name)]
    assert mine
    for process in [*mine, *(child for each in mine for child in each.children(recursive=True))]:
        assert not any(each in str(process.environ()) for each in secrets)
    kept = ("storage.db", "user_environment.yaml")  # the SDK's own store, and what this test gives the endpoint
    files = [path for top in (here.endpoint.home, here.home) for path in top.rglob("*") if path.name not in kept]
    for path in files:
        if path.is_file():
            content = path.read_bytes()
            assert not any(each.encode() in content for each in secrets), path


def test_what_is_wrong_with_a_workflow_is_said_in_one_line_before_it_starts(here: Rig) -> None:
    wrong = here.run("submit", WORKFLOW, "--at", "here", "--set", "framess=3", code=2)
    assert "'frames'" in wrong.stderr
    assert wrong.stderr.count("\n") == 1


def test_a_driver_that_died_leaves_its_exit_code_and_last_words_and_its_run_goes_on(here: Rig, name: str) -> None:
    before = frames(here, name)
    until(lambda: frames(here, name) > before)
    driver = owner(here.runs / name)
    assert driver is not None
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: there(here, name) == "ended", look_s=0.2)
    shown = here.run("remote", "status", name).stdout
    assert f"exit code -{signal.SIGKILL.value}" in shown
    said = Submitted(str(here.runs), name).log.read_text().splitlines()
    assert said[-1] in shown, "the last lines that it printed"
    here.run("remote", "resume", name, "--set", "frames=90000")
    until(lambda: tells(open_run(here.runs / name)) == ["pause", "continue", "set"])


def test_a_run_of_an_ordinary_user_is_lost_with_all_that_drove_it(
    here: Rig, theirs: Endpoint, submission: subprocess.Popen[str]
) -> None:
    """Their endpoint gives its tasks all of its environment, the client's secret too; the run has none of it."""
    folder = theirs.home / "runs"
    said = submission.communicate(timeout=HANGS_S)
    assert submission.returncode == 0, said
    until(lambda: (folder / "user" / "journal.jsonl").exists())
    assert state(here, "user") == "running"
    run = [each for each in left(folder) if "steersman" in _command(each)]
    assert run
    if theirs is not here.endpoint:
        assert {each.uids().real for each in run} == {NOBODY}
    assert not any(here.service.secret in str(each.environ()) for each in run)
    for each in (Submitted(str(folder), "user").path, folder / "user"):
        holder = owner(each)
        assert holder is not None
        os.kill(holder.pid, signal.SIGKILL)
    until(lambda: Submitted(str(folder), "user").state()["state"] == "lost")
    assert state(here, "user") == "lost"
    if theirs is not here.endpoint:
        theirs.end()


@pytest.mark.usefixtures("following")
def test_a_cancelled_run_comes_home(here: Rig, name: str) -> None:
    here.run("remote", "cancel", name)
    assert code(here, name) == 130
    assert not drivers(here, name)
    here.run("remote", "fetch", name, "--what", "all")
    copy = open_run(here.work / "runs" / name)
    assert verify(copy) == []
    assert History(copy).state.frames == History(open_run(here.runs / name)).state.frames
    mark = copies.of(copy.path)
    assert mark is not None
    assert mark.state == "ended"


def test_a_driver_in_a_job_of_the_endpoint(here: Rig, in_job: str) -> None:
    """One task that lasts as long as the run, beside which others are answered."""
    assert "budget" in here.run("remote", "watch", in_job).stdout
    until(lambda: there(here, in_job) == "ended", look_s=0.2)
    assert code(here, in_job) == 0
    assert len(list(file.read(here.runs / in_job / "journal.jsonl", Session))) == 1, "it was submitted twice"


def test_a_run_here_trains_and_scores_there(here: Rig, trained: subprocess.Popen[str]) -> None:
    """Parsl's GlobusComputeExecutor with the same endpoint."""
    trained.communicate(timeout=HANGS_S)
    state = History(open_run(here.work / "trained")).state
    assert state.models.newest
    assert state.scored_with
    assert sum(len(here.service.groups[group]) for group in here.service.watched) >= 2, "tasks of Parsl's executor"


def test_what_follows_a_run_ends_with_it(following: list[subprocess.Popen[str]]) -> None:
    for each in following:
        each.communicate(timeout=HANGS_S)
        assert each.returncode == 0


def state(here: Rig, name: str) -> str:
    return str(json.loads(here.run("remote", "status", name, "--json").stdout)["remote"]["state"])


def there(here: Rig, name: str) -> str:
    """The same, without asking for it."""
    return str(Submitted(str(here.runs), name).state()["state"])


def code(here: Rig, name: str) -> int:
    return int(Submitted(str(here.runs), name).state()["code"])


def fetched(here: Rig, name: str, what: str) -> int:
    """Fetch a run. Returns: how many frames the copy has; each of them is there."""
    here.run("remote", "fetch", name, "--what", what)
    copy = open_run(here.work / "runs" / name)
    assert verify(copy) == []
    known = History(copy).state.frames
    assert sum(copy.frames.count(walker) for walker in copy.frames.walkers()) >= known > 0
    return known


def shown(served: Served, name: str) -> dict[str, Any]:
    """What the dashboard says of a run; it can be read."""
    found: dict[str, Any] = served.ask(f"/run/{name}/state").values
    assert not found.get("trouble")
    return found


def frames(here: Rig, name: str) -> int:
    """Of the run itself, without asking for it."""
    journal = here.runs / name / "journal.jsonl"
    return History(open_run(journal.parent)).state.frames if journal.exists() else 0


def tells(run: RunDirectory) -> list[str]:
    """What was said to it."""
    return [each.verb for each in file.read(run.journal, Tell)]


def drivers(here: Rig, name: str) -> list[int]:
    """Processes of a run; but those that are copies of one for a moment, until they become what it starts."""
    words = ("steersman.cli", f"{here.runs}/{name}")
    found = {each.pid: each for each in left(here.runs) if all(word in _command(each) for word in words)}
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
