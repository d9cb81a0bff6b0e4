"""A tiny campaign of a workflow that holds draws out, and what is true of each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from steersman.data.history import History
from steersman.data.scored import ScoredFrames
from steersman.journal import published
from steersman.journal.modes.held_out import HeldOut
from steersman.journal.state import State
from steersman.steering import latin_hypercube
from tests.engine.conftest import completed


def ran(workflow: str, tiny: Mapping[str, float], dimensions: int, cwd: Path, walkers: int = 1) -> State:
    """Run it; what judges is the Latin hypercube, simulated first, and no training has seen it."""
    words = [word for key, value in tiny.items() for word in ("--set", f"{key}={value}")]
    directory, state, _ = completed(workflow, "--report", "--seed", 1, "--workers", walkers, *words, cwd=cwd)
    held_out = {(s.walker, row) for s in published.spans(state, held_out=True) for row in range(s.first, s.end)}
    trained = {
        (walker, row)
        for model in state.models
        for walker, first, end in json.loads((directory.model(model.version) / "card.json").read_text())["window"]
        for row in range(first, end)
    }
    assert len(held_out) == tiny["held_out"]
    assert state.mode(HeldOut).drawn == set(range(len(held_out)))  # before anything was steered
    assert trained
    assert not trained & held_out
    points = sorted(tuple(directory.frames.row(walker, row)["point"]) for walker, row in held_out)
    assert np.array_equal(points, sorted(map(tuple, latin_hypercube(len(held_out), dimensions))))
    assert state.models[0].accepted
    assert ScoredFrames(History(directory)).widest() == "point", "the map shows where members were drawn"
    assert (directory.path / "report.html").stat().st_size > 10_000
    return state
