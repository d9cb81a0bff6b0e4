"""What can be wrong with a workflow file."""

from __future__ import annotations

from steersman.system.errors import BadInput, EngineError


class BadDraws(BadInput):
    """What a held_out stage returned cannot be drawn from."""

    problem: str

    def __str__(self) -> str:
        return f"@wf.held_out: {self.problem}; it must return {{name: array with one row for each draw}}"


class NoPoint(BadInput):
    """What a policy drew is no point of the cube that the simulation asks for."""

    dimensions: int
    drawn: str

    def __str__(self) -> str:
        return (
            f"start.point({self.dimensions}, seed): what was drawn is {self.drawn}, and no point of "
            f"{self.dimensions} numbers from 0 to 1; give the policy and @wf.held_out as many dimensions, or take what "
            "you want of start.draw"
        )


class UntrustedCode(BadInput):
    workflow: str

    def __str__(self) -> str:
        return (
            f"{self.workflow} is not executed: no run of yours had this code; read it, then allow it with --trust "
            "(in Python: open_run(RUN, trust=True)), which is remembered for this code"
        )


class NoNumber(BadInput):
    made: str

    def __str__(self) -> str:
        return f"a metric returns one number, and it returned {self.made}"


class NoFrameYet(EngineError, KeyError):
    name: str

    def __str__(self) -> str:
        return (
            f"start.frame has no {self.name!r}: it is empty in the first segments; write "
            f"start.frame.get({self.name!r}, value) with the value that these begin from"
        )


class BadFigure(BadInput):
    made: str

    def __str__(self) -> str:
        return f"it returned {self.made}; a figure function returns a Figure, alone or with a caption, or None"


class BadPanel(BadInput):
    made: str

    def __str__(self) -> str:
        return (
            f"it returned {self.made}; a panel returns a matplotlib Figure or an array of shape (n,) or (n, m), alone "
            "or with a caption, or None"
        )


class BadYardstick(BadInput):
    name: str
    problem: str

    def __str__(self) -> str:
        return f"yardstick {self.name!r}: it returned {self.problem}"


class BadWorkflow(BadInput):
    path: str
    line: int
    problem: str

    def __str__(self) -> str:
        where = f"{self.path}, line {self.line}" if self.line else self.path
        return f"{where}: {self.problem}"
