"""What may differ between two versions of a workflow file, for a run to go on with the second."""

import pytest

from steersman.stages.versions import differing

FILE = """
import numpy as np
from steersman import Params, Workflow, budget

WIDTH = 0.5
wf = Workflow("mine", stop=budget(frames=10))

def step(x):
    return x + 1

def mean(x):
    return np.mean(x) / WIDTH

@wf.simulate()
def segment(params, start, out):
    out.append(x=step(0.0))

@wf.task
def one(x):
    return mean(x)

@wf.task(retries=1)
def other(x):
    return x

@wf.after
def found(params, run):
    return one(1.0), other(2.0)

if __name__ == "__main__":
    wf.run()
"""


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("(1.0)", "(3.0)", {"found"}),
        ("np.mean(x)", "np.std(x)", {"mean", "one", "found"}),
        ("WIDTH = 0.5", "WIDTH = 0.6", {"WIDTH", "mean", "one", "found"}),
        ("retries=1", "retries=2", {"other", "found"}),
        ("import numpy as np", "import numpy as np, scipy", {"scipy"}),
        ("budget\n", "budget, score  # both\n", {"score"}),
        ("np.mean(x)", "sum(x)", {"mean", "one", "found"}),
        ("\n@wf.after", "\n@wf.figure('a title')\ndef drawn(params, results):\n    ...\n\n@wf.after", {"drawn"}),
        ("wf.run()", "wf.run(seed=1)", set()),
        ("\nWIDTH", "\n\n# how wide\nWIDTH", set()),
    ],
)
def test_what_comes_after_the_loop_may_differ_and_all_that_uses_it_is_told(
    old: str, new: str, changed: set[str]
) -> None:
    assert old in FILE
    assert differing(FILE.encode(), FILE.replace(old, new).encode()) == (set(), changed)


@pytest.mark.parametrize(
    ("old", "new", "loop"),
    [
        ("x + 1", "x + 2", {"step"}),
        ("step(0.0)", "step(0.1)", {"segment"}),
        ("@wf.simulate()", "@wf.simulate(retries=0)", {"segment"}),
        ("frames=10", "frames=11", {"line 6"}),
        ("def mean", "def step(x):\n    return x\n\ndef mean", {"step"}),
        ("def mean", "def budget(frames):\n    return None\n\ndef mean", {"budget"}),
        ("def mean", "step = WIDTH\n\ndef mean", {"step", "WIDTH"}),
        ("def mean", "from other import *\n\ndef mean", {"*"}),
        ("def mean", "np.random.seed(1)\n\ndef mean", {"line 11"}),
        ("@wf.after", "@wf.metric", {"found", "one", "other", "mean", "WIDTH", "np"}),
    ],
)
def test_the_loop_may_not_differ_nor_what_it_names(old: str, new: str, loop: set[str]) -> None:
    told = differing(FILE.encode(), FILE.replace(old, new, 1).encode())
    assert loop <= told[0]
    assert told[1] == set()


WITH_MODULES = FILE.replace("import numpy as np", "import numpy as np\nimport kicks\nfrom plots import draw").replace(
    "x + 1", "x + kicks.one()"
).replace("other(2.0)", "draw(other(2.0))")  # fmt: skip


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ({"plots"}, (set(), {"draw", "found"})),
        ({"kicks"}, ({"kicks"}, set())),
        ({"kicks", "plots"}, ({"kicks"}, set())),
    ],
)
def test_a_module_may_differ_that_the_loop_does_not_name(others: set[str], told: tuple[set[str], set[str]]) -> None:
    assert differing(WITH_MODULES.encode(), WITH_MODULES.encode(), frozenset(others)) == told


def test_a_module_that_is_imported_for_what_it_does_belongs_to_the_loop() -> None:
    text = WITH_MODULES.replace("draw(other(2.0))", "2").encode()
    assert differing(text, text, frozenset({"plots"})) == ({"plots"}, set())
    inside = WITH_MODULES.replace("    return x\n", "    import late\n    return x\n").encode()
    assert differing(inside, inside, frozenset({"late"})) == (set(), {"other", "found"})
