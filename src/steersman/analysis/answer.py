"""A model and its data -> what is said: plain values, and what the data do not support in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from steersman.analysis import time_scales
from steersman.analysis.markov import CONNECTED, MarkovStateModel
from steersman.analysis.page import Analysis
from steersman.analysis.trajectories import MOST_LABELS, WHOLE, Trajectories, amounts, few
from steersman.data.facts import count, digits, percent
from steersman.steering import Policy, Scores, WeightedEnsemble
from steersman.steering.weighted_ensemble import arrivals, averages, mean_of_rounds, passage

SUPPORTED = "The data support this: states are connected, the lag is long enough, and flows balance each other."
MEMBERS = (
    "Members drawn by {}: each segment is one of its own. If a draw changes more than where it begins, these are "
    "several systems, which no model describes: average over the members in `open_run(RUN).scores`, by `weight` if "
    "they have one."
)
WIDE = 10.0  # an interval whose ends differ by more than this factor says little


def analysis(data: Trajectories, model: MarkovStateModel, policy: Policy) -> Analysis:
    said = {**answer(data, model), **by_weights(data, policy)}
    if policy.draws:
        said["problems"] = [MEMBERS.format(policy.name), *said["problems"]]
    facts = [(name, f"{said[name]:.6g}") for name in ("frames", "pieces", "states", "lag", "connected")]
    results = {"With 95 % intervals": rows(said), "By the weights of the ensemble": rows_by_weights(said)}
    return Analysis(said, time_scales.draw(data, model), time_scales.caption(data), facts, results, lines(said))


def answer(data: Trajectories, model: MarkovStateModel) -> dict[str, Any]:
    """Time scales, populations and averages with 95 % intervals, in the unit of the run; problems, and notes."""
    lags = [{"lag": lag.frames * data.step, "time_scales": (lag.scales * data.step).tolist()} for lag in model.lags]
    return {
        "frames": len(data.features), "pieces": len(data.pieces), "unit": data.unit, "step": data.step,
        "states": model.stationary.shape[1], "connected": model.connected, "converged": model.converged,
        "net_flow": model.net_flow,
        "lag": model.lag.frames * data.step, "time_scales": (model.scales * data.step).tolist(), "lags": lags,
        "populations": dict(_populations(data.labels, model)), "averages": dict(_averages(data.labels, model)),
        "problems": problems(data, model), "notes": too_many(data.labels),
    }  # fmt: skip


def by_weights(data: Trajectories, policy: Policy) -> dict[str, Any]:
    """What the weights of a weighted ensemble say, or why they say nothing yet."""
    if data.members is None or not isinstance(policy, WeightedEnsemble):
        return {}
    frames = np.bincount(data.members.round)[1:] / np.maximum(_members(data.members), 1)
    try:
        said = weighted(data.members, few(data.labels), policy.target, float(np.median(frames)) * data.step)
    except ValueError as error:
        return {"weighted": {"problem": str(error)}}
    return {"weighted": said}


def _members(scores: Scores) -> np.ndarray:
    """(rounds,) int: how many members each round had."""
    return np.bincount(scores.round[scores.ends])[1:]


def problems(data: Trajectories, model: MarkovStateModel) -> list[str]:
    """What the data do not support; nothing when all is well."""
    said, unit = [*data.differing], _unit(data.unit)
    longest = model.lags[-1].frames * data.step
    if model.connected < CONNECTED:
        said.append(
            f"Not connected: {percent(1 - model.connected)} of the frames lie in states that the dynamics did not "
            "both reach and leave. All results are for the other states. Simulate more, or start segments there."
        )
    if np.count_nonzero(model.stationary[0]) == 1:
        return [*said, "One state: all of these frames lie in a single state, so nothing is known of any process."]
    if len(model.lags) == 1:
        said.append(
            f"Lag not checked: only a lag of {longest:.3g}{unit} was tried, so the time scales may be longer. Leave "
            "--lag out; if it is out, store frames more often or run longer segments."
        )
    elif model.drifts:
        said.append(
            "Averages not converged: time scales have, but averages or populations still change up to the longest lag, "
            f"{longest:.3g}{unit}: segments begin far from equilibrium within their states. Run longer segments."
        )
    elif not model.converged:
        remedy = (
            "At longer lags nothing slower is left: analyse a score that follows the slowest process closer."
            if model.over
            else "Run longer segments."
        )
        said.append(
            f"Lag not converged: the time scales still change up to the longest lag of {longest:.3g}{unit}, so they "
            f"are too short on average, which their intervals do not include. {remedy}"
        )
    _, low, high = model.lag.scales[0]
    if not np.isfinite(model.lag.scales[0]).all() or high > WIDE * low:
        said.append("The slowest process was seen too seldom: its time scale is not determined. Simulate more.")
    if model.net_flow:
        said.append(
            f"No detailed balance: {percent(model.net_flow)} of the flow between groups of states goes one way only, "
            "as in a driven system or a cycle. The model is of equilibrium and cannot describe that: do not use the "
            "results."
        )
    if model.falls is not None:
        lags = [model.lags[at] for at in model.falls]
        early, late = (f"{lag.scales[0, 0] * data.step:.3g} at a lag of {lag.frames * data.step:.3g}" for lag in lags)
        said.append(
            f"Time scales fall: the slowest is {early} and {late}; detailed balance lets it only rise. Sweeps in a "
            "fixed order have none; or segments begin too far from equilibrium within their states. Do not use them."
        )
    if data.stopped:
        said.append(
            f"{count(data.stopped, 'segment')} ended early. If a prune rule ended them for what they reached, the "
            "results are wrong: run without that rule."
        )
    return said


def _populations(labels: Mapping[str, np.ndarray], model: MarkovStateModel) -> Any:
    for name, value in few(labels).items():
        reached = {label: bool((model.weights[value == label] > 0).any()) for label in np.unique(value[value >= 0])}
        yield (
            name,
            {
                str(label): model.average(value == label).tolist() if known else [np.nan] * 3
                for label, known in reached.items()
            },
        )


def _averages(labels: Mapping[str, np.ndarray], model: MarkovStateModel) -> Any:
    for name, value in amounts(labels).items():
        yield name, model.average(value).tolist()


def too_many(labels: Mapping[str, np.ndarray]) -> list[str]:
    """Which whole numbers have too many values for a list, and may be no amounts to be averaged."""
    many = {name: len(np.unique(value)) for name, value in labels.items() if value.dtype.kind in WHOLE}
    return [
        f"{name} has {number:,} whole numbers: populations of at most {MOST_LABELS} are listed. If they are amounts, "
        "return floats for an average."
        for name, number in many.items() if number > MOST_LABELS
    ]  # fmt: skip


def rows(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Time scales, populations and averages by name, with their intervals."""
    unit = _unit(said["unit"])
    text = [
        (
            f"time scale {i + 1}",
            "not known: it is no longer than the lag" if np.isnan(each[0]) else interval(each, unit),
        )
        for i, each in enumerate(said["time_scales"])
    ]
    averages = [(f"average of {name}", interval(each)) for name, each in said["averages"].items()]
    return text + _shares(said["populations"]) + averages


def rows_by_weights(said: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same of what the weights of an ensemble say; empty where there are none."""
    ensemble = said.get("weighted", {})
    if "problem" in ensemble:
        return [("nothing yet", ensemble["problem"])]
    shares = _shares(ensemble.get("populations", {}))
    if "passage_time" not in ensemble:
        return shares
    passage = interval(ensemble["passage_time"], _unit(said["unit"]), "not known: no member arrived at the target")
    return [*shares, ("mean first passage time", passage)]


def lines(said: Mapping[str, Any]) -> list[str]:
    """The same for a terminal."""
    text = [
        f"{said['frames']:,} frames in {count(said['pieces'], 'piece')} of plain dynamics; Markov state model: "
        f"{said['states']} states, lag time {said['lag']:.3g}{_unit(said['unit'])}",
        "Results with 95 % intervals:",
        *table(rows(said)),
    ]
    if weighted_rows := rows_by_weights(said):
        rounds = said["weighted"].get("rounds")
        of = f", the later half of {rounds} rounds" if rounds else ""
        text += [f"By the weights of the ensemble{of}:", *table(weighted_rows)]
    return [*text, *said["notes"], *(said["problems"] or [SUPPORTED])]


def _shares(populations: Mapping[str, Any]) -> list[tuple[str, str]]:
    unknown = "not known: the dynamics did not both reach and leave it"
    return [
        (f"population of {name} = {label}", interval(each, unknown=unknown))
        for name, of in populations.items()
        for label, each in of.items()
    ]


def table(pairs: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in pairs), default=0)
    return [f"  {name:<{width}}   {text}" for name, text in pairs]


def interval(each: Any, unit: str = "", unknown: str = "not known") -> str:
    """Write value (low to high)."""
    value, low, high = each
    if not np.isfinite(value):
        return unknown
    n = digits(*each)
    return f"{value:.{n}g} ({low:.{n}g} {'or more' if np.isinf(high) else f'to {high:.{n}g}'}){unit}"


def _unit(unit: str) -> str:
    return "" if unit == "1" else f" {unit}"


def weighted(members: Scores, labels: Mapping[str, np.ndarray], target: str, round_time: float) -> dict[str, Any]:
    """Populations of labels (n,), and the passage time to the target in simulated time, each with its 95 % interval.

    Args:
        target: score of the policy that is true where a member has arrived; "": none.
        round_time: simulated time of a round.
    Raises: ValueError: too few rounds.
    """
    said: dict[str, Any] = {"rounds": int(members.round.max()), "populations": {}}
    for name, label in labels.items():
        shares = {
            str(each): list(mean_of_rounds(averages(members, (label == each).astype(float))))
            for each in np.unique(label[label >= 0])
        }
        said["populations"][name] = shares
    if target:
        there = members.column(target) > 0
        said["passage_time"] = [each * round_time for each in passage(arrivals(members, there))]
    return said
