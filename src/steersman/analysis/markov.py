"""Pieces of plain dynamics -> a Markov state model: time scales, populations, and whether the data support them.

Where a segment begins does not matter to it: it asks only where the dynamics goes from each state. That is right if the
dynamics forgets within one lag time where in a state it was, which the implied time scales show: they no longer rise.

Axes: n frames, S states, k time scales.
Sources: Prinz et al. (2011), Markov models of molecular kinetics; Trendelkamp-Schroer et al. (2015), Estimation and
uncertainty of reversible Markov models. The estimators are deeptime's (Hoffmann et al. 2021).
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steersman.analysis.errors import TooLittle
from steersman.analysis.trajectories import Trajectories, amounts, few
from steersman.system.errors import MissingExtra

SHOWN = 3  # time scales
LAGS = 6
DRAWS = 40  # of the bootstrap
BLOCKS = 40  # a long piece is drawn in parts, so that there are at least so many in all
FEWEST = 10  # parts that the longest lag must leave: of fewer, draws are too much alike to say what varies
KEPT = 0.5  # of the transitions of the shortest lag, that the longest lag must still have
RISE = 0.15  # share by which a time scale that has converged still changes at longer lags
OVER = 1  # time scales, after which noise decides what is left of a process: later estimates of it say nothing
CONNECTED = 0.95  # of the frames
GROUPS = 6  # of neighbouring states, between which is asked whether the flow is balanced
SURE, NET = 5.0, 0.05  # a net flow of so many standard deviations, and all of them so great a share, are no noise
FALLS = 4.0  # standard deviations by which a time scale is shorter at a longer lag, which is no noise then
SHIFT, MATTERS = 2.0, 0.5  # standard deviations: of the change of an average with the lag, and of the average itself
NEVER = 1e6  # lags: a process that is slower was not seen to end in this draw
VISITS = 5  # frames in a state that are the least it takes to say where it leads to, on the average of all
SEED = 0  # an analysis that is made again is the same


@dataclass(frozen=True)
class Lag:
    """Time scales at one lag.

    Args:
        frames: the lag.
        scales: (k, 3) float, in frames: value and 95 % interval; NaN of what could not be found.
    """

    frames: int
    scales: np.ndarray


@dataclass(frozen=True)
class MarkovStateModel:
    """What follows from the data.

    Args:
        state: (n,) int, the state of each frame.
        lags: from short to long.
        chosen: position of the lag that the rest was made with.
        converged: the time scales do not change any more from there on.
        connected: share of the frames in states that the dynamics reaches from each other.
        stationary: (1 + draws, S) float: probability of each state, then of the draws of the bootstrap.
        net_flow: share of the flow between groups of states that no flow back balances; 0 where that may be noise.
        falls: positions of two lags, if the slowest time scale is shorter at the later one, and that is no noise.
        over: no longer lags were tried, for nothing slower than these is left.
        drifts: the time scales have converged, and what the yardsticks ask for has not.
    """

    state: np.ndarray
    lags: Sequence[Lag]
    chosen: int
    converged: bool
    connected: float
    stationary: np.ndarray
    net_flow: float
    falls: tuple[int, int] | None = None
    over: bool = False
    drifts: bool = False

    @property
    def lag(self) -> Lag:
        return self.lags[self.chosen]

    @property
    def scales(self) -> np.ndarray:
        """(k, 3) float, in frames: those of the chosen lag; NaN of what is over within it, which cannot be resolved."""
        times = self.lag.scales
        return np.where(times[:, :1] > self.lag.frames, times, np.nan)

    @property
    def weights(self) -> np.ndarray:
        """(n,) float: what each frame counts in equilibrium; their sum is 1."""
        return np.asarray((self.stationary[0] / self._visits)[self.state])

    def average(self, value: np.ndarray) -> np.ndarray:
        """(3,) float: equilibrium average of a value (n,) of frames, with its 95 % interval."""
        visits = self._visits
        of_state = np.bincount(self.state, weights=value, minlength=len(visits)) / visits
        return _interval(self.stationary @ of_state)

    @property
    def _visits(self) -> np.ndarray:
        """(S,) int: how many frames are in each state, 1 where there are none."""
        return np.maximum(np.bincount(self.state, minlength=self.stationary.shape[1]), 1)


def build(data: Trajectories, states: int = 0, lag: int = 0) -> MarkovStateModel:
    """Make a model.

    Args:
        states: number of clusters of the features; 0: the square root of the number of frames, 20 to 200.
        lag: in frames; 0: the shortest one from which the time scales do not change.
    Raises: TooLittle: for so many states, too. MissingExtra: deeptime.
    """
    _deeptime()
    from sklearn.cluster import KMeans

    if states > (most := len(data.features) // VISITS):
        raise TooLittle(f"{len(data.features):,} frames are too few for {states:,} states; give at most {most:,}")
    points = len(np.unique(data.features, axis=0))
    count = min(states or int(np.clip(np.sqrt(len(data.features)), 20, 200)), points)
    clusters = KMeans(count, n_init=1, random_state=SEED).fit(data.features)
    state = clusters.labels_
    group = KMeans(min(GROUPS, count), n_init=4, random_state=SEED).fit(clusters.cluster_centers_).labels_
    paths = [state[piece] for piece in data.pieces]
    tried, over = ([lag], False) if lag else _lags(paths, group)
    if not tried or max(len(path) for path in paths) <= max(tried):
        longest = max(len(path) for path in paths) - 1
        advice = f"give a --lag of at most {longest}, or run longer segments" if lag else "run longer segments"
        raise TooLittle(f"no piece of dynamics is longer than a lag of {lag or 1} frames; {advice}")
    blocks = {each: _blocks(paths, each) for each in tried}
    draws = np.random.default_rng(SEED).random((DRAWS, max(len(each) for each in blocks.values())))
    fitted = [[_fit(blocks[each], each, group), *_drawn(blocks[each], each, group, draws)] for each in tried]
    lags = [
        Lag(each, np.array([_interval(np.array(scale)) for scale in zip(*(fit[0] for fit in fits), strict=True)]))
        for each, fits in zip(tried, fitted, strict=True)
    ]
    of_lags = [np.stack([fit[1] for fit in fits]) for fits in fitted]
    visits = np.maximum(np.bincount(state, minlength=count), 1)
    asked = [np.bincount(state, weights=each, minlength=count) / visits for each in _asked(data.labels)]
    averages = [each @ np.array(asked).reshape(-1, count).T for each in of_lags]
    flat = [i for i in range(len(lags)) if _flat(lags, i)]
    chosen = next((i for i in flat if not _drifts(lags, averages, i)), None)
    at = len(lags) - 1 if chosen is None else chosen
    stationary = of_lags[at]
    connected = float((stationary[0] > 0)[state].mean())
    net_flow = _net(np.stack([fit[2] for fit in fitted[at]]))
    falls = _falls(tried, [np.array([fit[0][0] for fit in fits]) for fits in fitted])
    return MarkovStateModel(
        state, lags, at, chosen is not None, connected, stationary, net_flow, falls, over, chosen is None and bool(flat)
    )


def _asked(labels: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    """What is asked of frames, (n,) each: amounts, and of each of a few states whether a frame is in it."""
    yield from amounts(labels).values()
    for value in few(labels).values():
        yield from (value == state for state in np.unique(value))


def _deeptime() -> Any:
    try:
        from deeptime import markov
    except ImportError:
        raise MissingExtra("deeptime", "analysis") from None
    return markov


def _lags(paths: Sequence[np.ndarray], group: np.ndarray) -> tuple[list[int], bool]:
    """Some lags, up to where half of the transitions, enough parts to draw from, and anything slower are left; and
    whether it was the last of these that ended them."""
    lengths = np.array([len(path) for path in paths])

    def pairs(lag: int) -> int:
        return int(np.maximum(lengths - lag, 0).sum())

    def enough(lag: int) -> bool:
        return pairs(lag) >= KEPT * pairs(1) and len(_blocks(paths, lag)) >= FEWEST

    longest, over = 1, False
    while longest < lengths.max() and enough(longest + 1):
        longest += 1 + longest // 10
    while longest > 1 and not _fit(_blocks(paths, longest), longest, group)[0][0] > longest:
        longest, over = longest // 2, True
    return sorted({round(float(each)) for each in np.geomspace(1, longest, LAGS)}) if pairs(1) else [], over


def _blocks(paths: Sequence[np.ndarray], lag: int) -> list[np.ndarray]:
    """Pieces, the long ones cut into parts that share `lag` frames, so that no transition is lost."""
    most = max(sum(len(path) for path in paths) // BLOCKS, 2 * lag)
    return [
        path[begin : begin + most + lag]
        for path in paths
        for begin in range(0, max(len(path) - lag, 0), most)
    ]  # fmt: skip


def _drawn(blocks: Sequence[np.ndarray], lag: int, group: np.ndarray, draws: np.ndarray) -> list[Any]:
    """The same from blocks that are drawn with replacement; of a few draws no model can be made.

    Raises: TooLittle: of more than half of them.
    """
    drawn, failed = [], TooLittle("")
    for each in (draws[:, : len(blocks)] * len(blocks)).astype(int):
        try:
            drawn.append(_fit([blocks[i] for i in each], lag, group))
        except TooLittle as error:
            failed = error
    if len(drawn) < len(draws) / 2:
        raise failed
    return drawn


def _fit(blocks: Sequence[np.ndarray], lag: int, group: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the largest connected set of states: time scales, stationary probabilities, and the flow without balance.

    Args:
        group: (S,) int, the group of each state.
    Returns: (k,) float, in frames; (S,) float; (groups, groups) float, how often one lag leads from one to another.
    """
    states, flow = len(group), np.zeros((group.max() + 1, group.max() + 1))
    markov = _deeptime()
    from deeptime.markov.msm import MaximumLikelihoodMSM

    moves = [states * block[:-lag] + block[lag:] for block in blocks]  # deeptime's estimator looks at each block thrice
    counted = np.bincount(np.concatenate(moves), minlength=states * states).reshape(states, states).astype(float)
    inside = markov.TransitionCountModel(counted, "sliding", lag).submodel_largest()
    scales, stationary = np.full(SHOWN, np.nan), np.zeros(states)
    if inside.n_states == 1:
        stationary[inside.state_symbols] = 1.0
        return scales, stationary, flow
    try:
        model = MaximumLikelihoodMSM(reversible=True).fit_fetch(inside)
    except (RuntimeError, ValueError) as error:
        words = f"the states are too weakly connected for a reversible model, or run in a cycle ({error!s:.120})"
        raise TooLittle(f"{words}; give fewer --states or another --lag, or simulate more") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of several eigenvalues of 1: the interval says so
        known = np.sort(model.timescales(min(SHOWN, inside.n_states - 1)))[::-1]
    scales[: len(known)] = np.where((known >= 0) & (known < NEVER * lag), known, np.inf)  # rounding may lead beyond it
    stationary[inside.state_symbols] = model.stationary_distribution
    free = MaximumLikelihoodMSM(reversible=False).fit_fetch(inside)
    of = group[inside.state_symbols]
    np.add.at(flow, (of[:, None], of), free.stationary_distribution[:, None] * free.transition_matrix)
    return scales, stationary, flow


def _net(flow: np.ndarray) -> float:
    """(1 + draws, groups, groups) flows -> the share that no flow back balances, 0 where that may be noise.

    In equilibrium each flow is as large as the one back, wherever segments began; round a driven circle it is not.
    """
    pairs = np.triu_indices(flow.shape[1], 1)
    net = (flow - flow.swapaxes(1, 2))[:, *pairs]
    noise = net[1:].std(0)
    sure = np.abs(net[0])[noise > 0] > SURE * noise[noise > 0]
    between = flow[0].sum() - flow[0].trace()
    share = float(np.abs(net[0]).sum() / between) if between > 0 else 0.0
    return share if sure.any() and share > NET else 0.0


def _falls(lags: Sequence[int], scales: Sequence[np.ndarray]) -> tuple[int, int] | None:
    """(1 + draws,) slowest time scales of each lag, in frames -> two lags, at the later of which it is surely shorter.

    In equilibrium with detailed balance it only rises. One that falls to less than half was seen too seldom.
    """
    resolved = [at for at, lag in enumerate(lags) if lag <= OVER * scales[at][0] < np.inf]
    for early, late in itertools.combinations(resolved, 2):
        if len(scales[early]) == len(scales[late]):  # the same pieces in each draw
            change = np.log(scales[late] / scales[early])
            noise = change[1:][np.isfinite(change[1:])].std()
            if np.log(0.5) < change[0] < -max(NET, FALLS * noise):
                return early, late
    return None


def _drifts(lags: Sequence[Lag], averages: Sequence[np.ndarray], i: int) -> bool:
    """Whether an average surely changes at later lags at which the slowest process is resolved, as far as it matters.

    The dynamics forgets within a lag where in a state it was; of segments that begin far from equilibrium within their
    states averages are wrong at lags that are too short, though time scales have converged.

    Args:
        averages: of each lag, (1 + draws, quantities) float.
    """
    mine = averages[i]
    for lag, later in zip(lags[i + 1 :], averages[i + 1 :], strict=True):
        paired = len(later) == len(mine)  # the same pieces in each draw
        change = np.abs(later[0] - mine[0])
        noise = (later - mine)[1:].std(0) if paired else np.hypot(later[1:].std(0), mine[1:].std(0))
        sure = (change > SHIFT * noise) & (change > MATTERS * mine[1:].std(0))
        if lag.frames <= OVER * lags[i].scales[0, 0] and sure.any():
            return True
    return False


def _interval(values: np.ndarray) -> np.ndarray:
    """(1 + draws,) an estimate and its draws -> value, low, high."""
    draws = values[1:][~np.isnan(values[1:])]
    low, high = np.nan, np.nan
    if len(draws):
        finite = np.isfinite(draws).all()  # nothing lies between a number and infinity
        low, high = np.quantile(draws, [0.025, 0.975], method="linear" if finite else "nearest")
    return np.array([values[0], np.minimum(low, values[0]), np.maximum(high, values[0])])  # few draws may all be beside


def _flat(lags: Sequence[Lag], i: int) -> bool:
    """Whether the time scales hardly change at later lags, up to half as long again at least.

    A process that is over within the lag cannot be resolved, and is not asked; nor is it at a later lag at which
    nothing but noise is left of it.
    """
    slow = lags[i].scales[:, 0] > lags[i].frames
    value = lags[i].scales[slow, 0]
    changes = {lag.frames: (lag.scales[slow, 0] / value - 1)[lag.frames <= OVER * value] for lag in lags[i + 1 :]}
    asked = any(len(change) and frames >= 1.5 * lags[i].frames for frames, change in changes.items())
    return asked and bool((np.abs(np.concatenate(list(changes.values()))) <= RISE).all())
