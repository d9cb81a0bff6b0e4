"""`@wf.answer`: what a program that asks is told while it runs, see `steersman.apps.program`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steersman.stages.kinds.stage import Several
from steersman.stages.segment import Segment
from steersman.stages.shared import Inputs, Shared, UnknownInput
from steersman.stages.start import Start
from steersman.system.errors import EngineError, UnknownName, told


class Answers(Several):
    kind, kept, arguments = "answer", "answers", ("params", "model", "inputs")

    def ask(self, name: str, inputs: Mapping[str, Any], start: Start, out: Segment) -> Mapping[str, Any] | None:
        """What a function says to a program of a segment; None: there is no model yet.

        Raises: UnknownName: there is no such function, or no input that it looks for. RuntimeError: another error of
            the house that it raised: that is no refusal of the question. TypeError: it gave no arrays by name.
        """
        if name not in self.functions:
            raise UnknownName("@wf.answer", name, self.functions)
        if start.model is None and start.learns:
            return None
        out.repeats &= not isinstance(self.functions[name], Shared)
        try:
            outputs = self.functions[name](start.params, start.model, Inputs(name, inputs))
        except UnknownInput:
            raise
        except EngineError as error:
            raise RuntimeError(f"@wf.answer {name}: {told(error)}") from error
        if not isinstance(outputs, Mapping):
            raise TypeError(f"@wf.answer {name} returned {outputs!r:.60}; return arrays by their names")
        return outputs
