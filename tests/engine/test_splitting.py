"""Splitting through the engine, in batches: the same seed is the same run, and a walker that dies changes no weight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from steersman.dashboard import rare_event
from steersman.dashboard.live.views import members
from steersman.dashboard.live.watched import Watched
from steersman.data import clock
from steersman.data.clock import Scale
from steersman.data.history import History
from steersman.data.replay import replay
from steersman.data.results import Results
from steersman.data.verify import verify
from steersman.journal import published
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.steering import Splitting
from steersman.steering.forecasts import reliability
from steersman.store import Window
from tests.engine.conftest import completed

pytestmark = pytest.mark.slow
MEMBERS, WINDOW, WINDOWS = 12, 4, 5

WORKFLOW = f"""
import os, signal
from pathlib import Path
import numpy as np
from steersman import Params, Workflow, budget
from steersman.steering import Splitting

class P(Params):
    dies: str = ""

wf = Workflow("process", P, stop=lambda p: budget(frames={MEMBERS * WINDOW * WINDOWS}))
rare = Splitting("x", above=1.0, window={WINDOW}, members={MEMBERS})

@wf.prepare
def archive(p): return np.linspace(-1.5, 1.5, 7)

@wf.simulate(batch=5)
def segment(p, starts, outs):
    assert 0 < len(starts) == len(outs) <= 5
    if p.dies and any(start.frame.get("age", 0) == 2 for start in starts) and not Path(p.dies).exists():
        Path(p.dies).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    noise = sum(out.seed for out in outs) % 97 / 1e9  # as of rounding, which depends on who is in the batch
    for start, out in zip(starts, outs):
        new = start.prepared[int(start.point(1, out.seed)[0] * len(start.prepared))] if "x" not in start.frame else 0
        x = 0.8 * start.frame.get("x", new) + 0.6 * np.random.default_rng(out.seed).standard_normal() + noise
        out.append(time=1.0, x=x, age=start.frame.get("age", 0) + 1)

@wf.score(early=True)
def forecast(p, model, frames):
    left = {WINDOW} - frames["age"]
    return {{"x": frames["x"], "mean": 0.8**left * frames["x"], "spread": np.sqrt(1 - 0.8 ** (2 * left))}}

wf.steer(rare)

@wf.metric
def probability(scores): return rare.estimate(scores).probability
"""


def run(folder: Path, *words: str) -> RunDirectory:
    folder.mkdir()
    (folder / "process.py").write_text(WORKFLOW)
    return completed("process.py", "--rounds", "--seed", "3", "--workers", "2", *words, cwd=folder)[0]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return run(tmp_path_factory.mktemp("splitting") / "first")


def test_the_same_seed_is_the_same_run_bit_for_bit_batches_and_all(ran: RunDirectory, tmp_path: Path) -> None:
    assert_equal(ran, run(tmp_path / "again"))


def assert_equal(one: RunDirectory, other: RunDirectory) -> None:
    ours, theirs = History(one).scores, History(other).scores
    for name in ("round", "weight", "root"):
        assert (getattr(ours, name) == getattr(theirs, name)).all()
    assert all((ours.values[name] == theirs.values[name]).all() for name in ours.values)


def test_members_of_a_window_descend_from_its_first_ones_and_weigh_1(ran: RunDirectory) -> None:
    scores, policy = History(ran).scores, Splitting("x", above=1.0, window=WINDOW, members=MEMBERS)
    assert np.bincount(scores.round)[1:].tolist() == [MEMBERS] * WINDOW * WINDOWS
    np.testing.assert_allclose(np.bincount(scores.round, weights=scores.weight)[1:], 1)
    window = (scores.round - 1) // WINDOW
    for each in range(WINDOWS):
        first = set(scores.root[(window == each) & (scores.round % WINDOW == 1)])
        assert len(first) == MEMBERS
        assert set(scores.root[window == each]) <= first
    assert len(set(scores.root[scores.round % WINDOW == 0])) < MEMBERS * WINDOWS, "some were merged"
    assert (scores.age == (scores.round - 1) % WINDOW + 1).all()
    assert policy.estimate(scores).windows == WINDOWS - 1, "without the first one that was split"
    assert not verify(ran)


def test_the_page_shows_each_member_with_its_forecast_and_the_estimate(ran: RunDirectory) -> None:
    watched = Watched.of(History(ran))
    watched._trusted = True
    shown = members.answer(watched)
    assert shown["members"] == [MEMBERS] * WINDOW * WINDOWS
    assert max(shown["chance"]) > 0.5 > min(shown["chance"])
    assert all(low <= p <= high for low, p, high in zip(shown["low"], shown["p"], shown["high"], strict=True))
    assert shown["p"] == sorted(shown["p"], reverse=True)


def test_its_figures_say_what_came_of_its_members(ran: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    history, rare = History(ran), Splitting("x", above=1.0, window=WINDOW, members=MEMBERS)
    frames = Window(ran.frames, published.spans(history.state))
    monkeypatch.setattr(Results, "held_out", frames)  # what trains nothing holds nothing out
    fate = frames.fate("x", window=WINDOW)
    chance = ndtr((0.8**fate.lead * frames["x"][fate.rows] - 1) / np.sqrt(1 - 0.8 ** (2 * fate.lead)))
    bins = [each for each in reliability(chance, fate.outcome > 1, fate.weight) if each.frequency]
    points = rare_event.reliable(history, rare)[0].axes[0].containers[-1][0].get_xydata()
    assert len(points) > 3
    np.testing.assert_allclose(points, [(each.forecast, each.frequency) for each in bins], rtol=1e-6)
    figure, _ = rare_event.return_times(history, rare)
    level, time = map(np.asarray, figure.axes[0].lines[0].get_data())
    assert time[level == 1] == pytest.approx(WINDOW / rare.estimate(history.scores).probability)
    assert (np.diff(time) >= 0).all()
    monkeypatch.setattr(clock, "simulated_scale", lambda longest, unit: Scale("simulated time", "ns", 1000.0))
    shown = np.asarray(rare_event.return_times(history, rare)[0].axes[0].lines[0].get_ydata(), float)
    assert shown == pytest.approx(time / 1000), "in the unit that the axis names"


def test_what_was_decided_is_decided_again(ran: RunDirectory) -> None:
    found = replay(ran, loading.load(ran.workflow))
    assert (found["decisions"], found["different"]) == (MEMBERS * WINDOW * WINDOWS, [])


def test_a_walker_that_dies_in_a_batch_changes_nothing(ran: RunDirectory, tmp_path: Path) -> None:
    """Its starts come back by their leases, and the same batch runs again."""
    killed = run(tmp_path / "killed", "--set", f"dies={tmp_path / 'dead'}")
    assert (tmp_path / "dead").exists()
    assert_equal(ran, killed)
