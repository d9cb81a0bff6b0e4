"""A run whose members are split by a forecast -> how rare its event is, and how reliable the forecast was."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.dashboard.figure import Draw
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.results import Results
from steersman.journal.frame_keys import frame_key, places
from steersman.steering import Policy, Splitting
from steersman.steering.errors import NoAnswerYet
from steersman.steering.forecasts import reliability
from steersman.steering.splitting import probability

Z_95 = 1.96
OFTEN = 0.1  # probability of the milder event whose forecasts are shown beside those of the run's own
LEAST = 1e-3  # probability that is shown


def drawings(policy: Policy) -> dict[str, tuple[str, Draw]]:
    """Title and function of each figure; none of a run that another policy steers."""
    if not isinstance(policy, Splitting):
        return {}
    return {
        "return_times": ("How long one waits for the event", lambda history: return_times(history, policy)),
        "reliability": ("Is the forecast reliable?", lambda history: reliable(history, policy)),
    }


def return_times(history: History, rare: Splitting) -> tuple[Figure, str]:
    """How long one waits for an outcome, beside plain sampling of as many members. Raises: NothingToDraw."""
    scores = history.scores
    try:
        curve = rare.curve(scores)
    except NoAnswerYet as early:
        raise NothingToDraw(str(early)) from None
    whole = curve[rare.above]
    window, unit = _window(history, rare)
    levels = np.array([level for level, each in curve.items() if each.probability])
    p, low, high = np.array([(each.probability, each.low, each.high) for each in curve.values() if each.probability]).T
    half = Z_95 * np.sqrt(p * (1 - p) / (whole.windows * whole.members))
    figure = style.sheet(3.0)
    axes = figure.subplots()
    least = np.maximum(p - half, 1e-12)  # of plain sampling: where it is 0 it says nothing
    plain, ours = "plain sampling, 95 % of tries", "this run, 95 % interval"
    axes.fill_between(levels, window / (p + half), window / least, color="0.87", label=plain)
    axes.fill_between(levels, window / high, window / low, color=style.BLUE, alpha=0.3, label=ours)
    axes.plot(levels, window / p, color=style.BLUE, label="this run")
    axes.axvline(rare.above, color="0.3", lw=0.8, ls=":")
    axes.set(xlabel=f"{style.words(rare.outcome)}; the event: above {rare.above:g}", ylabel=f"return time ({unit})")
    axes.set(yscale="log", xlim=(levels[0], levels[-1]), ylim=(window / p.max() / 3, 20 * window / p.min()))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
    once = f"once in {whole.return_time(window):,.0f} {unit}" if whole.probability else "not seen"
    return figure, f"The event (dotted): {once}. {whole}."


def reliable(history: History, rare: Splitting) -> tuple[Figure, str]:
    """How often members had the event, and a milder one, where the forecast gave that a probability: of first members
    that no training saw, at any time before the end. Raises: NothingToDraw."""
    results = Results(history)
    scores, frames = results.scores, results.held_out
    if not {rare.outcome, rare.mean, rare.spread} <= set(scores.values) or "age" not in frames:
        raise NothingToDraw("there is no forecast of a member, or the frames have no `age`")
    fate = frames.fate("age", window=rare.window)
    at = places(frame_key(scores.walker, scores.row), frames.ids)
    before, last = at[fate.rows], at[fate.last]
    known = (before >= 0) & (last >= 0)
    if not known.any():
        raise NothingToDraw("no window of a member that was held out is over")
    before, last, weight = before[known], last[known], fate.weight[known]
    mean, spread = (scores.column(name)[before] for name in (rare.mean, rare.spread))
    outcome = scores.column(rare.outcome)[last]
    often = min(rare.above, float(np.quantile(outcome, 1 - OFTEN, weights=weight, method="inverted_cdf")))
    figure = style.sheet(3.4, 4.2)
    axes = figure.subplots()
    axes.plot([LEAST, 1], [LEAST, 1], color="0.7", lw=0.8)
    for level, colour in ((often, style.BLUE), (rare.above, style.ORANGE)):
        bins = reliability(probability(mean, spread, level), outcome > level, weight)
        said, came, low, high = np.array([(each.forecast, each.frequency, each.low, each.high) for each in bins]).T
        shown = (said > LEAST) & (came > 0)
        ends = np.stack([came - low, high - came])[:, shown]
        label = f"{style.words(rare.outcome)} above {level:.3g}{'' if shown.any() else ': too few'}"
        axes.errorbar(said[shown], came[shown], ends, fmt="o", ms=4, capsize=2, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlim=(LEAST, 1.2), ylim=(LEAST, 1.2))
    axes.set(xlabel="forecast probability", ylabel="frequency")
    axes.legend()
    return figure, "Of members that no training saw, at any time before the end; on the line a forecast is reliable."


def _window(history: History, rare: Splitting) -> tuple[float, str]:
    """How long a window is, and in which unit: 1 window where a run has no simulated time."""
    segments = history.segments
    each = np.median(segments.simulated[segments.how == "finished"])
    scale = history.clock.simulated_scale
    return (float(rare.window * each) / scale.divisor, scale.unit) if each > 0 else (1.0, "windows")
