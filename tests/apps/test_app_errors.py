"""Every error of an app, drawn from its tree."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from steersman.apps.errors import (
    AppError,
    CommandFailed,
    CommandNotFound,
    FlowUnstable,
    IncompleteStructure,
    MissingExtra,
    OutOfRange,
    PlatformUnavailable,
    SimulationUnstable,
    UnknownCase,
    UnknownResidue,
    UnusableSystem,
    WrongStart,
)

ERRORS = [
    CommandFailed("sim --fast", 3, "no space left"),
    CommandNotFound("sim", 127, "No such file"),
    IncompleteStructure("a.pdb", "TYR 2 of chain A", ["OH"]),
    MissingExtra("openmm", "md"),
    OutOfRange("timestep_fs", 9.0, "at most 5"),
    PlatformUnavailable("CUDA", ["CPU"]),
    FlowUnstable(2.5, 7, "NaN"),
    UnknownCase("galewski", ("galewsky", "jet"), "galewsky"),
    SimulationUnstable(0.4, 7, "NaN"),
    UnknownResidue("YYB", 3, "A C D"),
    UnusableSystem("box.pdb", "has no box"),
    WrongStart("positions", (4, 3), "it has shape (3, 3)"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_an_app_survives_pickle(error: AppError) -> None:
    """One that does not kills the thread that hands results back."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def test_the_tree_is_complete() -> None:
    """A new error cannot be left out of the test above."""

    def below(kind: type[AppError]) -> set[type[AppError]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    here = {kind for kind in below(AppError) if kind.__module__ == AppError.__module__}
    assert {type(error) for error in ERRORS} == here - {AppError}


@pytest.mark.parametrize(
    ("module", "told"), [("openmm", "openmm"), ("PeptideBuilder.PeptideBuilder", "PeptideBuilder")]
)
def test_a_missing_package_names_its_extra(module: str, told: str) -> None:
    """Whoever installed the bare engine learns what to install."""
    code = f"import sys; sys.modules[{module!r}] = None; import steersman.apps.molecular_dynamics"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert f"{told} is not installed; pip install 'steersman[md]'" in ended.stderr
