"""What a state makes of the story that the journal tells."""

from steersman.journal.records import Began, FrameId, Hired, Lost, Start
from steersman.journal.state import State


def test_only_the_segment_that_ran_is_blamed_for_its_walkers_death() -> None:
    """Segment 0 ended well and was not published yet when segment 1 killed the process."""
    state = State()
    state.apply(Hired(walker=0, slot=0))
    for start in (0, 1):
        state.apply(Start(start=start, seed=start, parent=FrameId(7, start, 0)))
        state.apply(Began(t=1.0, walker=0, segment=start, start=start, first_row=5 * start))
    state.apply(Lost(t=2.0, walker=0, cause="WorkerLost", keep=True, blame=True))
    assert state.deaths == {(7, 1): 1}
    assert [state.starts[start].losses for start in (0, 1)] == [0, 1]
