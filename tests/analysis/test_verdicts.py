"""What is concluded from curves of a few seeds: better is what was asked for, and nothing is concluded from nothing."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.analysis.comparison.arms import PLAIN, Arm
from steersman.analysis.comparison.calls import Comparison
from steersman.analysis.comparison.curves import draw, meaning
from steersman.analysis.comparison.metric import HeldOutMetric
from steersman.analysis.comparison.statistics import ENOUGH, Interval, Times, band, speed_up
from steersman.analysis.comparison.tables import table, write
from steersman.analysis.comparison.verdicts import BLIND, CONTINUED, ONE_RUN, Runs, rows, with_levels
from steersman.cli.compare import _print as print_rows
from steersman.dashboard import style
from steersman.data.yardsticks import Curve, amount
from steersman.stages.yardstick import Yardstick
from steersman.steering.decide import CHOSE_NONE
from steersman.system.errors import EngineError

SEEDS = 8
SPENT = np.arange(1.0, 101)
CELLS = {"cells": Yardstick(lambda p, frames: frames["x"], levels=(175.0,))}


def runs(arm: str, curves: Sequence[np.ndarray]) -> Runs:
    made = [Curve(SPENT, np.asarray(curve, float)) for curve in curves]
    return Runs(
        Arm(arm),
        list(range(len(made))),
        {"error": made},
        starts=[10] * len(made),
        own=[10] * len(made),
        trained=len(made),
    )


def falling(half_at: float) -> list[np.ndarray]:
    """Errors that fall to zero, a little otherwise in each seed."""
    return [0.5 ** (SPENT / (half_at * (1 + 0.01 * seed))) for seed in range(SEEDS)]


@pytest.mark.parametrize("less", [True, False])
def test_better_is_less_where_less_is_better(less: bool) -> None:
    """The arm falls twice as fast: an error that falls is good, an accuracy that falls is not."""
    sign, level = (1, 0.25) if less else (-1, -0.25)
    plain, arm = (runs(name, [sign * each for each in falling(half)]) for name, half in ((PLAIN, 40), ("A()", 20)))
    (row,) = rows(plain, arm, {"error": HeldOutMetric("error", less, (level,))})
    assert row.verdict.startswith("better")
    assert row.sooner[level].value == pytest.approx(2, abs=0.1)
    assert row.times[level].time == pytest.approx([40 * (1 + 0.01 * seed) for seed in range(SEEDS)], abs=1)
    assert row.times[level].reached.all()
    plain.arm = Arm("B()")
    (back,) = rows(arm, plain, {"error": HeldOutMetric("error", less, (level,))})
    assert back.verdict.startswith("worse")
    assert "later" in back.verdict


def test_a_level_that_is_never_reached_is_waited_for_to_the_end() -> None:
    plain, arm = runs(PLAIN, falling(40)), runs("A()", falling(20))
    (row,) = rows(plain, arm, {"error": HeldOutMetric("error", True, (0.1, 0.0))})
    assert row.times[0.0].reached.tolist() == [False] * SEEDS
    assert row.times[0.0].time.tolist() == [100.0] * SEEDS
    ratio = row.sooner[0.0]
    assert (ratio.low, ratio.high) == (0, np.inf)
    assert "0 is reached" not in row.verdict
    (only,) = rows(plain, arm, {"error": HeldOutMetric("error", True, (0.1,))})
    assert only.sooner[0.1].at_least, "plain sampling does not come to it"
    assert only.sooner[0.1].value == pytest.approx(100 / 70, rel=0.1)


@pytest.mark.parametrize(
    ("take", "plain", "levels"),
    [
        ("distinct", [np.minimum(SPENT // 25, n) for n in (1, 2)], (2,)),  # 1.5 cells are in no run
        ("highest", [1000 + SPENT / 1000, 1000 + SPENT / 1000], (1000.05, 1000.1)),
        ("lowest", [-1e-9 * SPENT, -1e-9 * SPENT], (-5e-8, -1e-7)),
        ("highest", [np.zeros(100), np.zeros(100)], (0,)),
        ("highest", [0.017284 * SPENT, 0.017284 * SPENT], (0.86, 1.72)),  # and not 1.73, which is not reached
        ("lowest", [-0.017284 * SPENT, -0.017284 * SPENT], (-0.86, -1.72)),
        ("highest", [*[0.017284 * SPENT] * 3, 0.017284 * SPENT + 1000 * (SPENT > 90)], (0.86, 1.72)),  # one far out
    ],
)
def test_levels_are_what_plain_sampling_reaches(take: str, plain: list[np.ndarray], levels: tuple[float, ...]) -> None:
    """As far apart as its values are, whatever they lie around; of what is counted they are whole."""
    yardstick = Yardstick(lambda p, frames: frames["x"], take, take == "lowest")
    (row,) = rows(runs(PLAIN, plain), runs("A()", plain), {"error": yardstick})
    assert [*row.times] == pytest.approx(levels)
    assert all(times.reached.all() for times in row.times.values()) or take == "distinct"


def test_a_mean_is_compared_at_the_end_and_reaches_a_level_that_is_given_when_it_stays_there() -> None:
    """Its first frames may lie anywhere."""
    mean = Yardstick(lambda p, frames: frames["x"], "mean")
    curves = [np.where(SPENT < 3, 9.0, np.where(SPENT < 50, 0.0, 1.0)), np.where(SPENT < 3, 9.0, 0.0)]
    (row,) = rows(runs(PLAIN, curves), runs("A()", curves), {"error": mean})
    assert not row.times
    (row,) = rows(runs(PLAIN, curves), runs("A()", curves), {"error": replace(mean, levels=(1.0,))})
    assert row.times[1.0].time.tolist() == [50.0, 100.0]
    assert row.times[1.0].reached.tolist() == [True, False]


def test_seeds_are_paired() -> None:
    """What a seed costs is the same for both: the ratio is certain however much seeds differ."""
    for n in (4, 12):
        of_seed = np.geomspace(1, 1e6, n)
        every = np.ones(n, bool)
        ratio = speed_up(Times(2 * of_seed, every), Times(of_seed, every), np.random.default_rng(0))
        assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2, 2, 2))


def test_nothing_is_concluded_from_nothing() -> None:
    nothing = [np.full(100, np.nan)] * SEEDS
    error = {"error": HeldOutMetric("error", True, (0.1,))}
    with pytest.raises(EngineError) as told:
        rows(runs(PLAIN, nothing), runs("A()", nothing), error)
    assert (told.value.values["measure"], told.value.values["seeds"]) == ("error", SEEDS)
    some = [*falling(40)[:-1], nothing[0]]
    (row,) = rows(runs(PLAIN, falling(40)), runs("A()", some), error)
    assert row.verdict.startswith("unknown")
    assert f"1 of {2 * SEEDS}" in row.verdict


@pytest.mark.parametrize("seeds", [2, 3, 4, 5, 6, 7, 8, 10, 16])
def test_a_band_holds_the_median_as_often_as_it_says(seeds: int) -> None:
    """Whatever the values are drawn from; 95 % needs six seeds."""
    draw_ = np.random.default_rng(seeds)
    for values in (draw_.normal(size=(seeds, 4000)), np.exp(2 * draw_.normal(size=(seeds, 4000)))):
        low, high, level = band(values)
        truth = 0.0 if values.min() < 0 else 1.0
        assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(level, abs=0.02)
    assert (level >= 0.95) == (seeds >= ENOUGH)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3, 4, 5])
def test_a_speed_up_by_few_seeds_holds_as_often_as_it_says(seeds: int) -> None:
    draw_, every = np.random.default_rng(seeds), np.ones(seeds, bool)
    found = [speed_up(Times(a, every), Times(b, every), draw_) for a, b in np.exp(draw_.normal(size=(2000, 2, seeds)))]
    assert np.mean([each.low <= 1 <= each.high for each in found]) == pytest.approx(found[0].level, abs=0.03)
    assert all(each.low <= each.value <= each.high for each in found)


@pytest.mark.parametrize("seeds", [2, 8])
def test_the_figure_shows_each_of_few_seeds_and_the_band_of_many(seeds: int) -> None:
    with style.applied():
        (axes,) = draw([runs(PLAIN, falling(40)[:seeds])]).axes
    assert len(axes.lines) == (1 if seeds >= ENOUGH else 1 + seeds)
    assert len(axes.collections) == (seeds >= ENOUGH)
    assert ("99 %" in meaning(range(seeds))) == (seeds == SEEDS)


@pytest.mark.parametrize(
    ("yardstick", "amounts"),
    [("distinct", [1, 2, 2, 3]), ("highest", [3, 3, 3, 7]), ("lowest", [3, 1, 1, 1]), ("mean", [3, 2, 7 / 3, 3.5])],
)
def test_what_frames_amount_to(yardstick: str, amounts: list[float]) -> None:
    assert amount(np.array([3, 1, 3, 7]), Yardstick(lambda p, f: f["x"], yardstick)).tolist() == pytest.approx(amounts)


def test_rows_are_distinct_as_a_whole_and_what_is_below_0_is_in_no_cell() -> None:
    distinct = Yardstick(lambda p, f: f["x"])
    assert amount(np.array([[0, 1], [1, 0], [0, 1]], bool), distinct).tolist() == [1, 2, 2]
    assert amount(np.array([-1, 4, -1, 4]), distinct).tolist() == [0, 1, 1, 1]
    assert amount(np.zeros((3, 0), bool), distinct).tolist() == [1, 1, 1], "a peptide of three has no far contacts"


def test_plain_sampling_that_ran_longer_says_how_much_longer_it_needs() -> None:
    """Its end is not compared: all are, where the shortest ended."""

    def of(arm: Arm, cells_a_step: int, steps: int) -> Runs:
        curve = Curve(np.arange(1.0, steps + 1), np.arange(1.0, steps + 1) * cells_a_step)
        return Runs(arm, seeds=[0, 1], curves={"cells": [curve, curve]})

    (row,) = rows(of(Arm(PLAIN), 1, 400), of(Arm("Random()"), 4, 50), CELLS)
    assert row.sooner[175] == Interval(175 / 44, 175 / 44, 175 / 44, level=0.5)
    assert row.more == Interval(150.0, 150.0, 150.0, level=0.5)
    assert "(+150 to +150, 50 %)" in row.verdict


def test_the_figure_shows_the_whole_name_of_each_arm() -> None:
    curve = Curve(np.arange(1.0, 50), np.arange(1.0, 50))
    label = ", ".join(["Random() | Random()"] * 9)
    with style.applied():
        figure = draw([Runs(Arm(each), seeds=[0, 1], curves={"cells": [curve, curve]}) for each in (PLAIN, label)])
        figure.draw_without_rendering()
    (legend,) = figure.legends
    assert legend.get_window_extent().x1 <= figure.bbox.x1
    assert [" ".join(text.get_text().split()) for text in legend.get_texts()] == [PLAIN, label]
    assert "2 seeds" in legend.get_title().get_text()


@pytest.mark.parametrize(("seeds", "few"), [(2, True), (3, True), (8, False)])
def test_a_verdict_by_few_seeds_says_so(seeds: int, few: bool) -> None:
    curves = [Curve(np.arange(1.0, 50), np.arange(1.0, 50) * more) for more in (1, 4)]
    plain, better = (Runs(Arm(PLAIN), list(range(seeds)), {"cells": [curve] * seeds}) for curve in curves)
    better.arm, better.starts, better.own = Arm("Random()"), [20], [20]
    (row,) = rows(plain, better, CELLS)
    assert row.verdict.startswith("better")
    assert row.verdict.endswith(f"by only {seeds} seeds") is few


def test_seeds_that_gave_one_run_say_nothing() -> None:
    """As of a simulation that does not read out.seed: equal numbers of one run are no sample."""
    plain, other = runs(PLAIN, [np.full(100, 4.0)] * 4), runs("Random()", [np.full(100, 6.0)] * 4)
    one, other_one = ["a", "b"], ["a", "c"]
    for first, one_run in (([one, ["a"]], True), ([one, other_one], False), ([one, []], False), ([], False)):
        (row,) = rows(replace(plain, first=first), other, {"error": CELLS["cells"]})
        assert (row.verdict == ONE_RUN) is one_run


@pytest.mark.parametrize("draws", [True, False])
@pytest.mark.parametrize("continued", [True, False])
def test_new_members_are_not_compared_with_segments_that_go_on(*, draws: bool, continued: bool) -> None:
    plain, other = runs(PLAIN, [np.full(100, 4.0)] * 4), runs("Random()", [np.full(100, 6.0)] * 4)
    (row,) = rows(replace(plain, continued=continued), replace(other, draws=draws), {"error": CELLS["cells"]})
    assert (row.verdict == CONTINUED) is (draws and continued)


@pytest.mark.parametrize("own", [[0, 5, 5, 5], [0, 0, 5, 5], [5, 5, 5, 5]], ids=str)
def test_seeds_that_a_policy_did_not_steer_are_told(own: list[int]) -> None:
    plain, other = runs(PLAIN, [np.full(100, 4.0)] * 4), runs("Random()", [np.full(100, 6.0)] * 4)
    (row,) = rows(plain, replace(other, starts=[5] * 4, own=own), {"error": CELLS["cells"]})
    (told,) = rows(plain, replace(other, starts=[5] * 4, own=[5] * 4), {"error": CELLS["cells"]})
    assert row.unsteered == own.count(0)
    assert row.verdict.startswith(told.verdict)
    assert (row.verdict == told.verdict) is all(own)


def test_a_policy_that_chose_no_start_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However much better its runs were: others chose their starts. Each format has the share that it chose."""
    curves = [Curve(np.arange(1.0, 50), np.arange(1.0, 50) * more) for more in (1, 4)]
    plain, idle, chose = (
        Runs(Arm(policy), seeds=[0, 1], curves={"cells": [curve, curve]}, starts=[10, 10], own=own)
        for policy, curve, own in (
            (PLAIN, curves[0], [8, 10]),
            ("Random()", curves[1], [0, 0]),
            ('Novelty("z")', curves[1], [3, 2]),
        )
    )
    found = [(row, runs) for runs in (plain, idle, chose) for row in rows(plain, runs, CELLS)]
    assert [row.verdict == CHOSE_NONE for row, _ in found] == [False, True, False]
    assert [replace(row, blind=True).verdict == BLIND for row, _ in found] == [False, False, True]
    lines = [line.split(" | ") for line in table(found).splitlines() if line.count("%")]
    assert [line[-2] for line in lines] == ["90 %", "0 %", "25 %"]
    written: Any = write(tmp_path, [plain, idle, chose], found)
    assert [row["chosen_by_policy"] for row in written["rows"]] == [0.9, 0, 0.25]
    with (tmp_path / "runs.csv").open() as file:
        shares = {(row["arm"], row["seed"]): float(row["chosen_by_policy"]) for row in csv.DictReader(file)}
    assert list(shares.values()) == [0.8, 1, 0, 0, 0.3, 0.2], "of each seed"
    monkeypatch.setenv("COLUMNS", "60")
    print_rows([row for row, _ in found])
    said = capsys.readouterr().out
    assert all(said.count(f" {share} %") == 1 for share in (90, 0, 25)), "the number and its sign are in one line"


def test_variations_of_a_parameter_are_compared_at_the_same_levels() -> None:
    """However differently plain sampling does under them: the table has one column for each level."""
    curves = [Curve(np.arange(1.0, 50), np.arange(1.0, 50) * more) for more in (1, 4)]
    plain = [
        Runs(Arm(PLAIN, (f"steps={i}",)), seeds=[0, 1], curves={"cells": [curve] * 2}) for i, curve in enumerate(curves)
    ]
    measures = with_levels({"cells": replace(CELLS["cells"], levels=())}, plain)
    found = [(row, runs) for runs in plain for row in rows(runs, runs, measures)]
    first, second = (tuple(row.times) for row, _ in found)
    assert first == second
    assert len(first) == 2
    assert table(found).count("median frames to") == 2


def test_a_cost_is_that_of_one_run() -> None:
    plain, arm = runs(PLAIN, falling(40)), runs("A()", falling(20))
    for each in (plain, arm):
        each.cost = Counter({"simulation": 24.0 * SEEDS, "wall": 30.0 * SEEDS})
    error = {"error": HeldOutMetric("error", True, (0.1,))}
    said = table([(row, arm) for row in rows(plain, arm, error)]).splitlines()
    assert said[-1] == "| `A()` | 24.0 | 30.0 |"


def test_what_steers_to_a_known_target_is_marked_wherever_it_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what has no value is null, not NaN, which is no JSON."""
    plain, target = runs(PLAIN, falling(40)), runs("Target()", [*falling(20)[:-1], np.full(100, np.nan)])
    target.arm = Arm("Target()", guided=True)
    (row,) = rows(plain, target, {"error": HeldOutMetric("error", True, (0.1,))})
    summary = write(tmp_path, [plain, target], [(row, target)])
    print_rows([row])
    shown = [table([(row, target)]), Comparison(tmp_path, [row], summary)._repr_html_(), capsys.readouterr().out]
    assert all("(guided)" in each for each in shown)
    assert json.loads((tmp_path / "comparison.json").read_text(), parse_constant=pytest.fail) == summary
    assert summary["rows"][0]["final"][-1] is None
