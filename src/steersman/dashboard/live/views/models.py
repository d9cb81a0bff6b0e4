"""A watched run -> whether its models can be trusted: losses, held-out figures, calibration, who chose what."""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.dashboard.live.latent_map import counting, current
from steersman.dashboard.live.watched import Watched
from steersman.data import columns
from steersman.data.stored import variables
from steersman.steering import audits
from steersman.steering.errors import AuditsRefused

LABELS = ("IpUpdateTime", "FwdTime", "BwdTime", "WtUpdateTime", "SyncTime")  # DeepEx's, of a training's profile
SPREADS, ERRORS = ("spread", "uncertainty", "disagreement"), ("error", "residual")  # scores that a calibration needs
INSIDE = ("inside", "in_domain", "trusted", "valid")  # scores that say whether a frame is in the model's domain
AUDITS, COUNTED = {"truth", "said", "version"}, {"steps", "trained_steps"}  # scores of audited surrogates
BINS = 12
MOST_BINS_OF_STARTS = 60
MOST_FRAMES = 200_000  # that calibration looks at
MOST_AUDITS = 600  # of a version that are shown
FIRST_AUDITS = 10  # before, a share says nothing


def answer(watched: Watched) -> dict[str, Any]:
    """Versions with their losses, held-out figures and profiles; who chose the starts of each bin of time."""
    history = watched.history
    return {
        "versions": [_version(card) for card in history.directory.cards()],
        "table": columns.models(history),
        "chosen": chosen(watched),
        "calibration": calibration(watched),
        "inside": inside(watched),
        "audits": audited(watched),
    }


def chosen(watched: Watched) -> dict[str, Any]:
    """Starts in bins of time by the version of the model that chose (0: none) and by policy: rows of counts."""
    history = watched.history
    starts = history.chosen
    if not len(starts):
        return {"hours": [], "versions": [], "by_version": [], "policies": [], "by_policy": []}
    hours = watched.clock.elapsed(starts["moment"]) / 3600
    bins = int(np.clip(len(starts) // 12, 2, MOST_BINS_OF_STARTS))
    edges = np.linspace(0, max(float(hours.max()), 1e-9), bins + 1)
    versions = np.unique(starts["model"])
    return {
        "hours": edges.tolist(),
        "versions": versions.tolist(),
        "by_version": [np.histogram(hours[starts["model"] == v], edges)[0].tolist() for v in versions],
        "policies": history.policies,
        "by_policy": [
            np.histogram(hours[starts["policy"] == i], edges)[0].tolist() for i in range(len(history.policies))
        ],
    }


def calibration(watched: Watched) -> dict[str, Any] | None:
    """Mean error against mean spread in bins of equally many frames; None where frames have no such scores."""
    spreads = _scores(watched, SPREADS)
    errors = _scores(watched, ERRORS) if spreads else None
    if spreads is None or errors is None:
        return None
    there = np.isfinite(spreads[1]) & np.isfinite(errors[1])
    spread, error = spreads[1][there], errors[1][there]
    parts = np.array_split(np.argsort(spread), min(BINS, max(1, len(spread) // 10)))
    return {
        "spread": [float(spread[part].mean()) for part in parts if len(part)],
        "error": [float(error[part].mean()) for part in parts if len(part)],
        "names": [spreads[0], errors[0]],
        "alike": spreads[0] != "disagreement",  # of another measure than the error, which it only has to rise with
    }


def inside(watched: Watched) -> dict[str, Any] | None:
    """Share of the frames that are in the model's domain, over the order in which they were scored."""
    name, share = _scores(watched, INSIDE) or ("", ())
    if not len(share):
        return None
    parts = np.array_split(share, min(40, max(1, len(share) // 20)))
    return {"name": name, "share": [float(np.nanmean(part)) for part in parts], "all": float(np.nanmean(share))}


def audited(watched: Watched) -> dict[str, Any] | None:
    """How often the bound of each version held in its audits, when, and what was saved; None where nothing is audited.

    From the scores as they are stored, in double precision: energies are large numbers.
    """
    cloud, table = current(watched)
    if not set(cloud.scores) >= AUDITS or len(cloud) > MOST_FRAMES:
        return None
    scores = watched.history.scores
    try:
        versions = audits.coverage(scores.values)
        saved = str(audits.saved(scores.values)) if set(cloud.scores) >= COUNTED else ""
    except AuditsRefused:
        return None
    hours = watched.clock.elapsed(table.moments(table.of_frames(scores.walker, scores.row), scores.row)) / 3600
    truth = variables(watched.history).get("truth")
    return {
        "versions": [_audited(each, hours[each.frame]) for each in versions],
        "saved": saved,
        "error": truth.named("error") if truth else "error",
    }


def _audited(coverage: audits.Coverage, hours: np.ndarray) -> dict[str, Any]:
    """One version, and how it came about: at most MOST_AUDITS of its audits, and the share inside until each."""
    held, judged = coverage.held, 1 + np.arange(len(hours))
    inside = np.cumsum(held)
    low, high = audits.clopper_pearson(inside, judged)
    at = np.unique(np.linspace(0, len(hours) - 1, MOST_AUDITS).round().astype(int)) if len(hours) else judged
    later = at[at >= FIRST_AUDITS - 1]
    return {
        "version": coverage.version, "inside": int(held.sum()), "judged": len(held),
        "low": coverage.interval[0], "high": coverage.interval[1], "bound": _finite(coverage.bound),
        "spoiled": coverage.spoiled,
        "hours": np.fmax.accumulate(hours)[at].tolist(), "errors": coverage.error[at].tolist(),
        "bounds": coverage.bounds[at].tolist(),
        "share": {
            "hours": np.fmax.accumulate(hours)[later].tolist(), "inside": (inside / judged)[later].tolist(),
            "low": low[later].tolist(), "high": high[later].tolist(),
        },
    }  # fmt: skip


def _scores(watched: Watched, names: tuple[str, ...]) -> tuple[str, np.ndarray] | None:
    """The first of some scores that there is, of at most MOST_FRAMES frames spread over the run."""
    cloud, table = current(watched)  # nobody may have asked for the map yet
    name = next((name for name in names if name in cloud.scores), None)
    while name and cloud.behind:
        cloud, table = current(watched)
    at = counting(cloud, table)
    return None if name is None else (name, cloud.score(name, at[:: max(1, -(-len(at) // MOST_FRAMES))]))


def _version(card: dict[str, Any]) -> dict[str, Any]:
    epochs = card.get("history", [])
    return {
        "version": card.get("version"),
        "accepted": bool(card.get("accepted")),
        "reason": card.get("reason", ""),
        "gate": card.get("gate", ""),
        **{name: _finite(card.get(name)) for name in columns.JUDGED},
        "loss": [_finite(epoch.get("loss")) for epoch in epochs],
        "profile": {
            label: [epoch.get(label, 0.0) for epoch in epochs]
            for label in LABELS
            if any(label in epoch for epoch in epochs)
        },
    }


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None
