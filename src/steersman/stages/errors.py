"""What can be wrong with a workflow file."""

from __future__ import annotations

from steersman.system.errors import BadInput


class UntrustedCode(BadInput):
    workflow: str

    def __str__(self) -> str:
        return (
            f"{self.workflow} is not executed: no run of yours had this code; read it, then allow it with --trust "
            "(in Python: open_run(RUN, trust=True)), which is remembered for this code"
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
