"""What can be wrong with a wish to look at a run; each says what to do next.

BadInput
├── NoFrame           a frame was asked for that the run does not have
├── NoFrames          there are no frames of what was asked for
├── BadExpression     a quantity or a state of frames that cannot be understood
├── NotDone           a task has no result yet, or it failed
├── CannotExport      frames cannot be written as they were asked for
└── NotPlainResult    a task gave objects that only pickle can read
NothingToDraw         the run does not hold what a figure or a view shows
DamagedPart           a warning: a part of the run cannot be read, and is left out
Unconverted           a warning: what a file should have in its own unit is written as it is
"""

from __future__ import annotations

from steersman.system.errors import BadInput, EngineError


class NoFrame(BadInput):
    index: str
    frames: int

    def __str__(self) -> str:
        if not self.frames:
            return f"there is no frame {self.index!r}: there are no frames yet"
        return (
            f"there is no frame {self.index!r}; give a number from 0 to {self.frames - 1}, a row of `run.scores`, "
            "or SEGMENT:FRAME, as in 'w0.7:3'"
        )


class NoFrames(BadInput):
    problem: str
    advice: str = "`run.segments` (or `steersman export RUN --tables DIR`) says which segments have frames"

    def __str__(self) -> str:
        return f"{self.problem}; {self.advice}"


class CannotExport(BadInput):
    what: str
    problem: str

    def __str__(self) -> str:
        return f"{self.what}: {self.problem}"


class BadExpression(BadInput):
    text: str
    problem: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.text!r}: {self.problem}; write an expression of these columns: {', '.join(self.columns)}"


class NothingToDraw(EngineError):
    missing: str

    def __str__(self) -> str:
        return f"there is nothing to draw: {self.missing}"


class DamagedPart(UserWarning):
    """A part of a run cannot be read, and is left out; the rest is whole."""


class Unconverted(UserWarning):
    """A quantity without a known unit is written to a file as its numbers are."""


class NotDone(BadInput):
    task: str
    run: str
    cause: str = ""

    def __str__(self) -> str:
        how = f"failed: {self.cause}" if self.cause else "is not done"
        return f"{self.task} {how}; `steersman resume {self.run}` goes on with a run that has ended without it"


class NotPlainResult(BadInput):
    what: str
    file: str

    def __str__(self) -> str:
        return f"its result holds a {self.what}; where the run is yours, load it with pickle: {self.file}"
