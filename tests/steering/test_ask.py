"""A generator of the ecosystem's standard is told each result once, and suggests the next members."""

from typing import Any

import numpy as np
import optuna
import pytest
import torch
from gest_api.generator import Generator
from gest_api.vocs import VOCS
from libensemble.gen_classes import UniformSample

from steersman.steering import Ask, Scores
from steersman.steering.decide import Decider, steered
from steersman.steering.protocols import AT_RANDOM
from steersman.system.errors import BadValue

optuna.logging.set_verbosity(optuna.logging.ERROR)
PLANE = VOCS(variables={"x": [-2.0, 2.0], "y": [0.0, 1.0]}, objectives={"f": "MINIMIZE"})


class Optuna(Generator):  # type: ignore[misc]  # the standard has no types
    """What somebody writes for a library that does not speak the standard."""

    def __init__(self, vocs: VOCS, seed: int) -> None:
        super().__init__(vocs)
        self.told: list[dict[str, float]] = []
        self._space = {
            name: optuna.distributions.FloatDistribution(*each.domain) for name, each in vocs.variables.items()
        }
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))

    def _validate_vocs(self, vocs: VOCS) -> None: ...

    def suggest(self, num_points: int | None) -> list[dict[str, Any]]:
        return [{**self._study.ask(self._space).params, "_id": n} for n in range(num_points or 1)]

    def ingest(self, results: list[dict[str, Any]]) -> None:
        self.told += results
        for each in results:
            params = {name: each[name] for name in self._space}
            self._study.add_trial(optuna.trial.create_trial(params=params, distributions=self._space, value=each["f"]))


def scored(x: Any, y: Any, f: Any, **more: Any) -> Scores:
    n = len(x)
    every = {"walker": np.zeros(n, int), "row": np.arange(n), "segment": np.arange(n), "starts": np.zeros(n, int)}
    values = {name: np.asarray(value, float) for name, value in (("x", x), ("y", y), ("f", f))}
    return Scores(**{**every, "ends": np.ones(n, bool), "values": values, **more})


NONE = scored([], [], [], values={})


def suggesting(*points: Any) -> type:
    """A generator that always says the same, whatever it is told."""

    class Same:
        def __init__(self, *_: Any) -> None: ...

        def ingest(self, results: list[dict[str, Any]]) -> None: ...

        def suggest(self, num_points: int | None) -> list[Any]:
            return list(points)

    return Same


def drawn(policy: Ask, scores: Scores, seed: int = 0) -> list[dict[str, Any]]:
    return [dict(candidate.draw) for candidate in policy.rank(scores, np.random.default_rng(seed))]


def test_a_generator_from_elsewhere_draws_within_its_bounds_each_time_others() -> None:
    policy = Ask(PLANE, lambda vocs, seed: UniformSample(vocs, random_seed=seed), batch=50)
    rng = np.random.default_rng(0)
    draws = [each.draw for _ in range(2) for each in policy.rank(NONE, rng)]
    x, y = (np.array([draw[name] for draw in draws], float) for name in "xy")
    assert len(np.unique(x)) == 100
    assert ((x >= -2) & (x <= 2) & (y >= 0) & (y <= 1)).all()


def test_what_it_suggests_is_a_pure_function_of_scores_and_seed() -> None:
    """So a driver that was killed goes on, and a replay finds the same."""
    some = scored([0.1, 1.5] * 10, [0.2, 0.9] * 10, [1.0, 4.0] * 10)
    assert drawn(Ask(PLANE, Optuna), some) == drawn(Ask(PLANE, Optuna), some)
    assert drawn(Ask(PLANE, Optuna), some) != drawn(Ask(PLANE, Optuna), some, seed=1)


def test_it_is_told_the_end_of_each_member() -> None:
    """Also what is held out of the training of a model, which is every tenth member, and may be the best."""
    made: list[Optuna] = []

    def make(vocs: VOCS, seed: int) -> Optuna:
        made.append(Optuna(vocs, seed))
        return made[-1]

    ends, held_out = np.array([False, True, True, True, True]), np.array([False, False, False, True, False])
    f = [0.0, 1.0, 2.0, 3.0, 4.0]
    drawn(Ask(PLANE, make), scored([0.0, 0.1, 0.2, 0.3, 0.4], [0.5] * 5, f, ends=ends, held_out=held_out))
    assert made[0].told == [
        {"x": x, "y": 0.5, "f": value} for x, value in ((0.1, 1.0), (0.2, 2.0), (0.3, 3.0), (0.4, 4.0))
    ]


@pytest.mark.parametrize("seed", range(3))
def test_one_that_learns_comes_closer_than_one_that_does_not(seed: int) -> None:
    def found(policy: Ask) -> float:
        """The median of the last 15 of 60 members, each chosen as the driver does."""
        decider, rng, known = Decider(steered(policy)), np.random.default_rng(seed), NONE
        points: list[tuple[float, float, float]] = []
        for _ in range(60):
            choice = decider.choose(known, rng)
            assert choice.candidate is not None
            x, y = choice.candidate.draw["x"], choice.candidate.draw["y"]
            points.append((x, y, (x - 1) ** 2 + (y - 0.3) ** 2))  # type: ignore[operator, arg-type]
            known = scored(*zip(*points, strict=True))
        return float(np.median([point[2] for point in points[-15:]]))

    assert found(Ask(PLANE, Optuna)) < 0.3 * found(Ask(PLANE, UniformSample))


def test_a_score_of_two_numbers_does_not_fit_the_vocs() -> None:
    with pytest.raises(ValueError, match="'f'"):
        drawn(Ask(PLANE, Optuna), scored([0.0], [0.0], [[0.0, 1.0]]))


def test_a_generator_is_asked_before_the_scores_are_there_and_need_not_be_finalized() -> None:
    class Walk:
        def __init__(self, *_: Any) -> None:
            self.told = 0

        def ingest(self, results: list[dict[str, Any]]) -> None:
            self.told += len(results)

        def suggest(self, num_points: int | None) -> list[dict[str, Any]]:
            return [{"x": self.told, "y": 0.0}]

    early = scored([0.0], [0.0], [0.0])
    later = Ask(VOCS(variables={"x": [0, 1]}, objectives={"g": "MINIMIZE"}), Walk)
    assert later.proposals(early, np.random.default_rng(0))[0].draw["x"] == 0
    assert Ask(PLANE, Walk).proposals(early, np.random.default_rng(0))[0].draw["x"] == 1


def test_one_that_wants_results_first_is_given_some_and_one_that_draws_from_everybody_repeats_itself() -> None:
    """As those of Xopt that learn."""

    class Shy:
        def __init__(self, *_: Any) -> None:
            self.told = 0

        def ingest(self, results: list[dict[str, Any]]) -> None:
            self.told += len(results)

        def suggest(self, num_points: int) -> list[dict[str, Any]]:
            if not self.told:
                raise RuntimeError("no data")
            return [{"x": np.random.rand(), "y": 2.0 + 3.0 * int(torch.randint(2, ()))} for _ in range(num_points)]  # noqa: NPY002

    vocs = VOCS(variables={"x": [-1.0, 1.0], "y": {2, 5}}, objectives={"f": "MINIMIZE"})
    first = Ask(vocs, Shy, batch=50).proposals(NONE, np.random.default_rng(0))
    assert len(first) == 50
    assert np.abs([each.draw["x"] for each in first]).max() <= 1
    assert {each.draw["y"] for each in first} == {2, 5}
    members, after = [], []
    for seed in (0, 1, 0):
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        members.append(drawn(Ask(vocs, Shy), scored([0.0], [2.0], [0.0])))
        after.append((np.random.rand(), float(torch.rand(()))))  # noqa: NPY002
    assert members[0] == members[1]
    assert after[0] == after[2] != after[1], "those of everybody else go on as before"


@pytest.mark.parametrize("known", [NONE, scored([0.0], [0.5], [0.0])], ids=["before results", "after"])
def test_where_nothing_is_suggested_members_are_drawn_evenly_and_said_to_be(known: Scores) -> None:
    made = Ask(PLANE, suggesting(), batch=3).proposals(known, np.random.default_rng(0))
    assert len({each.draw["x"] for each in made}) == 3
    assert {each.policy for each in made} == {AT_RANDOM}
    assert all("suggests nothing" in each.reason for each in made)


@pytest.mark.parametrize(
    "point", [{"x": "wide", "y": 0.0}, {"x": 0.0}, {"x": np.nan, "y": 0.0}, {"x": None, "y": 0.0}, np.zeros(2)]
)
def test_a_suggestion_that_is_no_number_for_each_variable_is_refused(point: Any) -> None:
    """A simulation would fail on it, and its author be blamed."""
    with pytest.raises(ValueError, match="the generator suggests"):
        drawn(Ask(PLANE, suggesting(point)), NONE)


@pytest.mark.parametrize("known", [NONE, scored([0.0], [0.5], [0.0])], ids=["before results", "after"])
def test_a_generator_that_forgets_to_return_is_named(known: Scores) -> None:
    class Forgetful:
        def __init__(self, *_: Any) -> None: ...

        def ingest(self, results: list[dict[str, Any]]) -> None: ...

        def suggest(self, num_points: int) -> None: ...

    with pytest.raises(TypeError, match=r"Forgetful\.suggest returns None"):
        drawn(Ask(PLANE, Forgetful), known)


HALVES = VOCS(variables={"x": [0.1, 300.1], "y": {0.1, 5}}, objectives={"f": "MINIMIZE"})


@pytest.mark.parametrize(("x", "y"), [(0.09, 5), (300.2, 5), (1.0, 0.2)])
def test_a_suggestion_outside_the_bounds_is_refused(x: float, y: float) -> None:
    """The best would lie where its author has forbidden it."""
    with pytest.raises(ValueError, match="the generator suggests"):
        drawn(Ask(HALVES, suggesting({"x": x, "y": y})), NONE)


@pytest.mark.parametrize(("x", "y"), [(0.1, 5), (np.float32(300.1), np.float32(0.1)), (np.float32(0.1), 5.0)])
def test_the_bounds_themselves_are_allowed_also_in_single_precision(x: float, y: float) -> None:
    assert drawn(Ask(HALVES, suggesting({"x": x, "y": y})), NONE) == [{"x": float(x), "y": float(y)}]


@pytest.mark.parametrize("points", [[], [{"x": 0.0, "y": 0.5}], [{"x": 0.0, "y": 0.5, "d": 0.25}]])
def test_constants_stand_in_each_draw_whoever_draws_it(points: list[Any]) -> None:
    """Also where a generator leaves them out, or suggests nothing yet."""
    vocs = VOCS(variables=PLANE.variables, constants={"d": 0.25}, objectives={"f": "MINIMIZE"})
    (draw,) = drawn(Ask(vocs, suggesting(*points)), NONE)
    assert draw["d"] == 0.25
    with pytest.raises(ValueError, match="constant"):
        drawn(Ask(vocs, suggesting({"x": 0.0, "y": 0.5, "d": 0.5})), NONE)


def test_what_a_generator_suggests_before_any_result_is_said_to_be_its_own() -> None:
    (first,) = Ask(PLANE, suggesting({"x": 0.0, "y": 0.5})).proposals(NONE, np.random.default_rng(0))
    assert first.policy == "Ask"


@pytest.mark.parametrize(("vocs", "make"), [({"x": [0, 1]}, Optuna), (PLANE, Optuna(PLANE, 1)), (Optuna, PLANE)])
def test_what_is_no_vocs_or_makes_no_generator_is_refused_where_it_is_written(vocs: Any, make: Any) -> None:
    with pytest.raises((TypeError, BadValue)):
        Ask(vocs, make)
