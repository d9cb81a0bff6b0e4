"""When segments ended: by their own record, with their walker, with their session, or not yet."""

from pathlib import Path
from typing import Any

import pytest

from steersman.data.history import History
from steersman.journal.file import Journal
from steersman.journal.recorder import Recorder
from steersman.journal.records import Began, Ended, FrameId, Hired, Left, Lost, Note, Published, Run, Session, Start
from steersman.journal.run_directory import RunDirectory
from steersman.journal.state import State

NOW = 1e9


def test_a_segment_ends_when_it_ends_or_its_walker_is_lost_or_its_driver_was_last_heard_of(tmp_path: Path) -> None:
    """Walker 0 leaves a whole segment; 1 is lost at 40; 2 dies with its driver, heard of at 50; 3 lives, at 100."""
    at = [NOW]
    recorder = Recorder(Journal(tmp_path / "journal.jsonl", clock=lambda: at[0]), State())
    begins: list[tuple[int, dict[str, Any]]] = [
        (walker, {"walker": walker, "segment": 0, "start": walker, "first_row": 0}) for walker in range(4)
    ]
    story = [
        (0, Run(workflow="w", seed=0)), (1, Session(host="h", pid=1)),
        *((2, Start(start=number, seed=0)) for number, _ in begins),
        *((3, Hired(walker=number, slot=number)) for number, _ in begins[:3]),
        *((10 + number, Began(**fields)) for number, fields in begins[:3]),
        (20, Ended(**begins[0][1], end_row=3, how="finished")), (30, Left(walker=0, reason="done")),
        (40, Lost(walker=1, cause="killed", keep=True)), (50, Note(text="the last that is heard")),
        (80, Session(host="h", pid=2, after=NOW + 50)), (81, Lost(walker=2, cause="its driver died", keep=True)),
        (82, Hired(walker=3, slot=0)), (90, Began(**begins[3][1])), (100, Note(text="now")),
    ]  # fmt: skip
    for moment, record in story:
        at[0] = NOW + moment
        recorder.record(record)
    recorder.journal.close()
    history = History(RunDirectory(tmp_path))
    segments = history.segments
    assert segments.how.tolist() == ["finished", "lost", "lost", "running"]
    assert (segments.began - NOW).tolist() == [10, 11, 12, 90]
    assert (segments.ended - NOW).tolist() == [20, 40, 50, 100]
    assert [history.gone(walker) - NOW for walker in range(4)] == [30, 40, 50, 100]


@pytest.mark.parametrize("reads", [None, True, False])
@pytest.mark.parametrize("state", [True, False])
def test_segments_that_look_neither_at_their_frame_nor_leave_a_state_have_no_parent(
    reads: bool | None, state: bool, tmp_path: Path
) -> None:
    """Each begins at the prepared start, whatever was chosen; nothing follows from what was before it."""
    recorder = Recorder(Journal(tmp_path / "journal.jsonl"), State())
    recorder.record_all([Run(workflow="w", seed=0), Session(host="h", pid=1), Hired(walker=0, slot=0)])
    for number in range(3):
        parent = FrameId(0, 3 * number - 1, number - 1) if number else None
        of: dict[str, Any] = {"walker": 0, "segment": number, "start": number, "first_row": 3 * number}
        end = 3 * number + 3
        recorder.record_all([
            Start(start=number, seed=0, parent=parent), Began(**of),
            Ended(**of, end_row=end, how="finished", state=state),
            Published(walker=0, frames=end, segments=number + 1, reads=reads if number else None),
        ])  # fmt: skip
    recorder.journal.close()
    segments = History(RunDirectory(tmp_path)).segments
    blind = reads is False and not state
    assert segments.parent.tolist() == ([-1, -1, -1] if blind else [-1, 0, 1])
    assert segments.parent_row.tolist() == ([-1, -1, -1] if blind else [-1, 2, 5])
    assert segments.lineage(2) == ([2] if blind else [0, 1, 2])
    assert not segments.lost.any()
