"""What the first segments of a run show of its file's mistakes is noted once, and of a file without them nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.engine.oddities import Oddities
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, Hired, Note, Published, Start
from steersman.journal.state import State
from steersman.store import FRAME, SEGMENT, Frames, GroupWriter

ROWS, DT = 10, 0.1
EPOCH = 1.8e9  # seconds since 1970


def noted(
    folder: Path,
    *,
    seeds: int = 4,
    counts: str = "segment",
    first: float = DT,
    draws: bool = False,
    rows: int = ROWS,
    still: int = 0,
    drew: bool = True,
    split: int = 0,
    retried: bool = False,
) -> int:
    """How many notes a run of two walkers with two segments each leaves, looked at after every publication.

    Args:
        seeds: how many different simulations its four seeds give.
        counts: where time is counted from: the segment's start, the prepared start, or 1970.
        first: time of a segment's first frame.
        rows: frames of a segment.
        still: so many of its first frames are the same, but for the start itself.
        drew: walkers say that their first segments drew random numbers.
        split: both second segments begin at one frame, and are so many different simulations; 0: each at its own.
        retried: both have one seed, for a start was run again.
    """
    frames, recorder = Frames(folder / "frames"), Recorder(Journal(folder / "journal.jsonl"), State())
    oddities = Oddities(frames, recorder, draws=draws)
    oddities.look()
    frames.path.mkdir()
    writers = [GroupWriter(frames.path / f"w{walker}", attributes={"drew": drew}) for walker in (0, 1)]
    for walker in (0, 1):
        recorder.record(Hired(walker=walker, slot=walker))
    for number in (0, 1):
        for walker, writer in enumerate(writers):
            times = first + DT * np.arange(rows)
            times += {"segment": 0.0, "prepared": number * times[-1:].sum(), "1970": EPOCH}[counts]
            which = 2 * number + (walker % split if number and split else walker)
            x = np.random.default_rng(which % seeds).normal(size=(rows, 3))
            x[:still] = 0.5
            x[:1] = 1.0  # the start itself, before a step
            if rows:
                writer.extend(FRAME, {"time": times, "x": x})
            start, parent = 2 * number + walker, [0 if split else walker, rows - 1] if number else [-1, -1]
            seed = 7 + number if retried else 7 + start
            row = [number, start, *parent, seed, 0, number * rows, (number + 1) * rows, 0]
            writer.append(SEGMENT, {"segments": np.array(row, np.int64)})
            writer.publish()
            recorder.record(Published(walker=walker, frames=(number + 1) * rows, segments=number + 1))
            oddities.look()
    Oddities(frames, recorder, draws=draws).look()  # as of the driver that resumes the run
    recorder.journal.close()
    return sum(isinstance(note, Note) for note in recorder.state.notes)


@pytest.mark.parametrize("first", [0.0, DT, 3.5])
@pytest.mark.parametrize(("counts", "notes"), [("segment", 0), ("prepared", 1), ("1970", 1)])
def test_a_time_that_is_not_the_segments_own_is_noted_once(
    tmp_path: Path, counts: str, first: float, notes: int
) -> None:
    assert noted(tmp_path, counts=counts, first=first) == notes


@pytest.mark.parametrize(
    ("asked", "notes"),
    [
        ({"seeds": 4}, 0), ({"seeds": 4, "drew": False}, 0), ({"seeds": 1}, 1), ({"seeds": 1, "draws": True}, 0),
        ({"seeds": 1, "still": 8}, 1), ({"seeds": 1, "still": 9}, 0), ({"seeds": 1, "still": ROWS}, 0),
        ({"seeds": 1, "still": ROWS, "drew": False}, 1),
        ({"split": 2}, 0), ({"split": 1}, 1), ({"split": 1, "draws": True}, 1), ({"split": 1, "still": 9}, 0),
        ({"split": 1, "retried": True}, 0),
    ],
)  # fmt: skip
def test_seeds_that_change_nothing_are_noted_once(tmp_path: Path, asked: dict[str, Any], notes: int) -> None:
    """Where a policy draws members, two segments at the prepared start do not begin alike; and of a rare event two
    segments in which it does not happen, or once, are alike by chance, unless they drew no random number."""
    assert noted(tmp_path, **asked) == notes


def test_segments_without_frames_have_no_oddities(tmp_path: Path) -> None:
    assert noted(tmp_path, seeds=1, rows=0) == 0


@pytest.mark.parametrize(("how", "frames", "notes"), [("finished", 0, 1), ("finished", 1, 0), ("stopped", 0, 0)])
def test_segments_that_finish_without_a_frame_are_noted_once(tmp_path: Path, how: str, frames: int, notes: int) -> None:
    recorder = Recorder(Journal(tmp_path / "journal.jsonl"), State())
    oddities = Oddities(Frames(tmp_path / "frames"), recorder, draws=False)
    recorder.record(Hired(walker=0, slot=0))
    for number in range(3):
        span: dict[str, Any] = {"walker": 0, "segment": number, "start": number, "first_row": number * frames}
        recorder.record(Start(start=number, seed=number))
        recorder.record(Began(**span))
        recorder.record(Ended(**span, end_row=(number + 1) * frames, how=how))
        oddities.look()
    assert len(recorder.state.notes) == notes
    recorder.journal.close()


def test_frames_that_cannot_be_read_are_not_judged(tmp_path: Path) -> None:
    recorder = Recorder(Journal(tmp_path / "journal.jsonl"), State())
    for walker in (0, 1):
        recorder.record(Hired(walker=walker, slot=walker))
        recorder.record(Published(walker=walker, frames=ROWS, segments=0))
        recorder.state.walkers[walker].published_segments = 1
    Oddities(Frames(tmp_path / "gone"), recorder, draws=False).look()
    assert not recorder.state.notes
    recorder.journal.close()
