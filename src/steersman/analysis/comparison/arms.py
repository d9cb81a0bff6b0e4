"""What a person compares -> arms: variants of a workflow file that differ in their steering, or in parameters."""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
import tokenize
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from steersman.stages import loading
from steersman.stages.modules import MODULE
from steersman.stages.workflow import Workflow
from steersman.steering import Steering, StopRule, budget
from steersman.steering.expression import parse
from steersman.steering.stop import Budget
from steersman.system.errors import BadValue

WORKERS = "workers"  # the one thing that varies and is no parameter: it belongs to the site
PLAIN, RANDOM, OWN = "Unsteered()", "Random(), fallback=Random()", ""

APPENDED = """

# Appended by `steersman compare`.
import steersman.steering as _steering

for _name in _steering.__all__:
    globals().setdefault(_name, getattr(_steering, _name))
"""


@dataclass(frozen=True)
class Arm:
    """One way to run the workflow.

    Args:
        steer: arguments of `wf.steer`, as text; OWN keeps the file's.
        assignments: `key=value` of the parameters that vary.
        guided: it steers to a known target.
        workers: slots for walkers, if their number varies.
    """

    steer: str
    assignments: tuple[str, ...] = ()
    guided: bool = False
    workers: int | None = None

    @property
    def label(self) -> str:
        return ", ".join([self.steer or "as written", *self.varied])

    @property
    def marked(self) -> str:
        """The label, with the mark of what steers to a known target."""
        return self.label + (" (guided)" if self.guided else "")

    @property
    def varied(self) -> tuple[str, ...]:
        """`key=value` of all that varies; arms that share it differ in their steering alone."""
        return (*self.assignments, f"{WORKERS}={self.workers}") if self.workers else self.assignments

    @property
    def slug(self) -> str:
        """A name for folders, of each arm another: bias=-1 and bias=1 read alike in front of the hash."""
        words = re.sub(r"[^A-Za-z0-9.]+", "-", self.label).strip("-")
        return f"{words[:100]}-{hashlib.sha256(self.label.encode()).hexdigest()[:8]}"

    @property
    def plain(self) -> bool:
        return self.steer == PLAIN


def arms(
    workflow: Workflow,
    policies: Sequence[str],
    vary: Mapping[str, Sequence[str]],
    own: Callable[[Sequence[str]], Steering] | None = None,
) -> list[Arm]:
    """The arms of a comparison: plain sampling, random restarts, and what was asked for, with all varied parameters.

    A workflow that draws makes a new member of every start, and one that biases continues every end: they have no
    restarts to compare with.

    Args:
        policies: arguments of `wf.steer`, e.g. 'Novelty("z"), explore=0.2'; none: that of the file.
        vary: parameter, or "workers" -> its values, as text.
        own: `key=value` of an arm -> how the file steers then; None: with the defaults and these.
    Raises: BadValue, UnknownName: one is no policy, or no number of workers.
    """
    names = vars(sys.modules[MODULE])
    own = own or (lambda words: workflow.steering_rule(loading.parameters(workflow, None, words)))
    written = workflow.steering or own(())
    draws = workflow.held_out_function or written.policy.draws
    continues = written.continues and not policies
    base = [PLAIN] if draws or continues else [PLAIN, RANDOM]
    file = [] if workflow.steering == parse(PLAIN, names) else [OWN]
    texts = list(dict.fromkeys([*base, *(text.strip() for text in policies or file)]))
    parsed = []
    for values in itertools.product(*vary.values()):
        varied = dict(zip(vary, values, strict=True))
        workers = _count(varied.pop(WORKERS)) if WORKERS in varied else None
        assignments = tuple(f"{key}={value}" for key, value in varied.items())
        for text in texts:
            arm = Arm(text, assignments, workers=workers)
            parsed.append(replace(arm, guided=steering_of(arm, partial(own, assignments)).guided))
    return parsed


def _count(text: str) -> int:
    if not text.strip().isdigit() or not int(text):
        raise BadValue("--vary", f"{WORKERS}={text}", "a number of slots is 1 or more")
    return int(text)


def steering_of(arm: Arm, own: Callable[[], Steering]) -> Steering:
    """Args: own: how the file steers with its parameters."""
    return parse(arm.steer, vars(sys.modules[MODULE])) if arm.steer else own()


def check_needs(arms: Mapping[Arm, Steering], known: Sequence[str]) -> None:
    """Compare what arms need with the names of the scores that there are.

    Raises: BadValue: an arm needs another one.
    """
    for arm, steering in arms.items():
        if missing := [name for name in steering.needs if name not in known]:
            there = f"the score stage returns: {', '.join(sorted(known))}" if known else "there is no @wf.score"
            raise BadValue("--policy", arm.label, f"it needs the score {missing[0]!r}, but {there}")


def budget_of(option: str, text: str) -> dict[str, float]:
    """sim_ns=4 -> the budget; no text is none. Raises: BadValue: it is none."""
    if not text:
        return {}
    key, _, value = text.partition("=")
    try:
        return dict(budget(**{key.strip(): float(value)}).limits)
    except ValueError as error:
        raise BadValue(option, text, f"{error}; write e.g. frames=10000 or sim_ns=4") from None


def expect_amount(rule: StopRule) -> None:
    """Raises: BadValue: a clock alone ends campaigns, which are compared when they have simulated as much."""
    counted = {name for each in rule.either for name in (each.limits if isinstance(each, Budget) else ("goal",))}
    if counted and counted <= {"hours", "gpu_hours"}:
        words = "campaigns are compared when they have simulated as much; give frames=, sim_ns= or sim_days="
        raise BadValue("--budget", str(rule), words)


def variant(source: Path, arm: Arm, limits: Mapping[str, float]) -> bytes:
    """A workflow file, as it is, that steers as an arm does, and ends with the loop, at the budget."""
    module: dict[str, Any] = vars(sys.modules[MODULE])
    name, workflow = next((name, value) for name, value in module.items() if isinstance(value, Workflow))
    text = APPENDED + (f"{name}.steer({arm.steer})\n" if arm.steer else "")
    text += f"{name}.stop = _steering.budget(**{dict(limits)!r})\n" if limits else ""
    text += f"{name}.after_plan = None\n" if workflow.after_plan else ""
    with source.open("rb") as file:
        encoding = tokenize.detect_encoding(file.readline)[0].removesuffix("-sig")  # the mark stays in front alone
    return source.read_bytes() + text.encode(encoding)
