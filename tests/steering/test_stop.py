"""Stop rules say why, combine, and know goals from budgets."""

from typing import Any

import pytest

from steersman.steering import SECONDS, Novelty, Progress, Unsteered, budget, plateau, reached


@pytest.mark.parametrize(
    ("limits", "progress", "words"),
    [
        ({"frames": 10}, Progress(frames=10), "10 frames"),
        ({"hours": 0.5}, Progress(hours=0.51), "0.5 hours"),
        ({"gpu_hours": 2}, Progress(gpu_hours=2.0), "2 GPU hours"),
        ({"sim_ns": 100}, Progress(simulated_s=100e-9), "100 simulated ns"),
        ({"sim_days": 3}, Progress(simulated_s=3 * 86400.0), "3 simulated days"),
    ],
)
def test_a_budget_stops_when_it_is_spent_and_not_before(
    limits: dict[str, float], progress: Progress, words: str
) -> None:
    rule = budget(**limits)
    assert rule.reason(Progress()) is None
    assert words in (rule.reason(progress) or "")
    assert not rule.goal
    assert rule.share(progress) == 1.0 <= rule.spent(progress)


def test_units_of_time_have_their_udunits_names() -> None:
    for names, seconds in {
        ("fs", "femtosecond", "femtoseconds"): 1e-15, ("ps", "picosecond"): 1e-12, ("ns", "nanoseconds"): 1e-9,
        ("us", "µs", "\u03bcs", "microsecond"): 1e-6, ("ms", "millisecond"): 1e-3, ("s", "sec", "second", "seconds"): 1,
        ("min", "minute", "minutes"): 60, ("h", "hr", "hour", "hours"): 3600, ("d", "day", "days"): 86400,
    }.items():  # fmt: skip
        assert [SECONDS[name] for name in names] == [seconds] * len(names)
    assert not {"1", "", "m", "M", "minutess", "pico"} & SECONDS.keys()


def test_a_budget_of_simulated_time_is_not_spent_where_its_seconds_are_unknown() -> None:
    unknown, rule = Progress(frames=5, simulated_s=float("nan")), budget(sim_ns=1) | budget(frames=10)
    assert (rule.reason(unknown), rule.share(unknown)) == (None, 0.5)
    assert rule.room(unknown) == pytest.approx(1.0)
    assert rule.counts_simulated
    assert not budget(frames=10, hours=1).counts_simulated


@pytest.mark.parametrize("limits", [{}, {"parsecs": 1}, {"frames": 0}, {"hours": -1}])
def test_a_budget_that_means_nothing_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="budget"):
        budget(**limits)


def test_a_plateau_needs_its_last_decisions_without_a_rise() -> None:
    rule = plateau("coverage", last=3)
    rising, flat = [1.0, 2, 3, 4, 5, 6], [1.0, 5, 5, 5, 5]
    assert rule.reason(Progress(metrics={"coverage": rising})) is None
    assert rule.reason(Progress(metrics={"coverage": flat[:3]})) is None, "too few decisions"
    assert rule.reason(Progress(metrics={"coverage": [1.0, 1, 5, 5, 5]})) is None, "it rose three decisions ago"
    assert (
        rule.reason(Progress(metrics={"coverage": flat})) == "coverage rose by less than 1 % over the last 3 scorings"
    )


@pytest.mark.parametrize("last", [1, 2, 5])
def test_a_plateau_is_as_long_as_it_says(last: int) -> None:
    """It ends at the scoring that is the `last`th after the newest rise, and so never before there are that many."""
    rule = plateau("q", last=last)

    def ends(values: list[float], begins: list[int]) -> bool:
        return bool(rule.reason(Progress(metrics={"q": values}, begins={"q": begins})))

    for begins in ([], [2], [2, 3]):  # another model steps from 7 to 1, and maybe back
        steps = [7.0, 7, 1, 1 if len(begins) < 2 else 9] if begins else [1.0, 2, 3, 4]
        values = [*steps, *[steps[-1] + 1] * (last + 2)]  # the newest rise is the fifth value
        assert [ends(values[:n], begins) for n in range(5, 5 + last + 2)] == [False] * last + [True] * 2
    assert [ends([1.0] * n, []) for n in range(last + 3)] == [False] * (last + 1) + [True] * 2


def test_a_step_between_models_is_no_rise_and_no_fall() -> None:
    """As coverage of a latent space does: 110 cells, then 60 in the next version's space, then 250 in the next."""
    rule = plateau("coverage", last=4)
    rises = [100.0, 110, 60, 61, 62, 63]
    assert rule.reason(Progress(metrics={"coverage": rises})), "the same model: 110 was the best"
    assert rule.reason(Progress(metrics={"coverage": rises}, begins={"coverage": [2]})) is None
    flat = [100.0, 100, 60, 60, 250, 250]
    assert rule.reason(Progress(metrics={"coverage": flat})) is None
    assert rule.reason(Progress(metrics={"coverage": flat}, begins={"coverage": [2, 4]}))


def test_reached_looks_at_the_newest_value() -> None:
    assert reached("q", 0.8).reason(Progress(metrics={"q": [0.9, 0.5]})) is None
    assert reached("q", 0.8).reason(Progress(metrics={"q": [0.5, 0.9]})) == "q reached 0.9 (at least 0.8)"
    assert reached("rmsd", 2.0, below=True).reason(Progress(metrics={"rmsd": [1.5]}))


def test_rules_combine_and_the_one_that_is_met_is_told() -> None:
    rule = budget(frames=100) | plateau("coverage") | reached("q", 1.0)
    assert rule.goal
    assert rule.reason(Progress(frames=5)) is None
    assert rule.reason(Progress(frames=5, metrics={"q": [1.0]})) == "q reached 1 (at least 1)"
    assert not rule.reached(Progress(frames=100))
    assert rule.reached(Progress(frames=100, metrics={"q": [1.0]}))
    either_goal = (reached("never", 9) | budget(frames=1000)) & budget(frames=400)
    assert either_goal.reason(Progress(frames=1000))
    assert not either_goal.reached(Progress(frames=1000)), "a budget has ended it"
    assert either_goal.reached(Progress(frames=400, metrics={"never": [9.0]}))
    assert rule.share(Progress(frames=50)) == 0.5


@pytest.mark.parametrize("rule", [budget(frames=1), budget(frames=1) | reached("q", 1.0), Novelty("z"), Unsteered()])
def test_or_drops_no_rule_and_no_policy(rule: Any) -> None:
    """Of `budget(...) or reached(...)` Python keeps the first alone."""
    with pytest.raises(TypeError):
        _ = rule or reached("q", 2.0)


def test_what_is_no_number_ends_nothing() -> None:
    nan = float("nan")
    for rule in (reached("q", 0.8), reached("q", 0.8, below=True)):
        assert rule.reason(Progress(metrics={"q": [nan]})) is None
    flat = plateau("q", last=2)
    assert flat.reason(Progress(metrics={"q": [nan, 1.0, 2.0, 3.0, 4.0]})) is None, "it rises"
    assert flat.reason(Progress(metrics={"q": [1.0, 5.0, 5.0, nan, 5.0]})), "it does not"
    for wrong in (lambda: plateau("q", last=0), lambda: budget(hours=nan)):
        with pytest.raises(ValueError, match="greater than"):
            wrong()
