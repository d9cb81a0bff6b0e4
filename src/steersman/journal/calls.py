"""Calls of tasks, before and after the loop, as a run's journal records them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from steersman.journal import records

TASKS, RESULT = "tasks", "result.pkl"  # in a run directory RUN/tasks/<call>/result.pkl
SHOWN = 12  # of a key, which is 64 digits


@dataclass
class Call:
    """A call of a task.

    Args:
        done: how it ended, if it did.
    """

    called: records.Called
    done: records.Task | None = None

    @property
    def key(self) -> str:
        return self.called.call

    @property
    def sha256(self) -> str:
        """Of its result; "" where there is none."""
        return self.done.sha256 if self.done else ""

    def standing(self, calls: Mapping[str, Call]) -> str:
        """done, failed, waiting (for the results that it needs), or begun (handed to the workers)."""
        if self.done:
            return "done" if self.done.sha256 else "failed"
        needs = [calls[key] for key in self.called.needs if key in calls]
        return "begun" if all(each.sha256 for each in needs) else "waiting"

    def __str__(self) -> str:
        return f"{self.called.task}({self.called.words})"


def named(calls: Mapping[str, Call], name: str) -> list[Call]:
    """The calls of a task; else that of a key, or of its first 12 digits or more: `face` is no key."""
    of_task = [call for call in calls.values() if call.called.task == name]
    return of_task or [
        call for call in calls.values() if len(name) >= min(SHOWN, len(call.key)) and call.key.startswith(name)
    ]


def why(calls: Mapping[str, Call], name: str) -> list[dict[str, Any]]:
    """Calls by name: what each needs, what came of it, and where; for JSON."""
    return [
        {
            "task": call.called.task,
            "arguments": call.called.words,
            "call": call.key,
            "folder": f"{TASKS}/{call.key}",
            "standing": call.standing(calls),
            "needs": [f"{calls[key]} {key[:SHOWN]}" for key in call.called.needs if key in calls],
            "needed_by": [f"{each} {each.key[:SHOWN]}" for each in calls.values() if call.key in each.called.needs],
            **(_came_of(call.done) if call.done else {}),
        }
        for call in named(calls, name)
    ]


def _came_of(done: records.Task) -> dict[str, Any]:
    return {"node": done.node, "took_s": done.took_s, "bytes": done.size} if done.sha256 else {"cause": done.cause}


def lines(calls: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for each in calls:
        yield f"{each['task']}({each['arguments']}): {each['standing']}"
        for name, value in each.items():
            if name not in ("task", "arguments", "standing") and value not in ("", []):
                yield f"  {name.replace('_', ' '):<10} {', '.join(value) if isinstance(value, list) else value}"


def counts(calls: Mapping[str, Call]) -> dict[str, int]:
    """How many stand how, those that are done first."""
    standings = Counter(call.standing(calls) for call in calls.values())
    return {standing: standings[standing] for standing in ("done", "begun", "waiting", "failed") if standings[standing]}
