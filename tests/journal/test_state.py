"""What a state makes of the story that the journal tells."""

from steersman.journal.state import State


def test_only_the_segment_that_ran_is_blamed_for_its_walkers_death() -> None:
    """Segment 0 ended well and was not published yet when segment 1 killed the process."""
    state = State()
    state.apply({"kind": "walker", "t": 0.0, "walker": 0, "slot": 0})
    for start in (0, 1):
        state.apply({"kind": "start", "t": 0.0, "start": start, "slot": 0, "parent": [7, start, 0], "model": 0})
        begun = {"walker": 0, "segment": start, "start": start, "first_row": 5 * start, "waited_s": 0.0}
        state.apply({"kind": "began", "t": 1.0, **begun})
    state.apply({"kind": "lost", "t": 2.0, "walker": 0, "cause": "WorkerLost", "keep": True, "blame": True})
    assert state.deaths == {(7, 1): 1}
    assert [state.starts[start].losses for start in (0, 1)] == [0, 1]
