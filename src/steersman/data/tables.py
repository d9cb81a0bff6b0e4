"""History -> tables: what a run did, as pandas. docs/data.md says what each column means and its unit.

Times of day are UTC. Simulated times are in the run's unit, `run.state["time_unit"]`, which each table's
`attrs["units"]` repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from numbers import Integral

import numpy as np
import pandas

from steersman.data import columns, reweighing
from steersman.data.frames import warn_of_damage
from steersman.data.history import History
from steersman.data.lineage import since_prepared
from steersman.data.segment_table import no_frame
from steersman.journal import file as journal
from steersman.journal import published, records
from steersman.journal.decisions import Decision, read
from steersman.journal.frame_keys import frame_key, places
from steersman.journal.lock import driven
from steersman.journal.modes.labels import Labels
from steersman.journal.scoreboard import unscored
from steersman.steering import Scores
from steersman.steering.reweighting import Reweighted
from steersman.store import Frames, Labelled, Span, number_of
from steersman.store.names import FrameName, SegmentName, walker_name


def state(history: History) -> pandas.Series:
    """The run at a glance, see `Overview`."""
    return pandas.Series(history.overview().as_plain(), name=history.directory.path.name, dtype=object)


def metrics(history: History) -> pandas.DataFrame:
    """Metrics by time, with `elapsed_s` of the run (without the pauses between sessions), `simulated` by then, and
    `scored`: how many scored frames they are of, fewer than were made by then."""
    series = {name: pandas.Series(of[:, 1], of[:, 0]) for name, of in history.metrics.items()}
    moments = np.unique(np.concatenate([of.index for of in series.values()])) if series else np.zeros(0)
    along = {"elapsed_s": history.clock.elapsed(moments), "simulated": history.clock.simulated(moments)}
    scored = {
        moment: frames
        for name, of in series.items()
        for moment, frames in zip(of.index, history.state.measured_at[name], strict=True)
    }
    table = pandas.DataFrame({**along, "scored": [scored[moment] for moment in moments]}, index=moments)
    for name, of in series.items():
        table[name] = of[~of.index.duplicated(keep="last")].reindex(moments)
    return _described(table.set_index(_utc(moments, "time")), history, elapsed_s="s", simulated=None)


def segments(history: History) -> pandas.DataFrame:
    """Every segment, by name, in the order in which they began."""
    of = history.segments
    names = np.array([of.name(i) for i in range(len(of))], dtype=object)
    running = np.array(of.how == "running", dtype=bool)
    table = pandas.DataFrame({
        "walker": of.walker, "number": of.number, "slot": of.slot,
        "start": history.chosen_as(of.start),
        "parent": np.where(of.parent >= 0, names[of.parent], "") if len(of) else names, "parent_row": of.parent_row,
        "policy": of.policy, "model": of.model, "seed": of.seed, "how": of.how,
        "began": _utc(of.began), "ended": _utc(of.ended),
        "simulated": of.simulated, "first_row": of.first, "frames": of.end - of.first,
        "with_model": of.given["with_model"], "repeats": of.repeats,
        "cause": [history.causes.get(name, "") for name in names],
    }, index=pandas.Index(names, name="segment", dtype="str"))  # fmt: skip
    table.loc[running, "ended"] = pandas.NaT
    if running.any() and not driven(history.directory.path):
        table.loc[running, "how"] = "unknown"  # until it is resumed
    sets = np.append(history.starts["set"], 0)[np.minimum(of.start, len(history.starts))]
    before = history.directory.settings().get("params") or {} if len(history.sets) > 1 else {}
    for name in dict.fromkeys(name for each in history.sets for name in each):
        table[f"set_{name}"] = [history.sets[i].get(name, before.get(name)) for i in sets]
    for mode in history.state.modes:
        table = table.assign(**mode.of_segments(of.start, of.given))
    return _described(table, history, simulated=None)


def decisions(history: History) -> pandas.DataFrame:
    """Every choice of a start, by the number of the start, and the segment that ran it first ("" before one does)."""
    taken, of = _decisions(history), history.segments
    made = {
        key: [getattr(each, key) for each in taken] for key in ("policy", "reason", "model", "candidates", "ranked_s")
    }
    ran_by: dict[int, str] = {}
    for i, start in enumerate(history.chosen_as(of.start)):
        ran_by.setdefault(int(start), of.name(i))
    table = pandas.DataFrame({
        "time": _utc(np.array([each.t for each in taken], float)), **made,
        "parent": [str(SegmentName(each.frame.walker, each.frame.segment)) if each.frame else "" for each in taken],
        "parent_row": [each.frame.row if each.frame else -1 for each in taken],
        "refused": [len(each.refused) for each in taken],
        "segment": [ran_by.get(each.start, "") for each in taken],
    }, index=pandas.Index([each.start for each in taken], name="start", dtype="int64"))  # fmt: skip
    return _described(table, history, ranked_s="s")


def models(history: History) -> pandas.DataFrame:
    """Every training, by the version of its model; `accepted` is missing while it goes on."""
    of = columns.models(history)
    table = pandas.DataFrame(of | {"began": _utc(np.array(of["began"], float))})
    kinds = {"model": "int64", "accepted": "boolean", "frames": "Int64", "ranks": "Int64"}
    kinds |= dict.fromkeys(columns.FLOATS, "float64")
    return _described(table.astype(kinds).set_index("model"), history, seconds="s")


def labels(history: History) -> pandas.DataFrame:
    """Every label that was asked for, by its number, and what was answered, where that is a number and has not the name
    of another column."""
    of, state = history.state.mode(Labels), history.state
    asked, answers = list(of.asked.values()), [of.answers.get(number) for number in of.asked]
    table = pandas.DataFrame({
        "frame": [state.name_of(each.frame) for each in asked],
        "walker": [each.frame.walker for each in asked], "row": [each.frame.row for each in asked],
        "asked": _utc(np.array([each.t for each in asked], float)),
        "begun": _utc(np.array([of.begun.get(each.label, np.nan) for each in asked], float)),
        "answered": _utc(np.array([each.t if each else np.nan for each in answers], float)),
        "took_s": [each.took_s if each and each.group else np.nan for each in answers],
        "error": [np.nan if each is None or each.error is None else each.error for each in answers],
        "drawn": [each.drawn for each in asked], "model": [each.model for each in asked],
        "doubt": [np.nan if each.doubt is None else each.doubt for each in asked],
        "version": [each.version for each in asked],
        "node": [each.node if each else "" for each in answers],
        "reason": [each.reason for each in asked], "cause": [each.cause if each else "" for each in answers],
    }, index=pandas.Index(list(of.asked), name="label", dtype="int64"))  # fmt: skip
    stored, taken = Frames(history.directory.labels), set(table)
    for group in sorted({each.group for each in of.good}):
        at = [each for each in of.good if each.group == group]
        rows = Span(group, 0, 1 + max(each.row for each in at))
        for name in stored.variables(group):
            values = stored.read(name, rows)
            if values.ndim == 1 and name not in taken:
                table.loc[[each.label for each in at], name] = values[[each.row for each in at]]
    return _described(table, history, took_s="s")


def labelled(history: History) -> Labelled:
    """Frames that have labels, with these."""
    directory, versions = history.directory, [each.version for each in history.state.mode(Labels).asked.values()]
    labels = history.state.mode(Labels)
    places = [place for _, place in labels.usable(versions[-1])] if versions else []
    return Labelled(directory.frames, Frames(directory.labels), [*labels.before, *places])


def calls(history: History) -> pandas.DataFrame:
    """Every call of a task, by its key, in the order in which plans made them."""
    of = history.state.calls
    done = [call.done for call in of.values()]
    table = pandas.DataFrame({
        "task": [call.called.task for call in of.values()],
        "arguments": [call.called.words for call in of.values()],
        "standing": [call.standing(of) for call in of.values()],
        "needs": [list(call.called.needs) for call in of.values()],
        "node": [each.node if each else "" for each in done],
        "took_s": [each.took_s if each and each.sha256 else np.nan for each in done],
        "bytes": [each.size if each else 0 for each in done],
        "cause": [each.cause if each else "" for each in done],
    }, index=pandas.Index(list(of), name="call", dtype="str"))  # fmt: skip
    return _described(table, history, took_s="s")


def failures(history: History) -> pandas.DataFrame:
    """What failed: segments, walkers that were lost, stages of the workflow; with its cause, and what its file says."""
    rows = [_failure(history, record) for record in journal.read(history.directory.journal) if _failed(record)]
    columns = ("time", "what", "name", "cause", "text")
    table = pandas.DataFrame([dict(zip(columns, row, strict=True)) for row in rows], columns=list(columns))
    return table.assign(time=_utc(table["time"].to_numpy(float)))


def scores(history: History) -> pandas.DataFrame:
    """Every published frame that counts, in order of starts: where it lies, its time, its scores (NaN: none)."""
    table = frames(history)
    time = since_prepared(history, table["walker"].to_numpy(), table["row"].to_numpy())
    table = _described(table.assign(time=time), history, time=None)
    scored = _scored(history)
    if not scored.values:
        return table
    wanted = frame_key(table["walker"].to_numpy(), table["row"].to_numpy())
    at = places(frame_key(scored.walker, scored.row), wanted)
    table = table.assign(**{name: _along(column, at) for name, column in flat(scored)})
    if reweighing.applies(history) and "weight" not in table:
        try:
            table["weight"] = reweighted(history, table).weight
        except Exception as error:  # whatever a damaged version makes its reader raise
            warn_of_damage("the weights", error)
    return _described(table, history, time=None)


def reweighted(history: History, along: pandas.DataFrame) -> Reweighted:
    """What the frames of a biased run count in equilibrium, by the rows of their scores.

    Raises: as `steersman.data.reweighing.reweighted`.
    """
    scored = _scored(history)
    weights = reweighing.reweighted(history, scored)
    wanted = frame_key(along["walker"].to_numpy(), along["row"].to_numpy())
    at = places(wanted, frame_key(scored.walker, scored.row))
    weight = np.zeros(len(along))
    weight[at] = weights.weight
    return replace(weights, weight=weight, order=at[weights.order])


def frames(history: History) -> pandas.DataFrame:
    """Where each published frame that counts lies: walker, row in its group, and segment."""
    spans = published.spans(history.state)
    walker = np.concatenate([np.full(span.rows, number_of(span.walker)) for span in spans] or [np.zeros(0, int)])
    row = np.concatenate([np.arange(span.first, span.end) for span in spans] or [np.zeros(0, int)])
    of = history.segments
    made_by, names = of.of_frames(walker, row), [of.name(i) for i in range(len(of))]
    table = pandas.DataFrame({"walker": walker, "row": row})
    table.insert(0, "segment", pandas.Categorical.from_codes(made_by, categories=pandas.Index(names, dtype="str")))
    return table.rename_axis("frame")


def place_of(history: History, index: int | str) -> tuple[str, int]:
    """Segment and row of a frame: by its row of `scores`, or its name. Raises: UnknownName: there is none."""
    if isinstance(index, str):
        named = FrameName.parse(index)
        at = history.segments.find(index) if named else -1
        row = int(history.segments.first[at]) + named.frame if named else -1
        if named is None or row >= history.segments.end[at]:
            raise no_frame(index, history.state.frames)
        return history.segments.name(at), row
    table = frames(history)
    if isinstance(index, bool) or not isinstance(index, Integral) or not 0 <= index < len(table):
        raise no_frame(str(index), len(table))
    return str(table["segment"][index]), int(table["row"][index])


def flat(scored: Scores) -> Iterable[tuple[str, np.ndarray]]:
    """Scores as columns of numbers or booleans: z of three dimensions becomes z_0, z_1, z_2."""
    for name, value in scored.values.items():
        matrix = value.reshape(len(value), -1) if value.dtype == bool else scored.matrix(name)
        for i, column in enumerate(matrix.T):
            yield (name if np.ndim(value) == 1 else f"{name}_{i}"), column


def _along(column: np.ndarray, at: np.ndarray) -> np.ndarray | pandas.arrays.BooleanArray:
    """A score by the rows of a table; of a frame that has none NaN, or NA beside booleans, so that they can select."""
    if column.dtype != bool:
        return np.where(at >= 0, column[at], np.nan)
    return column[at] if (at >= 0).all() else pandas.arrays.BooleanArray(column[at], at < 0)


TABLES: dict[str, Callable[[History], pandas.DataFrame]] = {
    "segments": segments, "decisions": decisions, "models": models, "failures": failures, "metrics": metrics,
    "scores": scores, "labels": labels,
}  # fmt: skip


def _scored(history: History) -> Scores:
    try:
        return history.scores
    except Exception as error:  # whatever a damaged group makes its reader raise
        warn_of_damage("scores.zarr", error)
        return unscored(history.state)


def _decisions(history: History) -> list[Decision]:
    """What was written of the choices so far; a line that is being written is left for later."""
    kept = []
    for number, decision in read(history.directory):
        if decision is None:
            warn_of_damage(f"decisions.jsonl, line {number}", ValueError("it is no decision"))
        else:
            kept.append(decision)
    return kept


def _failed(record: records.Record) -> bool:
    match record:
        case records.Ended():
            return record.how == "failed"
        case records.Stage():
            return not record.ok
    return isinstance(record, records.Lost)


def _failure(history: History, record: records.Record) -> tuple[float, str, str, str, str]:
    match record:
        case records.Ended():
            name = str(SegmentName(record.walker, record.segment))
            return record.t, "segment", name, record.cause, history.printed(name)
        case records.Stage():
            return record.t, "stage", record.stage, record.cause, ""
        case records.Lost():
            name = walker_name(record.walker)
            return record.t, "walker", name, record.cause, history.printed(name)
    raise AssertionError(record)


def _utc(moments: np.ndarray, name: str | None = None) -> pandas.DatetimeIndex:
    return pandas.to_datetime(np.asarray(moments, float), unit="s", utc=True).rename(name)


def _described(table: pandas.DataFrame, history: History, **units: str | None) -> pandas.DataFrame:
    """Write the units of columns into `attrs`, None stands for that of simulated time; and which run they are of."""
    table.attrs["run"] = str(history.directory.path.resolve())
    table.attrs["units"] = {name: unit or history.state.time_unit for name, unit in units.items()}
    return table
