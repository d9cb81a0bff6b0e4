"""What can go wrong in an app, one class per cause.

AppError
├── MissingExtra          an optional package is not installed
├── OutOfRange            a setting that no simulation can run with
├── UnknownResidue        a sequence letter that is no amino acid
├── IncompleteStructure   a file without the atoms that are needed
├── UnusableSystem        a prepared system that does not fit its structure
├── PlatformUnavailable   OpenMM cannot run where it was told to
├── WrongStart            a start that does not fit the molecule
├── SimulationUnstable    NaN or an explosion: no frame is given
├── FlowUnstable          the same of a shallow-water run
├── UnknownCase           a shallow-water case that does not exist
└── CommandFailed         an external executable ended badly
    └── CommandNotFound   or never began

The arguments of each are its parameters, so that every one of them survives pickle.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real


class AppError(Exception):
    """Anything that an app tells instead of a result."""


class MissingExtra(AppError, ImportError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package, self.extra = package, extra

    def __str__(self) -> str:
        return f"{self.package} is not installed; pip install 'steersman[{self.extra}]'"


class OutOfRange(AppError, ValueError):
    """A setting that no simulation can run with."""

    def __init__(self, setting: str, value: float, allowed: str) -> None:
        super().__init__(setting, value, allowed)
        self.setting, self.value, self.allowed = setting, value, allowed

    def __str__(self) -> str:
        value = f"{self.value:g}" if isinstance(self.value, Real) else repr(self.value)
        return f"{self.setting} is {value}; it must be {self.allowed}"


class UnknownResidue(AppError, ValueError):
    """A sequence letter that is no amino acid; `position` counts from 1."""

    def __init__(self, sequence: str, position: int, letters: str) -> None:
        super().__init__(sequence, position, letters)
        self.sequence, self.position, self.letters = sequence, position, letters

    def __str__(self) -> str:
        if not self.sequence:
            return f"the sequence is empty; give one letter per residue, out of {self.letters}"
        letter = self.sequence[self.position - 1]
        return (
            f"{letter!r} at position {self.position} of {self.sequence!r} is no amino acid; "
            f"the 20 letters are {self.letters}"
        )


class IncompleteStructure(AppError, ValueError):
    """A structure file without what a simulation needs; `residue` names where, e.g. "TYR 2 of chain A"."""

    def __init__(self, path: str, residue: str, atoms: Sequence[str], reason: str = "misses the atoms") -> None:
        super().__init__(path, residue, tuple(atoms), reason)
        self.path, self.residue, self.atoms, self.reason = path, residue, tuple(atoms), reason

    def __str__(self) -> str:
        what = " ".join([self.residue, self.reason, ", ".join(self.atoms)]).strip()
        return f"{self.path}: {what}; complete the structure (e.g. with PDBFixer) and try again"


class UnusableSystem(AppError, ValueError):
    """A prepared system that does not fit its structure, or that cannot be steered."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class PlatformUnavailable(AppError, RuntimeError):
    """OpenMM cannot run on the platform it was told to use."""

    def __init__(self, platform: str, available: Sequence[str]) -> None:
        super().__init__(platform, tuple(available))
        self.platform, self.available = platform, tuple(available)

    def __str__(self) -> str:
        return f"OpenMM has no working platform {self.platform!r} here; it was built with {', '.join(self.available)}"


class WrongStart(AppError, ValueError):
    """A start that the molecule cannot begin from."""

    def __init__(self, variable: str, expected: tuple[int, ...], found: str) -> None:
        super().__init__(variable, expected, found)
        self.variable, self.expected, self.found = variable, expected, found

    def __str__(self) -> str:
        return f"the start's {self.variable} must be finite numbers of shape {self.expected}, but {self.found}"


class SimulationUnstable(AppError, ArithmeticError):
    """The simulation left physics: NaN, or a temperature that no thermostat gives."""

    def __init__(self, time_ps: float, seed: int, cause: str) -> None:
        super().__init__(time_ps, seed, cause)
        self.time_ps, self.seed, self.cause = time_ps, seed, cause

    def __str__(self) -> str:
        return (
            f"unstable at {self.time_ps:g} ps with seed {self.seed}: {self.cause}; "
            "start from another frame, or lower timestep_fs"
        )


class FlowUnstable(AppError, ArithmeticError):
    """A shallow-water run left physics: NaN, or no water left somewhere."""

    def __init__(self, time_days: float, seed: int, cause: str) -> None:
        super().__init__(time_days, seed, cause)
        self.time_days, self.seed, self.cause = time_days, seed, cause

    def __str__(self) -> str:
        return (
            f"unstable at day {self.time_days:g} with seed {self.seed}: {self.cause}; "
            "start from another frame, take more diffusion, or lower step_s"
        )


class UnknownCase(AppError, ValueError):
    """A named beginning that does not exist."""

    def __init__(self, name: str, known: Sequence[str], nearest: str) -> None:
        super().__init__(name, tuple(known), nearest)
        self.name, self.known, self.nearest = name, tuple(known), nearest

    def __str__(self) -> str:
        hint = f"did you mean {self.nearest!r}? " if self.nearest else ""
        return f"there is no case {self.name!r}; {hint}Known: {', '.join(self.known)}"


class CommandFailed(AppError, RuntimeError):
    """An external executable ended with an exit code other than 0; a negative one is the signal that ended it."""

    def __init__(self, command: str, exit_code: int, stderr_tail: str) -> None:
        super().__init__(command, exit_code, stderr_tail)
        self.command, self.exit_code, self.stderr_tail = command, exit_code, stderr_tail

    def __str__(self) -> str:
        told = self.stderr_tail.strip() or "(nothing on stderr)"
        return f"{self.command} ended with exit code {self.exit_code}:\n{told}"


class CommandNotFound(CommandFailed):
    """An external executable that could not be started."""

    def __str__(self) -> str:
        return f"{self.command} could not be started: {self.stderr_tail}"
