"""A run directory -> a `Run`: its tables, its frames, its lineages and figures, for scripts and notebooks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any

import pandas
import xarray

from steersman.calls.plot import Plots
from steersman.data import frames, lineage, tables
from steersman.data import task_results as results
from steersman.data.clusters import clusters
from steersman.data.difference import difference
from steersman.data.export import trajectory
from steersman.data.facts import facts
from steersman.data.frames import warn_of_damage
from steersman.data.history import History
from steersman.data.unbiased import Unbiased
from steersman.data.verify import Problem, verify
from steersman.data.why import why
from steersman.journal import calls, run_directory
from steersman.journal import file as journal
from steersman.journal.file import Cursor
from steersman.journal.lock import driven
from steersman.journal.records import Record
from steersman.journal.run_directory import reading
from steersman.stages import trust as allowed
from steersman.steering import Scores
from steersman.system.errors import BadInput

LOOK_EVERY_S = 0.5


def open_run(path: str | os.PathLike[str], *, trust: bool = False) -> Run:
    """Open the directory of a run that goes on, has ended, or was copied here.

    Args:
        trust: allow the code of its workflow file, which only the figures that it draws need; remembered for this
            code. That of runs which you made or submitted is allowed.
    Raises:
        BadDirectory: there is no run.
        JournalTooNew: a newer Steersman wrote it; that of an older one is read.
        DamagedFile: its journal cannot be read.
    """
    if trust:
        allowed.trust(run_directory.open_run(Path(path)).workflow)
    return Run(Path(path))


class Run:
    """A run as its directory records it, at the moment of each look: what is asked for again is read again.

    Nothing is written, nothing is unpickled, and no code of the run is executed, but for figures that its workflow file
    draws, where you made the run or allowed its code. A part that cannot be read is left out with a warning
    (`DamagedPart`).
    """

    def __init__(self, path: Path) -> None:
        self._directory = run_directory.open_run(path)
        with reading(self._directory):
            self._known = History(self._directory)
        if flaws := self._known.flaws:
            warn_of_damage(f"journal.jsonl, {len(flaws)} of its lines", ValueError(str(flaws[0])))

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._directory.path

    @property
    def state(self) -> pandas.Series:
        """The run in plain values: workflow, outcome, reason, seed, frames, simulated, time_unit, hours, ..."""
        return tables.state(self._history)

    @property
    def metrics(self) -> pandas.DataFrame:
        """Metrics by time: elapsed_s, simulated, scored, and a column for each metric."""
        return tables.metrics(self._history)

    @property
    def segments(self) -> pandas.DataFrame:
        """Every segment by name: who chose its start and where that lies, when it ran, how it ended, its frames."""
        return tables.segments(self._history)

    @property
    def decisions(self) -> pandas.DataFrame:
        """Every choice of a start: by which policy, why, among how many frames, and the segment that ran it."""
        return tables.decisions(self._history)

    @property
    def models(self) -> pandas.DataFrame:
        """Every training by version: on how many frames, how long, with what loss, and whether the model is used."""
        return tables.models(self._history)

    @property
    def labels(self) -> pandas.DataFrame:
        """Every label that was asked for: of which frame, why, when, and what was answered, where that is a number."""
        return tables.labels(self._history)

    @property
    def labelled(self) -> Mapping[str, Any]:
        """Frames that have labels, with these, as `frames.labelled` of the train function has them."""
        return tables.labelled(self._history)

    @property
    def failures(self) -> pandas.DataFrame:
        """Segments and stages that failed and walkers that were lost, with the cause and what they printed."""
        return tables.failures(self._history)

    @property
    def scores(self) -> pandas.DataFrame:
        """Every frame that counts, a row each: segment, walker, row, time since the prepared start, and its scores.

        Its row `i` is `run.frame(i)`. Scores are those of the newest model; a score of several dimensions is several
        columns, `z_0`, `z_1`, ... Of a biased run `weight` is what a frame counts in equilibrium; their sum is 1, and
        frames that were not biased along the newest model have 0.
        """
        return tables.scores(self._history)

    @property
    def scored(self) -> Scores:
        """The scores as policies and metrics see them, for functions that take these: `averages(run.scored, value)`.

        In the order in which they were scored, as metrics see them, and not in that of `scores`: their `walker` and
        `row` say which is which. In rounds both stand in order of starts.
        """
        with reading(self._directory):
            return self._history.scores

    @property
    def unbiased(self) -> Unbiased:
        """Of a biased run: averages, free energies and differences between states of the unbiased system.

        Raises: BadInput: the run has no bias.
        """
        with reading(self._directory):
            return Unbiased(self._history)

    @property
    def frames(self) -> xarray.DataTree:
        """All published frames, lazy, a node for each walker, with their names and units."""
        return frames.tree(self._history.directory)

    def dataset(self, frames: pandas.DataFrame | None = None, variables: Sequence[str] | None = None) -> xarray.Dataset:
        """Frames of all walkers as one Dataset along `frame`, lazy: what is looked at is read, when it is.

        Args:
            frames: rows of `scores`, in any order, e.g. `run.scores.nlargest(50, "x")`; None: all, in their order.
            variables: names of those to have; None: all.
        Returns: the stored variables, with the coordinates `time` (since the prepared start), `segment`, `walker` and
            `row`.
        Raises: BadInput: there is none. MissingVariable. BadVariable: walkers have a variable in other shapes.
            BadInput: `frames` are no rows of `scores`.
        """
        with reading(self._directory):
            chosen = self.scores if frames is None else frames
            if not (isinstance(chosen, pandas.DataFrame) and {"walker", "row"} <= {*chosen}):
                raise BadInput("dataset() takes rows of run.scores, e.g. run.scores.loc[[3, 1]]")
            if chosen.empty:
                raise BadInput("there are no frames")
            return lineage.dataset(self._history, chosen, variables, lazy=True)

    @property
    def tasks(self) -> pandas.DataFrame:
        """Every call of a task before and after the loop, by its key: task, arguments, standing, needs, seconds."""
        return tables.calls(self._history)

    def result(self, name: str) -> Any:
        """What a plan or a task gave, of plain values and arrays.

        Args:
            name: of `@wf.before`, `@wf.after` or a task: of its calls the one that was asked for last, also where that
                was done before; or a key of `tasks`, or its first 12 digits or more.
        Raises: UnknownName: there is no such call. BadInput: it is not done, it failed, or its result holds other
            objects. DamagedFile: it was changed.
        """
        with reading(self._directory):
            return results.result(self._history, name)

    def tell(self, *words: str | Mapping[str, Any]) -> str:
        """Say something to the run while it goes on, as `steersman tell` does: `run.tell("pin", "w0.7:3")`,
        `run.tell("set", {"steps": 400})`.

        Returns: the answer of its driver.
        Raises: BadInput: it is no word, the driver refused it, or the run has none.
        """
        from steersman.engine import people

        return people.tell(self._directory, list(chain.from_iterable(map(_words, words))))

    def frame(self, index: int | str) -> xarray.Dataset:
        """One frame, in memory.

        Args:
            index: a row of `scores`; or SEGMENT:FRAME, as in "w0.7:3".
        Raises: NoFrame: there is none.
        """
        with reading(self._directory):
            history = self._history
            return lineage.frame(history, *tables.place_of(history, index))

    def lineage(self, segment: str, variables: Sequence[str] | None = None) -> xarray.Dataset:
        """The frames on the way from the prepared start to the end of a segment, in memory, as one trajectory.

        Args:
            segment: e.g. "w0.7"; or a frame, "w0.7:3", which is the last one.
            variables: names of those to read; None reads all.
        Returns: along `frame`: the variables, with the coordinates `time` (since the prepared start, in the run's
            unit, continuous), `segment` (its name), `walker` and `row`.
        Raises: BadInput: there is no such segment or frame. MissingVariable.
        """
        with reading(self._directory):
            return lineage.lineage(self._history, segment, variables)

    def clusters(self, number: int, by: str = "z") -> pandas.Series:
        """Divide the scored frames by k-means: (n,) int along `scores`, from the largest cluster, 0; -1: no scores.

        Args:
            by: a score, e.g. "z" for z_0, z_1, ...
        Raises: UnknownName: there is no such score. BadInput: there are too few frames.
        """
        return clusters(self.scores, number, by)

    def export(
        self,
        path: str | os.PathLike[str],
        frames: str | pandas.DataFrame,
        *,
        topology: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        variables: Sequence[str] | None = None,
    ) -> None:
        """Write frames to a trajectory, .xtc, .dcd, .pdb or .nc, with their times and box.

        Args:
            frames: rows of `scores`, in any order, e.g. `run.scores.query("error > 3")`; or a segment, for its lineage.
            topology: a file with the atoms; by default the run's topology.pdb.
            overwrite: replace a file that is there.
            variables: what a .nc of a run without atoms holds of each frame; None: all.
        Raises: BadInput: they cannot be written so. MissingVariable. MissingExtra: MDAnalysis is not installed.
        """
        with reading(self._directory):
            history = self._history
            chosen = lineage.rows(history, frames) if isinstance(frames, str) else frames
            atoms = None if topology is None else Path(topology)
            options: Any = {"topology": atoms, "overwrite": overwrite, "variables": variables}
            for _ in trajectory(history, chosen, Path(path), **options):
                pass

    def why(self, name: str) -> Any:
        """Where a segment (or that of a frame) started, who chose that and what was passed over, as `steersman why`.

        Of a task, by its name or the key of a call: what each call of it needed, and what came of it.
        """
        with reading(self._directory):
            history = self._history
            return calls.why(history.state.calls, name) or why(history, str(name))

    def difference(self, other: Run | str | os.PathLike[str]) -> dict[str, Any]:
        """What differs from another run: params, settings, code, versions and outcome, as `steersman diff`."""
        return difference(self._history, (other if isinstance(other, Run) else open_run(other))._history)

    def verify(self) -> list[Problem]:
        """What is damaged, as `steersman verify`: `where` and `problem` of each; empty: it is whole."""
        return verify(self._directory)

    @property
    def plot(self) -> Plots:
        """The figures of the report: `run.plot.sampled()`, and what `dir(run.plot)` lists."""
        return Plots(self._history)

    def follow(self, *, every_s: float = LOOK_EVERY_S) -> Iterator[Record]:
        """Iterate over the records that come after this call, as they come, until nobody drives the run.

        Args:
            every_s: seconds between two looks at the journal.
        """
        return self._after(copy(self._history.place), every_s)

    def _after(self, place: Cursor, every_s: float) -> Iterator[Record]:
        alive = True
        while alive:
            alive = driven(self.path)  # before what it wrote last is read
            yield from journal.follow(self._directory.journal, place)
            if alive:
                time.sleep(every_s)

    @property
    def _history(self) -> History:
        with reading(self._directory):
            self._known.catch_up()
        return self._known

    def _facts(self) -> dict[str, str]:
        seen = self._history.overview()
        return {"outcome": f"{seen.outcome}: {seen.reason}" if seen.ended else seen.outcome, **facts(seen)}

    def __repr__(self) -> str:
        rows = self._facts()
        width = max(map(len, rows))
        lines = [f"  {name:<{width}}  {value}" for name, value in rows.items()]
        return "\n".join([f"<steersman run {self._known.name} in {self.path}>", *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self._facts().items()
        )
        return f"<table><caption>{escape(f'{self._known.name}: {self.path}')}</caption><tbody>{rows}</tbody></table>"


def _words(said: Any) -> Iterator[str]:
    """As the command line has them: `key=value`."""
    if isinstance(said, Mapping):
        yield from (f"{key}={json.dumps(value)}" for key, value in said.items())
    elif isinstance(said, str):
        yield said
    else:
        raise BadInput(f'tell() takes words, e.g. ("set", "steps=400") or ("pin", "w0.7:3"); {said!r:.60} is none')
