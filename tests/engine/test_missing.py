"""Values that may be missing: they are stored, and nothing that steers chooses or counts such a frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steersman import open_run
from steersman.data.replay import replay
from steersman.journal import file as journal
from steersman.journal import published
from steersman.journal.records import Asked, Metrics, Prepared, Start
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.steering import Decider, Random, Scores, Steering, Unsteered
from steersman.store import Span, Window

from .conftest import WriteWorkflow, steersman

MISSES = """
    from steersman.store import Variable

    wf = Workflow("missing", P, stop=budget(frames=240) | reached("most", 1000.0))

    @wf.simulate(variables={"depth": Variable(missing=True)}, conditions=lambda p: {"kelvin": (300, 100 * p.steps)})
    def simulate(p, start, out):
        for row in range(12):
            x = float(out.seed % 97 + row)
            depth, shown = np.nan if row % 3 == 1 else x, 2000.0 if row % 3 else x
            out.append(kelvin=start.condition["kelvin"], kind=row % 3, x=shown, depth=depth)

    @wf.score(missing=("z",))
    def score(p, model, frames):
        kind = frames["kind"]
        return {"z": np.where(kind == 2, np.nan, frames["x"]), "kind": kind, "x": frames["x"]}

    @wf.prepare
    def prepare(p):
        return {"labelled": {"kind": np.array([0, 0]), "x": np.array([1.0, 2.0])}}

    @wf.label
    def label(p, frame):
        return {"kind": frame["kind"]}

    @wf.metric
    def most(scores):
        return scores.values["x"].max()

    wf.steer(Novelty("x"), explore=0.3, label=Doubtful("x", above=0.0, most=4))
"""


@pytest.mark.slow
def test_what_may_be_missing_is_stored_and_such_a_frame_is_never_chosen_nor_counted(
    write_workflow: WriteWorkflow, tmp_path: Path
) -> None:
    """Neither by policies, nor at random, for labels, or by the metric of a goal."""
    done = steersman("run", write_workflow(MISSES), "--run-dir", "run", "--rounds", "--seed", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    directory = RunDirectory(tmp_path / "run")
    run = open_run(directory.path)
    records = list(journal.read(directory.journal))
    chosen = [each for each in records if isinstance(each, Start) and each.policy in ("Novelty", "explore")]
    assert {(each.policy, each.parent.row % 3) for each in chosen if each.parent} == {("Novelty", 0), ("explore", 0)}
    asked = [each.frame.row % 3 for each in records if isinstance(each, Asked)]
    assert set(asked) == {0}
    values = [each.values["most"] for each in records if isinstance(each, Metrics)]
    assert 0 < max(values) < 1000
    scores = run.scores
    whole = scores["x"].notna().to_numpy()
    np.testing.assert_array_equal(whole, scores["row"].to_numpy() % 3 == 0)
    depth = directory.frames.read("depth", Span("w0", 0, 3))
    np.testing.assert_array_equal(np.isnan(depth), [False, True, False])
    assert [(each.labels, each.source) for each in records if isinstance(each, Prepared)] == [(2, "prepare")]
    assert run.labelled["x"][:2].tolist() == [1.0, 2.0], "labels from before count as any"
    kelvin = Window(directory.frames, published.spans(run._history.state))["kelvin"]
    assert ((kelvin == 300).sum(), (kelvin == 2000).sum()) == (120, 120), "conditions are taken in turn"
    again = replay(directory, loading.load(directory.workflow))
    assert (again["labels"], again["different"], again["different_labels"]) == (len(asked), [], [])


def test_a_frame_that_misses_a_variable_is_not_chosen_before_there_are_scores_but_by_its_own_segment() -> None:
    frames = Scores(*(np.zeros(9, int), np.arange(9), np.zeros(9, int), np.zeros(9, int)), np.arange(9) == 7)
    rng = np.random.default_rng(1)
    decider = Decider(Steering(Random()), lambda walker, row: row % 3 == 1)
    chosen = [decider.choose(frames, rng).candidate for _ in range(40)]
    assert {each.index for each in chosen if each} == {0, 2, 3, 5, 6, 8}
    goes_on = Decider(Steering(Unsteered()), lambda walker, row: row % 3 == 1).choose(frames, rng).candidate
    assert goes_on
    assert (goes_on.index, goes_on.exact) == (7, True)
