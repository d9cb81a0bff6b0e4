"""The decorators of a workflow."""

import pytest

from steersman.stages.workflow import Workflow, every
from steersman.steering import budget

BODY = {
    "prepare": "def f(p): return 7",
    "simulate": "def f(p, start, out): return 7",
    "score": "def f(p, model, frames): return 7",
    "metric": "def f(scores): return 7",
}


@pytest.mark.parametrize("name", BODY)
@pytest.mark.parametrize("brackets", ["", "()"])
def test_brackets_that_hold_nothing_may_be_left_out(name: str, brackets: str) -> None:
    wf = Workflow("x", stop=budget(frames=1))
    found = {"wf": wf}
    exec(f"@wf.{name}{brackets}\n{BODY[name]}", found)
    given = (wf.prepare_function, wf.simulation, wf.scoring, wf.metrics)
    assert sum(map(bool, given)) == 1
    assert callable(found["f"]), "it stays what it was"
    with pytest.raises(TypeError, match=f"@wf.{name}"):
        exec(f"@wf.{name}{brackets}\ndef f(): pass", found)


@pytest.mark.parametrize(
    ("words", "cure"),
    [("wf.train", r"@wf\.train\(when="), ("wf.train()", r"@wf\.train\(when="), ("wf.figure", r'@wf\.figure\("')],
)
def test_a_decorator_that_needs_words_names_them(words: str, cure: str) -> None:
    with pytest.raises(TypeError, match=cure):
        exec(f"@{words}\ndef f(p, frames, last): pass", {"wf": Workflow("x", stop=budget(frames=1)), "every": every})
