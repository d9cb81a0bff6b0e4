"""What can go wrong in an app, one class per cause.

AppError
├── OutOfRange            a setting that no simulation can run with
├── UnknownResidue        a sequence letter that is no amino acid
├── IncompleteStructure   a file without the atoms that are needed, or with others
├── UnusableSystem        a prepared system that does not fit its structure
├── PlatformUnavailable   OpenMM cannot run where it was asked to
├── WrongStart            a start that does not fit the molecule
├── SimulationUnstable    NaN or an explosion: no frame is given
├── FlowUnstable          the same of a shallow-water run
├── UnknownCase           a shallow-water case that does not exist
├── UnreadableTrajectory  a file that is not what a program was to write
└── CommandFailed         an external executable ended badly
    └── CommandNotFound   or never began
AlternateLocations        a warning: a file has several places for an atom
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from numbers import Real

from steersman.system.errors import BadInput, EngineError


class AppError(EngineError):
    """Anything that an app raises instead of a result."""


class OutOfRange(AppError, BadInput):
    """A setting that no simulation can run with."""

    setting: str
    value: float | str
    allowed: str

    def __str__(self) -> str:
        value = f"{self.value:g}" if isinstance(self.value, Real) else repr(self.value)
        return f"{self.setting} is {value}; it must be {self.allowed}"


class UnknownResidue(AppError, BadInput):
    """A sequence letter that is no amino acid; `position` counts from 1."""

    sequence: str
    position: int
    letters: str

    def __str__(self) -> str:
        if not self.sequence:
            return f"the sequence is empty; give one letter per residue, out of {self.letters}"
        letter = self.sequence[self.position - 1]
        return (
            f"{letter!r} at position {self.position} of {self.sequence!r} is no amino acid; "
            f"the 20 letters are {self.letters}"
        )


class IncompleteStructure(AppError, BadInput):
    """A structure file without what a simulation needs; `residue` names where, e.g. "TYR 2 of chain A"."""

    path: str
    residue: str
    atoms: tuple[str, ...]
    reason: str = "misses the atoms"
    advice: str = "complete the structure (e.g. with PDBFixer) and try again"

    def __str__(self) -> str:
        what = " ".join([self.residue, self.reason, ", ".join(self.atoms)]).strip()
        return f"{self.path}: {what}; {self.advice}"


class AlternateLocations(UserWarning):
    """A structure file with alternate locations: which are taken."""

    def __init__(self, path: str, residues: int, taken: Sequence[str]) -> None:
        super().__init__(path, residues, taken)
        self.path, self.residues, self.taken = path, residues, taken

    def __str__(self) -> str:
        more = ", ..." if self.residues > len(self.taken) else ""
        return f"{self.path}: of alternate locations the most occupied are taken: {', '.join(self.taken)}{more}"


class UnusableSystem(AppError, BadInput):
    """A prepared system that does not fit its structure, or that cannot be steered."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class PlatformUnavailable(AppError, RuntimeError):
    """OpenMM cannot run on the platform it was asked to use."""

    platform: str
    available: tuple[str, ...]

    def __str__(self) -> str:
        return f"OpenMM has no working platform {self.platform!r} here; it was built with {', '.join(self.available)}"


class WrongStart(AppError, ValueError):
    """A start that the molecule cannot begin from."""

    variable: str
    expected: tuple[int, ...]
    found: str

    def __str__(self) -> str:
        return f"the start's {self.variable} must be finite numbers of shape {self.expected}, but {self.found}"


class SimulationUnstable(AppError, ArithmeticError):
    """The simulation left physics: NaN, or a temperature that no thermostat gives."""

    time_ps: float
    seed: int
    cause: str

    def __str__(self) -> str:
        return (
            f"unstable at {self.time_ps:g} ps with seed {self.seed}: {self.cause}; "
            "start from another frame, or lower timestep_fs"
        )


class FlowUnstable(AppError, ArithmeticError):
    """A shallow-water run left physics: NaN, or no water left somewhere."""

    time_days: float
    seed: int
    cause: str

    def __str__(self) -> str:
        return (
            f"unstable at day {self.time_days:g} with seed {self.seed}: {self.cause}; "
            "start from another frame, take more diffusion, or lower step_s"
        )


class UnknownCase(AppError, BadInput):
    """A named beginning that does not exist."""

    name: str
    known: tuple[str, ...]
    nearest: str

    def __str__(self) -> str:
        hint = f"did you mean {self.nearest!r}? " if self.nearest else ""
        return f"there is no case {self.name!r}; {hint}Known: {', '.join(self.known)}"


class UnreadableTrajectory(AppError, ValueError):
    """A trajectory that is not what a program was to write."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class CommandFailed(AppError, RuntimeError):
    """An external executable ended with an exit code other than 0; a negative one is the signal that ended it."""

    command: str
    exit_code: int
    tail: str  # of what it said
    stream: str = "stderr"  # where it said so

    def __str__(self) -> str:
        said = self.tail.strip()
        where = f" (on {self.stream})" if said and self.stream != "stderr" else ""
        return f"{self.command} {_ended(self.exit_code)}{where}:\n{said or '(nothing on stderr and stdout)'}"


def _ended(exit_code: int) -> str:
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    known = [f" ({each.name})" for each in signal.Signals if each == -exit_code]  # some of a system have no name
    return f"was killed by signal {-exit_code}{''.join(known)}"


class CommandNotFound(CommandFailed):
    """An external executable that could not be started."""

    def __str__(self) -> str:
        return (
            f"{self.command} could not be started: {self.tail}; it is started in a directory of its own: write "
            "the absolute path of the program, or put it on PATH"
        )
