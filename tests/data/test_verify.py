"""Damage is found, told and set aside, and the run goes on without it."""

import math
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from steersman.calls.opened import open_run
from steersman.data.history import History
from steersman.data.lineage import since_prepared
from steersman.data.repair import cost, repair
from steersman.data.replay import replay
from steersman.data.verify import verify
from steersman.data.why import lines, why
from steersman.journal import file as journal
from steersman.journal import published
from steersman.journal.modes.biases import Biases, file_of
from steersman.journal.records import Began, Ended, Hired, Published, Record, Start
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State
from steersman.stages import loading
from steersman.steering import Bias
from steersman.store import Span, Window
from steersman.store.names import SegmentName
from steersman.system.errors import BadInput
from tests.engine.conftest import await_record, opened, resumed, started, steersman

pytestmark = pytest.mark.slow
COLUMNS = "walker", "number", "start", "parent_row", "first", "end"
BIASED = Path(__file__).parents[1] / "faults" / "biased.py"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with scores, two models, a bias and frames of two walkers, whose driver was killed."""
    cwd = tmp_path_factory.mktemp("original")
    run = cwd / "run"
    driver = started("run", BIASED, "--set", "frames=100000000", "--set", "pause_s=0", "--run-dir", run, cwd=cwd)
    await_record(
        run,
        lambda state: (
            state.models.newest >= 2 and state.scored_with >= 2 and pushed(state) and written(state) >= {0, 1}
        ),
    )
    driver.kill()
    driver.wait()
    return run


def written(state: State) -> set[int]:
    """The walkers that have frames."""
    return {number for number, walker in state.walkers.items() if walker.counted_frames}


def pushed(state: State) -> bool:
    """Whether there are published frames of several versions of the bias."""
    starts = [each.start for each in state.segments if each.counts and state.walkers[each.walker].frames > each.first]
    return len({state.mode(Biases).of_start[start] for start in starts if start < len(state.mode(Biases).of_start)}) > 3


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> RunDirectory:
    shutil.copytree(original, tmp_path / "run")
    directory = RunDirectory(tmp_path / "run")
    assert [problem for problem in verify(directory) if problem.what != "journal"] == []
    return directory


def flip(path: Path) -> None:
    """Change one byte in the first tenth of a file, where data is."""
    data = bytearray(path.read_bytes())
    data[10] ^= 0xFF
    path.write_bytes(data)


def in_use(directory: RunDirectory) -> int:
    """The model that the newest scores are of; the second may have been worse than the first."""
    return opened(directory.path)[1].scored_with


def shard(directory: RunDirectory, group: str) -> Path:
    return next(path for path in sorted((directory.path / group).glob("**/c/*")) if path.is_file())


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def times(directory: RunDirectory) -> dict[tuple[str, int], float]:
    """Simulated time since the prepared start of each frame that counts."""
    history = History(directory)
    frames = [(span.walker, row) for span in published.spans(history.state) for row in range(span.first, span.end)]
    walkers, rows = np.array([int(walker[1:]) for walker, _ in frames]), np.array([row for _, row in frames])
    return dict(zip(frames, since_prepared(history, walkers, rows).tolist(), strict=True))


DAMAGES: dict[str, Callable[[RunDirectory], object]] = {
    "frames": lambda run: flip(next((run.path / "frames.zarr/w0/position").glob("c/0/0"))),
    "scores": lambda run: flip(shard(run, f"scores.zarr/{in_use(run):04d}/x")),
    "model": lambda run: flip(run.model(in_use(run)) / "weights.safetensors"),
    "bias": lambda run: flip(file_of(run, 1)),
    "journal": lambda run: change(run.journal, '"seed"', '"sead"'),
    "decisions": lambda run: change(run.decisions, '"start": 3,', '"start": 0,'),
    "settings": lambda run: run.workflow.unlink(),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_changed_byte_is_found_wherever_it_is(copy: RunDirectory, what: str) -> None:
    DAMAGES[what](copy)
    assert what in {problem.what for problem in verify(copy)}


def test_missing_frames_and_missing_models_are_found(copy: RunDirectory) -> None:
    shutil.rmtree(copy.path / "frames.zarr" / "w1")
    shutil.rmtree(copy.model(1))
    file_of(copy, 1).unlink()
    assert {(problem.what, problem.number) for problem in verify(copy)} >= {("frames", 1), ("model", 1), ("bias", 1)}


@pytest.mark.parametrize("kind", [Hired, Start, Began, Ended, Published])
def test_a_journal_with_a_damaged_line_is_made_good(copy: RunDirectory, kind: type[Record]) -> None:
    """What the line said comes back from the store, and why a start was chosen from the decisions."""
    before, known = times(copy), History(copy)
    assert not any(map(math.isnan, before.values()))
    story = list(journal.read(copy.journal))
    alone = [not (record.more or before.more) for before, record in pairwise(story)]  # else all go with one of them
    places = [number for number, record in enumerate(story) if type(record) is kind and alone[number - 1]]
    at = places[0] if kind is Hired else places[len(places) // 2]  # else it would be the last walker, in its place
    lines = copy.journal.read_bytes().splitlines(keepends=True)
    copy.journal.write_bytes(b"".join([*lines[:at], lines[at].replace(b"1", b"2"), *lines[at + 1 :]]))
    problems = verify(copy)
    assert problems[0].what == "journal"
    assert History(copy).overview().flaws
    assert bool(cost(copy, problems)) == (kind is Start), "nobody knows which model its segment was given"
    repair(copy, problems)
    assert not verify(copy)
    kept = list(journal.read(copy.journal))
    assert kept[:at] == story[:at]
    assert [record for record in kept if record in story] == [*story[:at], *story[at + 1 :]]
    assert (copy.path / "aside" / "journal.jsonl").exists()
    after = History(copy)
    assert not after.flaws
    assert after.state.frames == known.state.frames
    assert after.state.simulated == pytest.approx(known.state.simulated)
    assert ran(after) == ran(known)
    assert times(copy) == before
    tables = [
        {name: getattr(of.segments, name)[np.lexsort((of.segments.number, of.segments.walker))] for name in COLUMNS}
        for of in (after, known)
    ]
    for name in COLUMNS:
        np.testing.assert_array_equal(*(table[name] for table in tables))


def test_what_a_repair_of_the_journal_leaves_out_is_said_before(copy: RunDirectory) -> None:
    """Where starts are held out, the store does not know which: a segment whose start is lost counts no more."""
    story = list(journal.read(copy.journal))
    at, first = next((at, record) for at, record in enumerate(story) if isinstance(record, Start))
    journal.rewrite(copy.journal, [*story[:at], structs.replace(first, held_out=True), *story[at + 1 :]])
    known = History(copy).state.frames
    alone = (now for before, now in pairwise(story) if isinstance(now, Start) and not (now.more or before.more))
    start = next(record.start for record in alone if record.start != first.start)
    change(copy.journal, f'"start":{start},"seed"', f'"start":{start},"sead"')
    segment = next(each.name for each in History(copy).state.segments if each.start == start)
    assert any("nobody knows" in line for line in lines(why(History(copy), segment)))
    problems = verify(copy)
    said = cost(copy, problems)
    repair(copy, problems)
    lost = known - History(copy).state.frames
    assert lost > 0
    assert said.startswith(f"{lost:,} of {known:,} frames (w")


def ran(history: History) -> list[tuple[object, ...]]:
    """What is known of each segment but its moments."""
    return [
        (each.walker, each.number, each.start, each.first, each.end, each.how, each.counts, each.state)
        for each in history.state.segments
    ]


def test_a_walker_is_whole_whose_last_end_was_lost(copy: RunDirectory) -> None:
    """The event is lost with the server and the frames are published; only the store knows where the segment ends."""
    story = list(journal.read(copy.journal))
    walkers = State(story).walkers
    ends = [
        (at, end) for at, end in enumerate(story) if isinstance(end, Ended) and not (end.more or story[at - 1].more)
    ]
    at, end = next(each for each in reversed(ends) if each[1].segment < walkers[each[1].walker].published_segments)
    published = Published(t=end.t, walker=end.walker, frames=end.end_row, segments=end.segment + 1)
    journal.rewrite(copy.journal, [*story[:at], published])
    assert not [problem for problem in verify(copy) if problem.what in ("journal", "frames")]


def test_what_is_damaged_is_set_aside_and_the_run_goes_on_without_it(copy: RunDirectory) -> None:
    version = in_use(copy)
    DAMAGES["frames"](copy)
    DAMAGES["model"](copy)
    newest = opened(copy.path)[1].mode(Biases).versions[-1]
    flip(file_of(copy, newest.bias))
    copy.environment_file.unlink()  # which only says with what it was made
    found = steersman("verify", copy.path, cwd=copy.path)
    assert found.returncode == 6
    assert "frames.zarr/w0" in found.stdout
    assert f"models/{version:04d}" in found.stdout
    before = opened(copy.path)[1].walkers[0].counted_frames
    lost = cost(copy, verify(copy))
    assert lost.endswith(f"frames (w0), model {version}, bias {newest.bias}")
    assert lost in found.stderr
    repaired = steersman("verify", copy.path, "--repair", cwd=copy.path)
    assert (repaired.returncode, lost in repaired.stderr) == (0, True)
    walker = opened(copy.path)[1].walkers[0]
    assert walker.counted_frames < before
    assert (copy.path / "aside" / "frames.zarr" / "w0").is_dir() == walker.damaged != bool(walker.unreadable)
    whole = steersman("verify", copy.path, cwd=copy.path)
    assert whole.returncode == 0, whole.stdout
    stored, fresh = copy.frames.count("w1"), opened(copy.path)[1].next_start

    def done(state: State) -> bool:
        made = state.mode(Biases).newest
        return bool(state.scored_with > version and made and made.model > version)

    state = resumed(copy.path, until=done)
    fresh_rows = state.walkers[0].frames - walker.frames  # that were committed, and that the journal did not know yet
    assert state.walkers[0].counted_frames <= walker.counted_frames + fresh_rows
    assert 0 < state.walkers[1].counted_frames <= stored, "less what was run twice"
    assert not state.models[version - 1].accepted
    assert verify(copy) == []
    assert newest.bias not in {start.bias for start in journal.read(copy.journal, Start) if start.start >= fresh}


def test_each_version_of_a_bias_is_made_again_from_the_scores_it_was_made_of(copy: RunDirectory) -> None:
    told = replay(copy, loading.load(copy.workflow))
    assert told["different"] == []
    assert told["same_biases"] == told["biases"] == len(opened(copy.path)[1].mode(Biases).versions) >= 2


def test_frames_store_the_energy_that_their_version_has_there(copy: RunDirectory) -> None:
    """And no walker imported torch, for no segment asked for its model."""
    starts = {start.start: start for start in journal.read(copy.journal, Start)}
    versions = set[int]()
    state = opened(copy.path)[1]
    made = {0: ""} | {bias.bias: bias.sha256 for bias in state.mode(Biases).versions}
    assert all(start.bias_sha256 == made[start.bias] for start in starts.values())
    for segment in state.segments:
        start, end = starts[segment.start], state.walkers[segment.walker].rows_end(segment)
        if not (segment.counts and segment.first < end):
            continue
        frames = Window(copy.frames, [Span(f"w{segment.walker}", segment.first, end)])
        bias = Bias.from_bytes(file_of(copy, start.bias).read_bytes()) if start.bias else None
        expected = bias.energy(frames["position"][:, 0]) if bias else np.zeros(frames.rows)
        np.testing.assert_allclose(frames["bias"], expected, atol=1e-4)
        assert not frames["torch"].any()
        versions.add(start.bias)
    assert len(versions) > 2


def test_frames_whose_ancestors_were_set_aside_are_there_without_a_time(copy: RunDirectory) -> None:
    """What led to them is not: their lineage is refused by name, and no other part of the run is called damaged."""
    segments = History(copy).segments
    of = next(at for at in segments.made.tolist()[::-1] if {*segments.walker[segments.lineage(at)]} == {0, 1})
    flip(shard(copy, f"frames.zarr/w{1 - segments.walker[of]}"))
    shutil.rmtree(copy.path / "frames.zarr" / f"w{1 - segments.walker[of]}")
    repair(copy, verify(copy))
    assert verify(copy) == []
    run = open_run(copy.path)
    whole = SegmentName(int(segments.walker[of]), int(segments.number[of]))
    stored = run.dataset().isel(frame=(run.dataset().segment == str(whole)).values)
    found = run.frame(f"{whole}:0")
    np.testing.assert_array_equal(found.position, stored.position[0])
    assert "time" not in found.coords
    with pytest.raises(BadInput):
        run.lineage(str(whole))


def test_a_run_without_its_workflow_says_what_it_needs(copy: RunDirectory) -> None:
    copy.workflow.unlink()
    assert steersman("verify", copy.path, "--repair", cwd=copy.path).returncode == 6
    assert steersman("resume", copy.path, cwd=copy.path).returncode == 2
