"""`@wf.answer`: what a program that asks is told while it runs, see `steersman.apps.program`."""

from __future__ import annotations

from steersman.stages.kinds.stage import Several


class Answers(Several):
    kind, kept, arguments = "answer", "answers", ("params", "model", "inputs")
