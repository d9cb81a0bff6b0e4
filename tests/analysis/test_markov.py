"""A Markov state model of segments that begin anywhere: it agrees with the truth, and says when it cannot."""

import sys
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from lab import weighted_ensemble as bench
from steersman.analysis import answer, markov
from steersman.analysis.errors import TooLittle
from steersman.analysis.time_scales import draw
from steersman.analysis.trajectories import Trajectories
from steersman.apps import six_wells
from steersman.apps.six_wells import exact
from steersman.stages.yardstick import Yardstick
from steersman.steering import WeightedEnsemble
from steersman.system.errors import MissingExtra

STEP = 0.05


def simulated(segments: int, frames: int) -> Trajectories:
    """Segments that begin anywhere but on the plain: far from equilibrium, as steering would have it."""
    rng = np.random.default_rng(0)
    begin = rng.uniform(-np.pi, np.pi, (8 * segments, 2))
    begin = begin[six_wells.energy(begin) < -1][:segments]
    problem = bench._wells(WeightedEnsemble("cell"), frames)
    x = np.concatenate([begin[:, None], problem.simulate(begin, rng)], axis=1)
    z, wells = np.concatenate([np.cos(x), np.sin(x)], axis=-1), six_wells.wells(x.reshape(-1, 2))
    positions = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2])
    return Trajectories(z.reshape(-1, 4), {"wells": wells}, list(positions), STEP, "1", stopped=0)


@pytest.fixture(scope="module")
def found() -> Trajectories:
    return simulated(segments=600, frames=40)


@pytest.fixture(scope="module")
def model(found: Trajectories) -> markov.MarkovStateModel:
    return markov.build(found, states=60)


@pytest.mark.slow
def test_time_scales_agree_with_the_transfer_matrix(model: markov.MarkovStateModel) -> None:
    """Exact are 55.5, 27.8 and 16.2 time units; a segment has 2."""
    assert model.converged
    for (_, low, high), truth in zip(model.lag.scales * STEP, exact.time_scales(60)[:3], strict=True):
        assert low < truth < high


@pytest.mark.slow
def test_populations_agree_with_the_quadrature_and_those_of_frames_do_not(
    found: Trajectories, model: markov.MarkovStateModel
) -> None:
    truth, wells = exact.populations(), found.labels["wells"]
    said = answer.answer(found, model)["populations"]["wells"]
    inside = [low < share < high for share, (_, low, high) in zip(truth, said.values(), strict=True)]
    assert sum(inside) >= 5
    assert model.weights.sum() == pytest.approx(1)
    of_frames = np.array([(wells == well).mean() for well in range(6)])
    corrected = np.array([value for value, _, _ in said.values()])
    assert np.abs(corrected / truth - 1).mean() < np.abs(of_frames / truth - 1).mean()


class Three(dict[str, np.ndarray]):
    """Frames."""

    rows = 3


@pytest.mark.parametrize(("take", "kinds"), [("distinct", "iff"), ("highest", "fff"), ("mean", "fff")])
def test_whole_numbers_are_states_or_amounts_by_what_is_made_of_them(take: Any, kinds: str) -> None:
    windows: list[Any] = [Three(x=np.arange(3, dtype=dtype)) for dtype in ("i8", "f4", "f8")]
    rows = [Yardstick(lambda p, frames: frames["x"], take).along("x", None, frames) for frames in windows]
    assert "".join(each.dtype.kind for each in rows) == kinds
    assert Yardstick(lambda p, frames: frames["x"] > 1, take).along("x", None, windows[0]).dtype == bool


@pytest.mark.slow
def test_every_yardstick_of_one_number_a_frame_is_answered(found: Trajectories, model: markov.MarkovStateModel) -> None:
    """By populations where it names a few states; floats by their average; of many labels a note says it."""
    wells = found.labels["wells"]
    counted = np.arange(len(wells)) % 100
    labels = {"left": (wells >= 0) & (wells < 3), "wells": wells, "counted": counted, "measured": counted / 1.0}
    said = answer.answer(replace(found, labels=labels), model)
    assert said["populations"].keys() == {"left", "wells"}
    assert said["averages"].keys() == {"measured"}
    assert [note.split()[0] for note in said["notes"]] == ["counted"]
    assert answer.lines(said)[-1] == answer.SUPPORTED, "a note does not take its place"
    left = sum(share for share, _, _ in list(said["populations"]["wells"].values())[:3])
    assert said["populations"]["left"]["True"][0] == pytest.approx(left)


@pytest.mark.slow
def test_segments_that_are_too_short_are_said_to_be(found: Trajectories) -> None:
    short = replace(found, pieces=[piece[:3] for piece in found.pieces])
    said = answer.answer(short, markov.build(short, states=50))
    assert not said["converged"]
    assert [words(problem) for problem in said["problems"] if "Lag" in problem] == ["Lag not converged"]
    of_one_lag = answer.problems(short, markov.build(short, states=50, lag=1))
    assert [words(problem) for problem in of_one_lag if "Lag" in problem] == ["Lag not checked"]


def synchrony(rng: np.random.Generator, runs: int, segments: int, frames: int, *, steered: bool) -> list[Trajectories]:
    """Order parameter r of 20 noisy Kuramoto oscillators, whose phases are not seen; steered: most segments begin at a
    frame of the r that is rarest so far in their run."""
    omega = 0.5 * np.array([NormalDist().inv_cdf((i + 0.5) / 20) for i in range(20)])
    n = segments * frames
    theta, r, first = np.zeros((runs, n, 20)), np.zeros((runs, n)), [list[int]() for _ in range(runs)]
    now = np.zeros((runs, 20))
    for at in range(n):
        if at % frames == 0 and at:
            for run, seen in enumerate(r[:, :at]):
                counts, edges = np.histogram(seen, 20)
                rare = counts[np.clip(np.searchsorted(edges, seen, side="right") - 1, 0, 19)]
                chosen = np.argmin(rare + rng.random(at)) if steered and rng.random() > 0.1 else at - 1
                first[run].append(int(chosen))
                now[run] = theta[run, chosen]
        for noise in np.sqrt(0.02) * rng.normal(size=(10, runs, 20)):
            field = np.exp(1j * now).mean(1, keepdims=True)
            pull = 2 * np.abs(field) * np.sin(np.angle(field) - now)
            now = now + 0.02 * (omega + pull) + noise
        theta[:, at], r[:, at] = now, np.abs(np.exp(1j * now).mean(1))
    found = []
    for own, begins in zip(r, first, strict=True):
        parts = (np.array([s, *range(i * frames, (i + 1) * frames)]) for i, s in enumerate(begins, 1))
        pieces = [np.arange(frames), *parts] if steered else [np.arange(n)]
        found.append(Trajectories(own[:, None], {"r": own}, pieces, 1.0, "1", 0))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("steered", [True, False])
def test_averages_that_still_change_with_the_lag_are_not_called_supported(steered: bool) -> None:
    """Segments that begin at the rarest r begin far from equilibrium in what r does not show. Of 40 such runs 36 had
    intervals beside the true mean at a lag of one frame, at which the time scales had converged."""
    found = synchrony(np.random.default_rng(1), 3 if steered else 1, 200, 25, steered=steered)
    said = [map(words, answer.problems(each, markov.build(each))) for each in found]
    assert sum("Averages not converged" in each for each in said) in ((2, 3) if steered else (0,))


def test_of_one_state_nothing_is_said_of_lags() -> None:
    still = Trajectories(np.zeros((200, 2)), {}, [np.arange(100), np.arange(100, 200)], STEP, "ps", stopped=0)
    assert [words(problem) for problem in answer.problems(still, markov.build(still))] == ["One state"]


def words(problem: str) -> str:
    return problem.partition(":")[0]


@pytest.mark.slow
def test_each_line_says_what_its_number_is_in_which_unit(found: Trajectories, model: markov.MarkovStateModel) -> None:
    said = answer.answer(found, model) | {"unit": "ps", "averages": {"radius": [1.0, 0.5, np.inf]}}
    said["time_scales"][2] = [np.nan] * 3
    said["populations"]["wells"]["7"] = [np.nan] * 3
    said["weighted"] = {"rounds": 40, "populations": {}, "passage_time": [np.inf, 0.0, np.inf]}
    lines = answer.lines(said)
    assert "95 %" in lines[1]
    of = dict(line.strip().split("   ", 1) for line in lines[2:] if line.startswith("  "))
    of = {name: value.strip() for name, value in of.items()}
    assert of["time scale 1"].endswith(") ps")
    assert of["time scale 3"].startswith("not known: "), "nothing has no unit"
    assert of["population of wells = 0"].endswith(")")
    assert of["population of wells = 7"].startswith("not known: ")
    assert of["average of radius"] == "1 (0.5 or more)"
    assert of["mean first passage time"].startswith("not known: ")


def rotating(rate: float, segments: int = 300, frames: int = 40) -> Trajectories:
    """Brownian motion in a bowl that turns round: in equilibrium only at rate 0."""
    rng, turn = np.random.default_rng(0), np.array([[-1, -rate], [rate, -1]])
    x = [rng.uniform(-2, 2, (segments, 2))]
    for _ in range(5 * frames):
        x.append(x[-1] + STEP / 5 * x[-1] @ turn.T + np.sqrt(2 * STEP / 5) * rng.normal(size=(segments, 2)))
    paths = np.stack(x[::5], axis=1)
    positions = np.arange(paths.shape[0] * paths.shape[1]).reshape(paths.shape[:2])
    return Trajectories(paths.reshape(-1, 2), {}, list(positions), STEP, "1", stopped=0)


@pytest.mark.parametrize(("rate", "driven"), [(0, False), (1, True), (-3, True)])
def test_what_is_not_in_equilibrium_is_said_not_to_be(rate: float, driven: bool) -> None:
    """Wherever segments begin: at rate 0 they begin far from equilibrium, too."""
    found = rotating(rate)
    model = markov.build(found, states=60, lag=5)
    assert (model.net_flow > 0) is driven
    assert any("No detailed balance" in problem for problem in answer.problems(found, model)) is driven


def test_what_is_over_within_the_lag_is_not_known() -> None:
    """Exact are 1 twice, and 0.5 for what is left, which at a lag of 0.75 is noise of about half the lag."""
    model = markov.build(found := rotating(0), states=60, lag=15)
    said = answer.answer(found, model)
    assert [each[0] for each in said["time_scales"][:2]] == pytest.approx([1, 1], rel=0.25)
    assert np.isnan(said["time_scales"][2]).all()
    assert np.isfinite(said["lags"][0]["time_scales"]).all()


@pytest.mark.slow
def test_segments_of_equilibrium_dynamics_balance_each_other_at_every_lag(found: Trajectories) -> None:
    assert [markov.build(found, states=60, lag=lag).net_flow for lag in (1, 4, 16)] == [0, 0, 0]


def test_a_process_is_not_asked_at_lags_at_which_it_is_over() -> None:
    """There its time scale is noise that grows with the lag."""
    lags = [markov.Lag(frames, np.full((1, 3), scale)) for frames, scale in [(1, 20), (5, 14), (13, 14.5), (64, 90)]]
    assert [markov._flat(lags, i) for i in range(4)] == [False, True, False, False]


def test_what_the_dynamics_does_not_connect_is_said_to_be_not_connected(found: Trajectories) -> None:
    far = replace(
        found, features=np.concatenate([found.features, found.features + 9]),
        labels={}, pieces=[*found.pieces, *(piece + len(found.features) for piece in found.pieces)],
    )  # fmt: skip
    model = markov.build(far, states=40, lag=5)
    assert model.connected == pytest.approx(0.5)
    assert any("Not connected" in problem for problem in answer.problems(far, model))
    assert answer.problems(replace(far, differing=["kT"]), model)[0] == "kT"


@pytest.mark.slow
def test_one_long_trajectory_has_intervals_of_some_width_at_every_lag() -> None:
    long = simulated(segments=1, frames=1500)
    lags = markov.build(long, states=20).lags
    assert lags[-1].frames > 30
    for lag in lags:
        value, low, high = lag.scales[0]
        assert high > low
        assert low <= value <= high


def test_an_interval_holds_its_value() -> None:
    """Where there is little data, all draws may lie on one side of it."""
    assert markov._interval(np.array([1.0, 2.0, 3.0])).tolist() == pytest.approx([1.0, 1.0, 2.975])
    assert np.isnan(markov._interval(np.array([1.0, np.nan]))[1:]).all()


def test_blocks_lose_no_transition() -> None:
    path, lag = np.arange(1000), 7
    blocks = markov._blocks([path, path[:lag]], lag)
    pairs = [(int(block[i]), int(block[i + lag])) for block in blocks for i in range(len(block) - lag)]
    assert sorted(pairs) == [(i, i + lag) for i in range(1000 - lag)]
    assert len(blocks) >= markov.BLOCKS / 2


def test_too_little_is_refused_and_a_missing_library_named(
    found: Trajectories, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TooLittle):
        markov.build(replace(found, pieces=[piece[:1] for piece in found.pieces]))
    monkeypatch.setitem(sys.modules, "deeptime", None)
    with pytest.raises(MissingExtra):
        markov.build(found)


@pytest.mark.slow
def test_the_figure_shows_time_scales_and_free_energy(found: Trajectories, model: markov.MarkovStateModel) -> None:
    figure = draw(found, model)
    assert [axes.get_xlabel() for axes in figure.axes[:2]] == ["lag", "slowest coordinate"]
    assert [axes.get_ylabel() for axes in figure.axes[:2]] == ["implied time scales", "second slowest"]


@pytest.mark.slow
def test_along_a_score_of_one_number_the_free_energy_is_a_curve() -> None:
    """That of the frames, where these are of equilibrium; its interval holds it."""
    rng = np.random.default_rng(0)
    x = np.zeros((4, 5_000))
    for i in range(1, x.shape[1]):
        x[:, i] = 0.8 * x[:, i - 1] + 0.6 * rng.normal(size=len(x))  # a normal distribution of variance 1
    one = Trajectories(x.reshape(-1, 1), {}, list(np.arange(x.size).reshape(x.shape)), STEP, "1", stopped=0, score="x")
    figure = draw(one, markov.build(one, lag=1))
    axes = figure.axes[1]
    at, energy = (np.asarray(each, float) for each in axes.lines[0].get_data())
    inside = np.abs(at) < 1.5
    np.testing.assert_allclose(energy[inside], at[inside] ** 2 / 2, atol=0.3)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "free energy / kT")
    assert len(figure.axes) == 2, "no bar of colours"


def test_more_states_than_the_frames_can_tell_apart_are_refused(found: Trajectories) -> None:
    with pytest.raises(TooLittle, match=f"at most {len(found.features) // 5:,}"):
        markov.build(found, states=10**6)


@pytest.mark.parametrize(("apart", "seed"), [(0.05, 7), (0.3, 1), (1.0, 1)])
def test_no_interval_of_a_time_scale_of_few_frames_goes_below_zero_or_on_for_ever(apart: float, seed: int) -> None:
    """Six short pieces, hardly connected: eigenvalues of draws lie at 1 and, by rounding, beyond it."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([np.cumsum(rng.normal(size=(10, 2)) * 0.3, axis=0) + apart * piece for piece in range(6)])
    found = markov.build(Trajectories(x, {}, list(np.arange(60).reshape(6, 10)), STEP, "1", stopped=0), lag=1)
    for value, low, high in found.lag.scales:
        assert np.isnan(value) or 0 <= low <= value <= high
        assert not 1e6 < high < np.inf


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_one_slow_process_in_long_pieces_is_found_at_a_lag_that_resolves_it(seed: int) -> None:
    """The commonest case: at lags of a few of its time scales nothing is left but noise, which never stops changing."""
    rng, rate, n = np.random.default_rng(seed), 1 / 180, 6_000
    pieces = []
    for _ in range(2):
        well = 1.0 - 2.0 * (np.cumsum(rng.random(n) < rate) % 2)
        fast = np.zeros(n)
        for i in range(1, n):
            fast[i] = 0.8 * fast[i - 1] + 0.18 * rng.normal()
        pieces.append(well + fast)
    x = np.concatenate(pieces)[:, None]
    positions = list(np.arange(2 * n).reshape(2, n))
    found = markov.build(Trajectories(x, {}, positions, STEP, "1", stopped=0))
    truth = -1 / np.log(1 - 2 * rate)
    value, low, high = found.scales[0]
    assert found.converged
    assert found.lag.frames < truth
    assert low < truth < high
    assert value == pytest.approx(truth, rel=0.4)


@pytest.mark.parametrize("fixed", [True, False])
def test_a_time_scale_that_falls_is_told(fixed: bool) -> None:
    """Checkerboard sweeps in a fixed order keep the equilibrium of an Ising model, but not its detailed balance."""
    rng, size, kT = np.random.default_rng(0), 8, 2.6
    spins, colour = rng.choice([-1, 1], size=(300, size, size)), np.indices((size, size)).sum(0) % 2
    means = []
    for _ in range(40):
        for now in (0, 1) if fixed else rng.permutation(2):
            around = sum(np.roll(spins, step, axis) for step in (1, -1) for axis in (1, 2))
            flips = (rng.random(spins.shape) < np.exp(-2 * spins * around / kT)) & (colour == now)
            spins = np.where(flips, -spins, spins)
        means.append(spins.mean((1, 2)))
    frames = np.array(means[10:]).T
    found = Trajectories(frames.reshape(-1, 1), {}, [*np.arange(frames.size).reshape(frames.shape)], 1.0, "1", 0)
    model = markov.build(found, states=20)
    assert (model.falls is not None) == fixed
    assert any("fall" in problem for problem in answer.problems(found, model)) == fixed


def test_lags_end_where_nothing_is_left_of_the_slowest_process() -> None:
    """Beyond, time scales are those of noise, and change for ever: more or longer segments would be no help."""
    rng, exact = np.random.default_rng(0), 8.0
    value, kicks = np.zeros((2, 20_000)), rng.normal(size=(2, 20_000))
    for i in range(1, value.shape[1]):
        value[:, i] = np.exp(-1 / exact) * value[:, i - 1] + kicks[:, i]
    found = Trajectories(value.reshape(-1, 1), {}, [*np.arange(value.size).reshape(value.shape)], 1.0, "1", 0)
    model = markov.build(found, states=30)
    assert model.converged
    assert model.lags[-1].frames <= 4 * exact
    assert model.scales[0, 0] == pytest.approx(exact, rel=0.1)
    assert not answer.problems(found, model)
