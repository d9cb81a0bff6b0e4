"""What is wrong with a stage that is tried."""

from __future__ import annotations

from steersman.system.errors import EngineError


class NoFrames(EngineError):
    def __str__(self) -> str:
        return (
            "it appended no frame; call out.append(name=value, ...) for each. Does a reader read the file that the "
            "program writes?"
        )


class NoTime(EngineError):
    """Frames have no time, and the stop rule counts it."""

    rule: str

    def __str__(self) -> str:
        return (
            f"no frame has a `time`, and the stop rule counts simulated time ({self.rule}): the run would not end; "
            "write out.append(time=...), the simulated time since the segment's start"
        )
