"""A run of a real peptide, written with the real journal and the real store, whose segments start from one another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steersman.apps import molecular_dynamics as md
from steersman.apps.molecular_dynamics.molecule import Molecule
from steersman.executors import site_files
from steersman.journal import records, run_directory
from steersman.journal.file import Journal
from steersman.journal.records import FrameId
from steersman.journal.run_directory import RunDirectory
from steersman.stages import loading
from steersman.stages.start import Start
from steersman.store import FRAME, SEGMENT, SEGMENT_FIELDS, GroupWriter
from tests.engine.conftest import no_driver_outlives_its_tests as no_driver_outlives_its_tests

FRAMES, REPORT_PS = 4, 0.02  # of a segment
# Walker and parent (walker, row) of each segment, in the order in which they ran: the lineage of w1.1 goes through both
# walkers, and leaves the last frames of each parent out.
STORY = ((0, None), (1, None), (0, (1, 1)), (1, (0, 6)), (0, (1, 3)))


@pytest.fixture(scope="session")
def molecule() -> Molecule:
    return md.build_peptide("AG")


@pytest.fixture(scope="session")
def simulated(molecule: Molecule) -> list[np.ndarray]:
    """(FRAMES, atom, 3) nm of each segment of the story; every one goes on from where its parent's frame lies."""
    made: list[np.ndarray] = []
    rows: dict[int, list[np.ndarray]] = {0: [], 1: []}
    for number, (walker, parent) in enumerate(STORY):
        frame = {} if parent is None else {"positions": rows[parent[0]][parent[1]]}
        steps = md.run(
            Start(molecule, frame), temperature_K=300.0, duration_ps=FRAMES * REPORT_PS, report_ps=REPORT_PS,
            timestep_fs=2.0, seed=number, platform="CPU",
        )  # fmt: skip
        made.append(np.stack([step.positions for step in steps]))
        rows[walker].extend(made[-1])
    return made


@pytest.fixture
def run(tmp_path: Path, molecule: Molecule, simulated: Sequence[np.ndarray]) -> RunDirectory:
    return written(tmp_path / "fold-0001", molecule, simulated)


def written(path: Path, molecule: Molecule, simulated: Sequence[np.ndarray]) -> RunDirectory:
    """What the engine and its walkers write of the story."""
    directory = run_directory.create(path.parent, "fold", path)
    settings = {
        "workflow": "fold", "seed": 1, "rounds": False, "params": {"latent": 2},
        "site": site_files.load_site("laptop").model_dump(mode="json"),
    }  # fmt: skip
    run_directory.write_settings(directory, settings, loading.find("fold"))
    directory.topology.write_text(molecule.pdb)
    now = [1_800_000_000.0]
    journal = Journal(directory.journal, clock=lambda: now[0])
    journal.append(records.Run(workflow="fold", seed=1, slots=2, time_unit="ps"), records.Session(host="here", pid=1))
    writers = [
        GroupWriter(directory.frames.path / f"w{n}", variables=md.VARIABLES, attributes={"coordinates": "time segment"})
        for n in range(2)
    ]
    for walker in range(2):
        journal.append(records.Hired(walker=walker, slot=walker))
    for number, (walker, parent) in enumerate(STORY):
        of_walker = [each for each, _ in STORY[:number]].count(walker)
        frame = None if parent is None else FrameId(*parent, parent[1] // FRAMES)
        policy = "prepared" if parent is None else "Novelty"
        journal.append(records.Start(start=number, seed=number, slot=walker, parent=frame, policy=policy, reason="new"))
        explain(directory, number, frame, policy)
        span: dict[str, Any] = {
            "first_row": of_walker * FRAMES,
            "start": number,
            "walker": walker,
            "segment": of_walker,
        }
        journal.append(records.Began(**span))
        now[0] += 1.0
        failed = number == len(STORY) - 1
        journal.append(records.Ended(
            **span, end_row=span["first_row"] + FRAMES, how="failed" if failed else "finished", ran_s=1.0,
            simulated=FRAMES * REPORT_PS, cause="NaN" if failed else "",
        ))  # fmt: skip
        _append(writers[walker], simulated[number], of_walker, number)
    (directory.errors / "w0.2.txt").write_text("Traceback: NaN")
    for walker, writer in enumerate(writers):
        rows = writer.publish()
        journal.append(records.Published(walker=walker, frames=rows[FRAME], segments=rows[SEGMENT]))
    _learn(directory, journal, writers)
    journal.append(records.End(outcome="goal", reason="there"))
    journal.close()
    return directory


def _append(writer: GroupWriter, positions: np.ndarray, segment: int, start: int) -> None:
    for i, each in enumerate(positions):
        contacts = np.eye(2, dtype=bool)
        time = np.float64((i + 1) * REPORT_PS)
        writer.append(FRAME, {"time": time, "positions": each, "contacts": contacts, "segment": np.int32(segment)})
    table = dict.fromkeys(SEGMENT_FIELDS, -1) | {"number": segment, "start": start}
    writer.append(SEGMENT, {"segments": np.array(list(table.values()))})


def explain(directory: RunDirectory, start: int, frame: FrameId | None, policy: str) -> None:
    line = {
        "t": 1_800_000_000.0 + start,
        "start": start,
        "policy": policy,
        "reason": "new",
        "model": 0,
        "candidates": 3,
    }
    with directory.decisions.open("a") as file:
        file.write(
            json.dumps(
                {
                    **line,
                    "frame": frame,
                    "refused": [{"frame": [0, 0, 0], "policy": "p", "reason": "r"}],
                    "ranked_s": 1e-5,
                }
            )
            + "\n"
        )


def _learn(directory: RunDirectory, journal: Journal, writers: Sequence[GroupWriter]) -> None:
    """A model, and scores of all frames but the last segment's: z tells walker and row, error the row."""
    walker = np.repeat([0, 1], [2 * FRAMES, 2 * FRAMES]).astype(np.int32)
    row = np.tile(np.arange(2 * FRAMES), 2)
    journal.append(records.Training(model=1, frames=12))
    journal.append(records.Trained(model=1, accepted=True, reason="the first model", frames=12, loss=2.0, seconds=1.0))
    writer = GroupWriter(directory.scores / "0001", attributes={"model": 1})
    z = np.stack([walker, row], axis=1).astype(np.float32)
    writer.extend(FRAME, {"walker": walker, "row": row, "z": z, "error": row.astype(np.float32), "odd": row % 2 == 1})
    writer.close()
    journal.append(records.Scored(model=1, frames=len(row)), records.Metrics(values={"coverage": 5.0}))
