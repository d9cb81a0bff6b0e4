"""Blocks that bring no worker, or wait: told, borne for a while, and then the end of the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsl.jobs.states import JobState, JobStatus

from steersman.executors.parsl_config import provider
from steersman.executors.registration import GIVEN_UP_S, NoWorkers, Registration
from steersman.executors.site_files import load_site
from tests.executors.conftest import Commands


class Blocks:
    """What Registration looks at of Parsl's executor."""

    label, all_addresses, bad_state_is_set = "simulation", {"10.0.0.1"}, False
    _last_poll_time = 0.0
    drain_period: int | None = None

    def __init__(self, folder: Path) -> None:
        self.script_dir, self.provider = str(folder), self
        self.worker_logdir = str(folder)
        self.blocks_to_job_id = {str(block): f"job {block}" for block in range(4)}
        self.connected: list[str] = []
        self.lost: set[str] = set()
        self.cancelled: list[str] = []
        self.asked = 0
        self.cause: Exception | None = None

    def connected_blocks(self) -> list[str]:
        return self.connected

    def connected_managers(self) -> list[dict[str, str]]:
        return [{"block_id": block} for block in self.connected if block not in self.lost]

    min_blocks = 2

    def scale_out_facade(self, blocks: int) -> None:
        self.asked += blocks

    def cancel(self, jobs: list[str]) -> None:
        self.cancelled = jobs

    def set_bad_state_and_fail_all(self, cause: Exception) -> None:
        self.cause = cause


def states(*each: JobState) -> dict[str, JobStatus]:
    return {str(block): JobStatus(state) for block, state in enumerate(each)}


def test_three_blocks_without_a_worker_end_the_wait_with_their_last_words(tmp_path: Path) -> None:
    """Words that are not UTF-8 are told as well as they can be."""
    (tmp_path / "parsl.simulation.block-2.17.stderr").write_bytes(b"module: cannot load \xff\xfe cuda\n")
    blocks, missing = Blocks(tmp_path), JobState.MISSING
    Registration("m", 300)(blocks, states(missing, missing))
    assert blocks.cause is None
    Registration("m", 300)(blocks, states(missing, missing, missing, JobState.PENDING))
    assert isinstance(blocks.cause, NoWorkers)
    assert "module: cannot load" in str(blocks.cause)
    assert "block-2.17.stderr" in str(blocks.cause)
    assert blocks.cancelled == ["job 3"], "what is still in the queue does not stay there"


INIT_FAILED = "module: no cuda here\nsteersman: worker_init on n3 failed with exit code 1: module load cuda\n"


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.FAILED])
def test_a_line_of_worker_init_that_fails_is_told_with_its_node_while_others_work(
    state: JobState, tmp_path: Path
) -> None:
    """Whether the block goes on or ends; once."""
    file = tmp_path / "parsl.simulation.block-0.17.stderr"
    blocks, watch = Blocks(tmp_path), Registration("m", 300)
    blocks.connected = ["1"]
    watch(blocks, states(JobState.RUNNING, JobState.RUNNING))
    assert watch.missing == [], "the first may still be at it"
    file.write_text(f"{INIT_FAILED}and on it went\n")
    for _ in range(2):
        watch(blocks, states(state, JobState.RUNNING))
    said = " ".join(INIT_FAILED.split())
    assert (blocks.cause, watch.missing) == (None, [f"block 0 of simulation: {said} (see {file})"])


def test_what_a_job_said_that_executors_share_is_told_of_each(tmp_path: Path) -> None:
    """Its `worker_init` ended it before a worker of either began, so there are no words of their own."""
    for job, said in (("another", "all is well\n"), ("job 2", INIT_FAILED)):
        (tmp_path / f"parsl.together.{job[-1]}.5.job").write_text(job)
        (tmp_path / f"parsl.together.{job[-1]}.5.stderr").write_text(said)
    blocks = Blocks(tmp_path)
    Registration("m", 300)(blocks, states(*3 * [JobState.FAILED]))
    assert "exit code 1" in str(blocks.cause)
    assert "parsl.together.2.5.stderr" in str(blocks.cause)


def test_while_some_workers_work_blocks_that_fail_are_asked_for_again(tmp_path: Path) -> None:
    blocks = Blocks(tmp_path)
    blocks.connected = ["3"]
    Registration("m", 300)(blocks, states(*3 * [JobState.FAILED], JobState.RUNNING))
    assert blocks.cause is None


def test_a_refusal_is_borne_for_a_while_and_then_told(tmp_path: Path) -> None:
    refused = {str(n): JobStatus(JobState.FAILED, "Failed to start block 0: QOSMaxSubmitJobLimit") for n in range(3)}
    blocks = Blocks(tmp_path)
    Registration("m", 300, refused_s=60)(blocks, refused)
    assert blocks.cause is None
    Registration("m", 300, refused_s=0)(blocks, refused)
    assert "QOSMaxSubmitJobLimit" in str(blocks.cause)


@pytest.mark.parametrize("other", [JobState.PENDING, JobState.RUNNING])
def test_a_refusal_is_told_once_and_does_not_matter_while_another_block_waits_or_runs(
    other: JobState, tmp_path: Path
) -> None:
    """As where a user may have fewer jobs than the run has blocks."""
    said = "Failed to start block 1: QOSMaxSubmitJobLimit"
    blocks, watch = Blocks(tmp_path), Registration("m", 300, refused_s=0)
    for refused in range(1, 5):
        words = [JobStatus(JobState.FAILED, said) for _ in range(refused)]
        watch(blocks, {"0": JobStatus(other)} | {str(n): each for n, each in enumerate(words, start=1)})
    told = f"the scheduler refuses a job for simulation; the run tries again: {said}"
    assert (blocks.cause, watch.missing) == (None, [told])


def test_who_waits_in_the_queue_is_told_why_once_for_each_job(commands: Commands, tmp_path: Path) -> None:
    commands.says("sbatch", "Submitted batch job 17\n")
    commands.says("squeue", "Resources\n")
    made = provider(load_site("slurm"), "simulation")
    blocks, watch, hasty = Blocks(tmp_path), Registration("m", 300), Registration("m", 300, queued_s=0)
    made.script_dir, blocks.provider, blocks.blocks_to_job_id = str(tmp_path), made, {"0": "17", "1": "18"}
    watch(blocks, states(JobState.PENDING))
    assert watch.waiting == "", "it may begin at once"
    for _ in range(3):
        hasty(blocks, states(JobState.PENDING))
        assert hasty.waiting == "simulation waits for nodes: job 17 is in the queue (Resources)"
    assert commands.asked("squeue").count("\n") == 1
    hasty(blocks, states(JobState.RUNNING))
    assert hasty.waiting == ""
    hasty(blocks, states(JobState.COMPLETED, JobState.PENDING))
    assert "job 18" in hasty.waiting
    hasty(blocks, {"0": JobStatus(JobState.FAILED, "Failed to start block 0: sbatch timed out")})
    assert hasty.waiting == ""
    assert ["sbatch timed out" in told for told in hasty.missing] == [True]


def test_a_block_that_runs_in_silence_is_told_of(tmp_path: Path) -> None:
    blocks = Blocks(tmp_path)
    watch = Registration("m", silent_s=-1)
    watch(blocks, states(JobState.RUNNING))
    assert "check that `worker_init`" in str(blocks.cause)
    assert blocks.cancelled == ["job 0"]
    (tmp_path / "block-0" / "4f").mkdir(parents=True)
    (tmp_path / "block-0" / "4f" / "manager.log").touch()
    watch(blocks, states(JobState.RUNNING))
    assert "not reach 10.0.0.1" in str(blocks.cause)


def test_a_block_without_a_worker_is_replaced_while_others_work(tmp_path: Path) -> None:
    blocks, running = Blocks(tmp_path), JobState.RUNNING
    blocks.connected = ["1"]
    watch = Registration("m", silent_s=-1)
    for _ in range(2):
        watch(blocks, states(running, running))
    assert (blocks.cause, blocks.cancelled, len(watch.missing)) == (None, ["job 0"], 1)
    assert "not started there" in watch.missing[0]


def test_a_block_that_lost_its_workers_and_does_not_end_is_replaced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not one that ends soon, whose workers were told to."""
    now = 1000.0
    monkeypatch.setattr("steersman.executors.registration.time.monotonic", lambda: now)
    blocks, running = Blocks(tmp_path), JobState.RUNNING
    watch = Registration("m", silent_s=1000)
    blocks.connected, blocks.drain_period = ["0", "1"], 500
    watch(blocks, states(running, running))
    blocks.lost = {"0"}
    watch(blocks, states(running, running))
    now += GIVEN_UP_S
    watch(blocks, states(running, running))
    assert (blocks.cancelled, watch.missing) == ([], [])
    for _ in range(2):
        now += 1
        watch(blocks, states(running, running))
        assert (blocks.cause, blocks.cancelled, len(watch.missing)) == (None, ["job 0"], 1)
    now += 500
    blocks.lost = {"0", "1"}
    for _ in range(2):
        watch(blocks, states(running, running))
        now += GIVEN_UP_S + 1
    assert blocks.cancelled == ["job 0"]


def test_blocks_that_end_soon_are_followed_by_as_many_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks, now, running, queued = Blocks(tmp_path), [0.0], JobState.RUNNING, JobState.PENDING
    monkeypatch.setattr("steersman.executors.registration.time.monotonic", lambda: now[0])
    watch = Registration("m", 1e6, succeeded_s=100)

    def asked(at_s: float, *known: JobState) -> int:
        blocks.asked, now[0] = 0, at_s
        watch(blocks, states(*known))
        return blocks.asked

    assert asked(0, running, queued) == 0
    assert asked(50, running, running) == 0
    assert asked(101, running, running) == 1
    assert asked(102, running, running, queued) == 0
    assert asked(149, running, running, running) == 0
    assert asked(151, JobState.COMPLETED, running, running) == 1
    assert asked(152, JobState.COMPLETED, running, running, queued) == 0


@pytest.mark.parametrize("label", ["", "2: "])
def test_a_node_whose_workers_ended_is_named_with_its_last_words_and_the_others_go_on(
    label: str, tmp_path: Path
) -> None:
    """At once when each of the other nodes has come, and once; another is missed after the time that workers take."""
    said = f"{label}process_worker_pool.py: command not found\n{label}steersman: workers on n3 ended with exit code 127"
    (tmp_path / "parsl.simulation.block-0.17.stderr").write_text(f"0: all is well\n{said}\n")
    blocks, watch, hasty = Blocks(tmp_path), Registration("m", 300, nodes=3), Registration("m", -1, nodes=3)
    blocks.connected = ["0"]
    watch(blocks, states(JobState.RUNNING))
    assert watch.missing == [], "the second node may still come"
    hasty(blocks, states(JobState.RUNNING))
    assert hasty.missing[0].startswith("1 of 3 nodes of job job 0 have simulation workers, not n3; ")
    blocks.connected = ["0", "0"]
    for _ in range(2):
        watch(blocks, states(JobState.RUNNING))
    (words,) = watch.missing
    assert words.startswith(
        "2 of 3 nodes of job job 0 have simulation workers, not n3; the run goes on without the others: "
    )
    assert "process_worker_pool.py: command not found steersman: workers on n3 ended" in words
    assert ("all is well" in words) == (not label)
    assert (blocks.cause, blocks.cancelled) == (None, [])


def test_a_block_whose_nodes_have_all_come_lacks_nothing(tmp_path: Path) -> None:
    blocks, watch = Blocks(tmp_path), Registration("m", 300, nodes=2)
    for blocks.connected in (["0", "0"], ["0"]):  # a node that dies afterwards is no matter of this
        watch(blocks, states(JobState.RUNNING))
    watch.silent_s = -1
    watch(blocks, states(JobState.RUNNING))
    assert watch.missing == []
