"""Every error of a model, drawn from its tree."""

from __future__ import annotations

import pickle

import pytest

from steersman.models.errors import (
    ModelError,
    OutOfMemory,
    RankLost,
    RanksDiffer,
    RanksFailed,
    StagingFailed,
    TooManyRanks,
    TooSmall,
    TrainingDiverged,
    UnfitGrid,
    UnfitLaw,
    UnknownChoice,
    UnreadableModel,
    UnusableData,
)

ERRORS = [
    OutOfMemory(4096, "DefaultCPUAllocator: can't allocate memory"),
    RankLost(1, 2, "connection closed"),
    RanksDiffer(1, "data"),
    RanksFailed(2, ("rank 1: killed",)),
    UnfitGrid(62, 64, 42),
    UnfitLaw("kept", (3,), "of the channels 0 to 2"),
    StagingFailed("frames.zarr", "/tmp/frames", "node7: no space left on device"),
    TooManyRanks(4, 100, 50),
    TooSmall("batch", 0, 1),
    UnknownChoice("strategy", "dpd", ("single", "ddp")),
    TrainingDiverged(3, float("inf"), 1.0),
    UnreadableModel("models/0003", "no weights"),
    UnusableData((0, 3, 3), "there are no contact maps"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_a_model_survives_pickle(error: ModelError) -> None:
    """One that does not kills the thread that hands results back."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_the_tree_of_model_errors_is_complete() -> None:
    """A new error cannot be left out of the test above."""
    assert {type(error) for error in ERRORS} == set(ModelError.__subclasses__())
