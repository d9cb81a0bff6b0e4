"""History -> tables of the report: rows of plain text, not yet HTML."""

from __future__ import annotations

from typing import Any

import numpy as np

from steersman.data.facts import missed
from steersman.data.history import History
from steersman.data.overview import Overview
from steersman.executors.site import Site
from steersman.journal.decisions import read
from steersman.system.plain import flat

MOST_STARTS = 20
MOST_FAILURES = 20
MOST_NOTES = 20
CAUSE_CHARACTERS = 6000  # of a failure's file that are shown

OUTCOMES = {
    "goal": "The run reached its goal: {}", "budget": "The run spent its budget: {}", "failed": "The run failed: {}",
    "interrupted": "The run was interrupted: {}", "finished": "The run was told to finish {}",
}  # fmt: skip

Row = tuple[str, ...]


def outcome(seen: Overview) -> str:
    """How a run ended, in words."""
    known = OUTCOMES.get(seen.outcome, "The run has ended: {}")
    return known.format(seen.reason) + missed(seen) if seen.ended else "The run has not ended yet"


def facts(history: History) -> list[Row]:
    """The run in one table."""
    seen, clock = history.overview(), history.clock
    rows = [
        ("frames", f"{seen.frames:,}"),
        ("simulated time", clock.simulated_scale.text(seen.simulated)),
        ("wall time", clock.wall.text(3600 * seen.hours)),
        ("segments", _segments(history)),
        *([("models", _models(history))] if seen.models else []),
        *(
            (name, f"{series[0, 1]:.4g} at first, {_number(seen.metrics.get(name))} at last")
            for name, series in history.metrics.items()
        ),
        ("slots", str(seen.slots)),
    ]
    return [*rows, *((f"slots {cause}", f"{100 * share:.1f} %") for cause, share in seen.shares.items())]


def models(history: History) -> list[Row]:
    """Version, training frames, epochs, seconds, loss, held-out figure, predecessor's, verdict."""
    cards = {card["version"]: card for card in history.directory.cards()}
    return [
        (
            str(model.version),
            _number(model.fit.frames if model.fit else model.frames),
            str(len(cards.get(model.version, {}).get("history", []))),
            *(_number(getattr(model.fit, name, None)) for name in ("seconds", "loss", "held_out", "predecessor")),
            {True: "used", False: "not used", None: "not finished"}[model.accepted],
            model.reason,
        )
        for model in history.state.models
    ]


def influential(history: History) -> list[Row]:
    """The starts with most descendants: segment, its descendants, where it started, who chose it, and why."""
    segments, below = history.segments, history.segments.descendants()
    top = [int(i) for i in np.argsort(-below, kind="stable")[:MOST_STARTS] if below[i]]
    among = _candidates(history, {int(segments.start[i]) for i in top})
    rows: list[Row] = []
    for i in top:
        number = int(segments.start[i])
        start = history.start(number)
        origin = history.state.name_of(start.parent) if start.parent else "prepared start"
        known = f"{among[number]:,}" if among.get(number) else "-"
        model = str(start.model or "-")
        rows.append((segments.name(i), f"{below[i]:,}", origin, start.policy, start.reason, known, model))
    return rows


def failures(history: History) -> list[Row]:
    """Segment, cause, and what its file in errors/ holds."""
    rows: list[Row] = []
    for name, cause in list(history.causes.items())[:MOST_FAILURES]:
        rows.append(
            (
                name,
                cause,
                history.printed(name)[-CAUSE_CHARACTERS:],
            )
        )
    return rows


def notes(history: History) -> list[Row]:
    """What the engine noted (a policy, a scoring or a metric that failed, say), how often, the most frequent first."""
    return [(text, f"{times:,}") for text, times in history.noted.most_common(MOST_NOTES)]


def parameters(history: History) -> list[Row]:
    """Parameters of the workflow, then what else the run was given."""
    settings = history.settings()
    given: dict[str, Any] = {key: settings[key] for key in ("seed", "rounds", "source") if key in settings}
    chosen = ", ".join(f"{key}: {value}" for key, value in site(history).items())
    return [(key, str(value)) for key, value in {**history.params_in_words, **given, "site": chosen}.items()]


def site(history: History) -> dict[str, str]:
    """What is special about the run's site; what has its default value is left out."""
    usual = flat(Site(name="").model_dump(mode="json"))
    found = flat(history.settings().get("site") or {})
    return {key: str(value) for key, value in found.items() if value is not None and value != usual.get(key)}


def versions(history: History) -> list[Row]:
    """What the run was made with."""
    environment = history.directory.environment()
    packages = environment.pop("packages", {})
    return [(key, str(value)) for key, value in {**environment, **packages}.items() if value is not None]


def commands(history: History) -> list[Row]:
    """What to type to go on, and what it does."""
    run, segments = history.directory.path, history.segments
    name = segments.name(int(segments.descendants().argmax())) if len(segments) else "w0.0"
    opened = f"python -ic \"import steersman; run = steersman.open_run('{run}'); print(run)\""
    return [
        (f"steersman why {run} {name}", "where a segment started, which policy chose that, what was passed over"),
        (f"steersman status {run}", "how the run ended"),
        (f"steersman report {run}", "make this page again"),
        (f"steersman export {run} --tables tables", "all tables, as CSV and Parquet"),
        (opened, "tables, frames and lineages in Python"),
    ]


def _segments(history: History) -> str:
    words = [f"{number:,} {how}" for how, number in history.state.ended.items()]
    left_out = sum(not segment.counts for segment in history.state.segments)
    return ", ".join(words or ["none ended"]) + (f"; {left_out:,} lost or run twice, left out" if left_out else "")


def _models(history: History) -> str:
    verdicts = [model.accepted for model in history.state.models]
    refused, open_ = verdicts.count(False), verdicts.count(None)
    words = f"{verdicts.count(True)} used, {refused} not used"
    return words + (f", {open_} not finished" if open_ else "")


def _candidates(history: History, wanted: set[int]) -> dict[int, int]:
    """Start -> among how many frames it was chosen."""
    if not wanted:
        return {}
    found = (decision for _, decision in read(history.directory) if decision)
    return {each.start: each.candidates for each in found if each.start in wanted}


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
