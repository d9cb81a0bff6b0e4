"""Answers of a label function: what can be kept, and what is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from steersman.journal.run_directory import KNOWN, RunDirectory
from steersman.store import FRAME, Frames, GroupWriter
from steersman.system.errors import BadValue
from steersman.worker.known import checked, keep
from steersman.worker.labelling import label, read
from tests.worker.conftest import MadeRun


@pytest.mark.parametrize(
    "answer",
    [
        None,
        3.0,
        {},
        {"y": np.nan},
        {"y": [1.0, np.inf]},
        {"y": "text"},
        {"y": np.ma.masked_equal([1, 2], 2)},
        {"y": {}},
    ],
    ids=["nothing", "a number", "no names", "NaN", "infinity", "text", "masked", "an object"],
)
def test_what_is_no_answer_is_refused(answer: Any) -> None:
    with pytest.raises(BadValue):
        checked(answer)


def test_numbers_of_any_shape_are_kept_as_they_are() -> None:
    kept = checked({"energy": 1.5, "forces": np.ones((3, 3), np.float32), "well": True})
    assert {name: (each.dtype.kind, each.shape) for name, each in kept.items()} == {
        "energy": ("f", ()), "forces": ("f", (3, 3)), "well": ("b", ()),
    }  # fmt: skip


LABELLED = """
from pathlib import Path

@wf.simulate()
def simulate(p, start, out): out.append(x=1.0)

@wf.label(error=lambda model, frame, answer: 0.0)
def expensive(p, frame):
    with Path(__file__).with_name("calls").open("a") as calls:
        calls.write("x")
    return {"y": 2 * frame["x"]}
"""


def test_an_answer_is_there_before_the_error_is_measured_and_is_not_asked_for_twice(made_run: MadeRun) -> None:
    directory = made_run(LABELLED)
    writer = GroupWriter(directory.frames.path / "w0")
    writer.append(FRAME, {"x": 3.0})
    writer.publish()
    for _ in range(2):
        with pytest.raises(Exception, match="model"):  # for there is none to be judged
            label(str(directory.path), 0, (0, 0), 1, {}, None)
    assert read(directory.answer(0))["y"] == 6.0
    assert directory.workflow.with_name("calls").read_text() == "x"


@pytest.mark.parametrize(
    "given", [{"x": np.zeros(3), "y": np.zeros(2)}, {"x": np.full(3, np.nan)}, {}, [1], {"x": 1.0}]
)
def test_labels_from_before_that_are_none_are_refused(tmp_path: Path, given: Any) -> None:
    directory = RunDirectory(tmp_path)
    with pytest.raises(BadValue):
        keep(directory, {"labelled": given})
    assert not (directory.labels / KNOWN).exists()


def test_labels_from_before_are_kept_once_and_for_all_with_their_source(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    prepared = SimpleNamespace(labelled={"y": np.arange(3.0)})
    keep(directory, prepared)
    prepared.labelled = {"y": np.arange(4.0)}
    keep(directory, prepared)
    labels = Frames(directory.labels)
    assert (labels.count(KNOWN), labels.attributes(KNOWN)["source"]) == (3, "prepare")
