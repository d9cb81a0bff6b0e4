"""What can go wrong in an app.

EngineError
├── SimulationUnstable    NaN or an explosion: no frame is given
└── CommandFailed         an external executable ended badly
"""

from __future__ import annotations

import signal

from steersman.system.errors import BadInput, EngineError


class SimulationUnstable(EngineError, ArithmeticError):
    """The simulation left physics: NaN, a temperature that no thermostat gives, no water left."""

    time: str
    seed: int
    cause: str

    def __str__(self) -> str:
        return (
            f"unstable at {self.time} with seed {self.seed}: {self.cause}; "
            "start from another frame, or take a shorter time step"
        )


class CommandFailed(EngineError, RuntimeError):
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


def wrong_start(variable: str, expected: tuple[int, ...], problem: str) -> BadInput:
    """A start that a simulation cannot begin from."""
    return BadInput(
        "the start's {variable} must be finite numbers of shape {expected}, but {problem}",
        variable=variable, expected=expected, problem=problem,
    )  # fmt: skip
