"""Curves of a run against what it spent: by the stored time of each frame, whatever its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steersman.data.history import History
from steersman.data.yardsticks import amount, follow, measure
from steersman.journal.file import rewrite
from steersman.journal.records import Began, Ended, Hired, Metrics, Published, Record, Run, Scored, Session, Start
from steersman.journal.run_directory import RunDirectory, create
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow
from steersman.stages.yardstick import Yardstick
from steersman.steering import budget
from steersman.store import FRAME, GroupWriter

WORKFLOW = Workflow("steps", stop=budget(frames=1))


@WORKFLOW.yardstick("highest")
def top(p: Params, frames: Any) -> Any:
    return frames["n"]


def run_of(folder: Path, segments: list[list[float]], *, timed: bool) -> RunDirectory:
    """One walker; the steps of its frames in time, segment by segment; n counts frames.

    A second passes in each segment, and one between two; after each the metric `m` says how many frames there are.
    """
    directory = create(folder, "run")
    writer = GroupWriter(directory.frames.path / "w0")
    said: list[Record] = [Run(t=100.0, workflow="steps", seed=1), Session(t=100.0, host="here", pid=1)]
    said.append(Hired(t=100.0, walker=0, slot=0))
    rows = 0
    for number, steps in enumerate(segments):
        of: dict[str, Any] = {"walker": 0, "segment": number, "start": number, "first_row": rows}
        for time in np.cumsum(steps):
            rows += 1
            writer.append(FRAME, {"n": float(rows), **({"time": time} if timed else {})})
        began, simulated = 100.0 + 2 * number, float(sum(steps)) if timed else 0.0
        said += [
            Start(t=began, start=number, seed=number), Began(t=began, **of),
            Ended(t=began + 1, **of, end_row=rows, how="finished", simulated=simulated),
            Published(t=began + 1, walker=0, frames=rows, segments=number + 1),
            Scored(t=began + 1.1, model=0, frames=rows), Metrics(t=began + 1.2, values={"m": float(rows)}),
        ]  # fmt: skip
    writer.close()
    rewrite(directory.journal, said)
    return directory


@given(st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.0]), min_size=2, max_size=2), min_size=1, max_size=9))
def test_different_numbers_are_counted_by_their_values(rows: list[list[float]]) -> None:
    values = np.array(rows)
    different = [len(np.unique(values[: k + 1], axis=0)) for k in range(len(values))]
    assert amount(values, Yardstick(lambda p, frames: np.zeros(1), "distinct")).tolist() == different


STEPS = st.lists(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6), min_size=1, max_size=5)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
@pytest.mark.parametrize("timed", [True, False])
def test_what_was_spent_is_the_sum_of_the_steps(timed: bool, steps: list[list[float]], tmp_path: Path) -> None:
    """Frames where there is no time. A metric is worth what it says from the last frame that it knew."""
    history = History(run_of(tmp_path, steps, timed=timed))
    flat = np.concatenate(steps)
    spent = np.cumsum(flat if timed else np.ones(len(flat)))
    (curve,) = measure(history, WORKFLOW, Params()).values()
    np.testing.assert_allclose(curve.spent, spent, rtol=1e-9)
    np.testing.assert_array_equal(curve.value, np.arange(1, len(flat) + 1))
    found = follow(history, "m")
    np.testing.assert_allclose(found.spent, spent, rtol=1e-9)
    ends = np.cumsum([len(each) for each in steps])
    known = np.searchsorted(ends, np.arange(1, len(flat) + 1), side="right")
    np.testing.assert_array_equal(found.value, np.concatenate([[np.nan], ends])[known])


# Of each segment its walker, its number, its start, the one that this repeats, and its rows; those of a line begin
# together. The third round of walker 0 is cut short after a frame, and goes on from there.
ROUNDS: list[list[tuple[int, int, int, int | None, int, int]]] = [
    [(0, 0, 0, None, 0, 3), (1, 0, 1, None, 0, 3)],
    [(0, 1, 2, None, 3, 6), (1, 1, 3, None, 3, 6)],
    [(0, 2, 4, None, 6, 7), (1, 2, 5, None, 6, 9)],
    [(0, 3, 6, 4, 7, 9)],
]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(took=st.lists(st.floats(0.1, 1e3), min_size=7, max_size=7))
def test_in_rounds_nothing_depends_on_how_fast_each_walker_was(took: list[float], tmp_path: Path) -> None:
    """The frames of a round are counted side by side: the first of each walker, the second of each, ..."""
    directory, now, seconds = create(tmp_path, "run"), 1.0, iter(took)
    writers = [GroupWriter(directory.frames.path / f"w{walker}") for walker in (0, 1)]
    said: list[Record] = [Run(t=now, workflow="steps", seed=1, rounds=True), Session(t=now, host="here", pid=1)]
    said += [Hired(t=now, walker=walker, slot=walker) for walker in (0, 1)]
    for begun in ROUNDS:
        said += [Start(t=now, start=start, seed=1, again=again) for _, _, start, again, _, _ in begun]
        ends = []
        for walker, number, start, _, first, end in begun:
            for row in range(first, end):
                writers[walker].append(FRAME, {"n": 1.0 + walker + 2 * row, "time": 1.0 + row - first})
            of: dict[str, Any] = {"walker": walker, "segment": number, "start": start, "first_row": first}
            cut, ended = "frame" if end == 7 else "", now + next(seconds)
            said.append(Began(t=now, **of))
            ends += [
                Ended(t=ended, **of, end_row=end, how="finished", cut=cut, simulated=float(end - first)),
                Published(t=ended, walker=walker, frames=end, segments=number + 1),
            ]
        said += sorted(ends, key=lambda record: record.t)
        now = said[-1].t
    for writer in writers:
        writer.close()
    rewrite(directory.journal, said)
    (curve,) = measure(History(directory), WORKFLOW, Params()).values()
    np.testing.assert_array_equal(curve.value, np.arange(1, 19))
    np.testing.assert_allclose(curve.spent, np.arange(1, 19))
