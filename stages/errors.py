"""What can be wrong with a workflow file."""

from __future__ import annotations

from steersman.system.errors import BadInput


class BadWorkflow(BadInput):
    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path, self.line, self.problem = path, line, problem

    def __str__(self) -> str:
        where = f"{self.path}, line {self.line}" if self.line else self.path
        return f"{where}: {self.problem}"
