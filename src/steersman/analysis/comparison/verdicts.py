"""Finished campaigns -> what is known of each arm: curves, times to levels, what they cost, and a verdict in words.

Axes: K seeds, m points of a curve.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from steersman.analysis.comparison.arms import Arm, steering_of
from steersman.analysis.comparison.metric import HeldOutMetric
from steersman.analysis.comparison.statistics import ENOUGH, LEVEL, Interval, Times, difference, median_time, speed_up
from steersman.data.history import History
from steersman.data.yardsticks import Curve, measure
from steersman.journal.decisions import ranking_seconds
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.stages.workflow import Workflow
from steersman.stages.yardstick import Yardstick
from steersman.steering.decide import CHOSE_NONE
from steersman.store import Span, Window
from steersman.system.errors import BadInput, EngineError

Measures = Mapping[str, Yardstick | HeldOutMetric]

POINTS = 200
BLIND = "it measures nothing: no segment looked at start.frame or left a state, so all began at the prepared start"
ONE_RUN = (
    "unknown: all seeds of plain sampling gave the same frames; does `simulate` draw random numbers with out.seed?"
)
CONTINUED = (
    "unknown: plain sampling went on from stored frames, and this policy draws new members; let `simulate` begin at "
    "`start.point(...)` and not look at start.frame"
)
FIRST, FIRST_BYTES = 2000, 2**25  # of a walker's frames are compared, to see whether seeds make a difference
SEED = 0  # of the bootstrap: a table that is made again is the same


@dataclass
class Runs:
    """The runs of one arm, in order of seeds.

    Args:
        curves: yardstick -> one Curve for each seed.
        cost: part -> seconds, all seeds together.
        starts: of each seed.
        own: of them, those that the arm's policy itself chose.
        trained: seeds in which a model was trained.
        blind: its policy chooses frames, and in some run no segment began at the frame that was chosen for it.
        first: of each seed of plain sampling, its first frames as hashes.
        draws: its policy draws new members.
        continued: segments looked at the frames that were chosen for them.
    """

    arm: Arm
    seeds: list[int] = field(default_factory=list)
    curves: dict[str, list[Curve]] = field(default_factory=dict)
    cost: Counter[str] = field(default_factory=Counter)
    unit: str = "frames"
    starts: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    trained: int = 0
    blind: bool = False
    first: list[list[str]] = field(default_factory=list)
    draws: bool = False
    continued: bool = False

    @property
    def share(self) -> float:
        """Of all seeds' starts that the arm's policy itself chose; NaN where there is no start."""
        return sum(self.own) / total if (total := sum(self.starts)) else math.nan


@dataclass(frozen=True)
class ArmResult:
    """One arm by one yardstick, beside plain sampling with the same parameters.

    Args:
        share: of the starts that its policy itself chose, and not the fallback, `explore` or a person.
        final: (K,) float, the values when as much was spent as every run did spend; NaN: there was none.
        base: (K,) float, plain's at the same time.
        times: level -> when each seed reached it.
        sooner: level -> how many times sooner than plain.
        more: final value minus plain's.
        one_run: the seeds make no difference to plain's frames.
        unsteered: of how many seeds its policy chose no start.
        continued: it draws new members, and plain sampling does not.
    """

    arm: Arm
    yardstick: str
    less: bool
    share: float
    final: np.ndarray
    base: np.ndarray
    times: Mapping[float, Times]
    sooner: Mapping[float, Interval]
    more: Interval
    blind: bool = False
    one_run: bool = False
    unsteered: int = 0
    continued: bool = False

    @property
    def verdict(self) -> str:
        """In plain words."""
        if self.arm.plain:
            return "plain sampling: what the others are compared with"
        if unknown := int(np.isnan(self.final).sum() + np.isnan(self.base).sum()):
            return f"unknown: {self.yardstick} has no value in {unknown} of {2 * len(self.final)} campaigns"
        if self.share == 0:
            return CHOSE_NONE
        if self.one_run:
            return ONE_RUN
        if self.blind:
            return BLIND
        if self.continued:
            return CONTINUED
        said = [self._sooner(level, ratio) for level, ratio in self.sooner.items()]
        better, worse = self.more.low > 0, self.more.high < 0
        if self.less:
            better, worse = worse, better
        if better or worse:
            amount = f"{self.more.value:+.3g} ({self.more.low:+.3g} to {self.more.high:+.3g}{_level(self.more)})"
            said.insert(0, f"{'better' if better else 'worse'} at the end, mean difference {amount}")
        words, seeds = "; ".join(word for word in said if word) or "no difference shown", len(self.final)
        few = "" if seeds >= ENOUGH else f", by only {seeds} seeds"
        idle = f"; its policy chose no start in {self.unsteered} of {seeds} seeds" if self.unsteered else ""
        return f"{words}{few}{idle}"

    def _sooner(self, level: float, ratio: Interval) -> str:
        low, high = (float(f"{bound:.2g}") for bound in (ratio.low, ratio.high))  # as they are said
        if low > 1:
            return f"{level:g} is reached {_times(ratio)} sooner"
        return f"{level:g} is reached later; plain needs at most {high:g} of the time" if high < 1 else ""


def _times(ratio: Interval) -> str:
    return f"{'at least ' if ratio.at_least else ''}{ratio.value:.2g} times ({bounds(ratio)})"


def bounds(ratio: Interval) -> str:
    """An interval in words, with how often it holds the truth where that is less than 95 %."""
    return f"{ratio.low:.2g} {'or more' if np.isinf(ratio.high) else f'to {ratio.high:.2g}'}{_level(ratio)}"


def _level(interval: Interval) -> str:
    return f", {100 * interval.level:.0f} %" if interval.level < LEVEL else ""


def expect_yardstick(workflow: Workflow, metrics: Sequence[HeldOutMetric] = ()) -> None:
    """Raises: BadInput: there is nothing to compare runs by."""
    if not (workflow.yardsticks or metrics):
        raise BadInput(
            f"{workflow.name} has no yardstick, and metrics see a run's own latent space, which cannot be compared "
            "between runs; decorate a function of stored frames with @wf.yardstick(), or, where draws are held out, "
            "name a metric of them with --metric"
        )


def collect(
    arm: Arm, directories: Mapping[int, Path], workflow: Workflow, metrics: Sequence[HeldOutMetric] = ()
) -> Runs:
    """Measure every run of an arm by metrics, or by the yardsticks of `workflow` where none are given.

    Raises: BadInput: it has none either.
    """
    expect_yardstick(workflow, metrics)
    runs = Runs(arm)
    for seed, path in directories.items():
        directory = RunDirectory(path)
        history = History(directory)
        curves = {metric.name: metric.curve(history) for metric in metrics}
        if not metrics:
            curves = measure(history, workflow, loading.checked(workflow, directory.settings()["params"]))
        for name, curve in curves.items():
            runs.curves.setdefault(name, []).append(curve)
        runs.seeds.append(seed)
        runs.cost.update(_cost(history))
        runs.starts.append(history.state.chosen.total())
        steering = steering_of(arm, partial(history.steering, workflow))
        runs.trained += any(model.fit for model in history.state.models)
        runs.own.append(steering.own(history.state.chosen))
        runs.blind |= history.state.blind and not steering.policy.draws
        runs.draws = steering.policy.draws
        runs.continued |= bool(history.state.reads and history.state.used)
        if arm.plain:
            runs.first.append(_first(history))
        runs.unit = history.state.time_unit if history.state.simulated else "frames"
    return runs


def _first(history: History) -> list[str]:
    """Hashes of the first frames of the first walker that has any, in ended segments: not many, nor much memory."""
    frames = history.directory.frames
    walker = next((walker for walker in history.state.walkers.values() if walker.frames and walker.segments), None)
    if walker is None:
        return []
    most = min(FIRST, FIRST_BYTES // sum(each.like.nbytes for each in frames.stored(walker.name).values()) + 1)
    ended = itertools.takewhile(lambda each: each.end is not None and each.first < most, walker.segments)
    spans = [Span(walker.name, each.first, min(each.end or 0, most)) for each in ended]
    if not any(span.rows for span in spans):
        return []
    window = Window(frames, spans)
    columns = [window[name] for name in sorted(window)]
    return [hashlib.sha256(b"".join(row.tobytes() for row in rows)).hexdigest() for rows in zip(*columns, strict=True)]


def _cost(history: History) -> dict[str, float]:
    state = history.state
    return {
        "simulation": state.spent["ran"],
        "training": sum(model.fit.seconds or 0.0 for model in state.models if model.fit),
        "scoring": state.scoring_s,
        "steering": ranking_seconds(history.directory),
        "slots waiting": state.spent["waited"],
        "wall": 3600 * state.hours(state.now),
    }


def with_levels(measures: Measures, plain: Sequence[Runs]) -> Measures:
    """Measures and the levels whose times are compared, the same for all arms: where one names none, what plain
    sampling reaches at half time and at its end, of all variations together. A mean comes to nothing: it has none."""
    return {
        name: measure if measure.levels or _is_mean(measure) else replace(measure, levels=_levels(
            [curve for runs in plain for curve in runs.curves[name]],
            less=measure.less, whole=isinstance(measure, Yardstick) and measure.take == "distinct",
        ))
        for name, measure in measures.items()
    }  # fmt: skip


def rows(plain: Runs, runs: Runs, measures: Measures) -> list[ArmResult]:
    """One arm beside plain sampling, by every measure.

    Raises: EngineError: neither has a value of one.
    """
    results = [_row(plain, runs, name, measure) for name, measure in with_levels(measures, [plain]).items()]
    for row in results:
        if np.isnan([*row.final, *row.base]).all():
            raise EngineError(
                "{measure} has no value in {seeds} campaigns of an arm, nor in those of plain sampling; {trained} "
                "models were trained: take a larger budget, or train with fewer frames",
                measure=row.yardstick, seeds=len(runs.seeds), trained=plain.trained + runs.trained,
            )  # fmt: skip
    return results


def _row(plain: Runs, runs: Runs, name: str, yardstick: Yardstick | HeldOutMetric) -> ArmResult:
    rng = np.random.default_rng(SEED)
    end = min(curve.spent[-1] for each in (plain, runs) for curve in each.curves[name])
    base, mine = (np.array([float(curve.at(end)) for curve in each.curves[name]]) for each in (plain, runs))
    before, times = (
        {
            level: _reached(each.curves[name], level, less=yardstick.less, stays=_is_mean(yardstick))
            for level in yardstick.levels
        }
        for each in (plain, runs)
    )
    return ArmResult(
        runs.arm, name, yardstick.less, runs.share, mine, base, times,
        {level: speed_up(before[level], times[level], rng) for level in times}, difference(base, mine), runs.blind,
        len(plain.first) > 1 and {len(set(each)) for each in zip(*plain.first, strict=False)} == {1},
        runs.own.count(0), runs.draws and plain.continued,
    )  # fmt: skip


def _levels(curves: Sequence[Curve], *, less: bool, whole: bool) -> tuple[float, ...]:
    """What plain sampling reaches at half time and at its end, in the median, to a hundredth of how far a run goes.

    A level is rounded to the side on which that median has reached it.
    """
    end = min(curve.spent[-1] for curve in curves)
    reached = [float(np.median([curve.at(share * end) for curve in curves])) for share in (0.5, 1.0)]
    if whole:
        return tuple(dict.fromkeys(math.ceil(value) if math.isfinite(value) else value for value in reached))
    finite = [curve.value[np.isfinite(curve.value)] for curve in curves]
    span = float(np.median([np.ptp(values) if len(values) else 0.0 for values in finite]))  # not of the one far out
    digits = 2 - math.floor(math.log10(span)) if span else 15
    near = [round(value, digits) for value in reached]
    beyond = [level < value if less else level > value for level, value in zip(near, reached, strict=True)]
    step = 10.0**-digits * (1 if less else -1)
    return tuple(dict.fromkeys(round(at + step * over, digits) for at, over in zip(near, beyond, strict=True)))


def _is_mean(measure: Yardstick | HeldOutMetric) -> bool:
    return isinstance(measure, Yardstick) and measure.take == "mean"


def _reached(curves: Sequence[Curve], level: float, *, less: bool, stays: bool) -> Times:
    """When each curve came to a level first, or `stays`, for good: a mean of few frames may be anything."""
    time, reached = [], []
    for curve in curves:
        there = curve.value <= level if less else curve.value >= level
        if stays:
            there = np.logical_and.accumulate(there[::-1])[::-1]
        reached.append(bool(there.any()))
        time.append(float(curve.spent[there.argmax()] if there.any() else curve.spent[-1]))
    return Times(np.array(time), np.array(reached))


def grid(runs: Runs, name: str) -> np.ndarray:
    """(m,) float: what was spent, up to where every seed came."""
    end = min(curve.spent[-1] for curve in runs.curves[name])
    return np.linspace(end / POINTS, end, POINTS)


def as_json(row: ArmResult, runs: Runs) -> dict[str, object]:
    """Plain values of a row; infinite is a time that was not reached in the median, or a bound that is not known."""
    return {
        "arm": row.arm.label, "varied": ", ".join(row.arm.varied), "guided": row.arm.guided,
        "yardstick": row.yardstick, "unit": runs.unit,
        "seeds": runs.seeds, "final": row.final.tolist(), "final_median": float(np.median(row.final)),
        "more": row.more[:3], "more_holds": row.more.level, "verdict": row.verdict, "chosen_by_policy": row.share,
        "levels": [
            {
                "level": level, "median_time": median_time(times), "reached": int(times.reached.sum()),
                "times": times.time.tolist(), "censored": (~times.reached).tolist(),
                "sooner": row.sooner[level][:3], "holds": row.sooner[level].level,
            }
            for level, times in row.times.items()
        ],
        "cost_s": {part: round(seconds, 2) for part, seconds in runs.cost.items()},
    }  # fmt: skip
