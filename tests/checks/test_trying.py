"""Each mistake that a workflow file may hold is found in this process, with the line that made it."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from steersman import Out, Params, Workflow, budget, every
from steersman.checks import sizes
from steersman.checks.plan import check_plan
from steersman.checks.trying import Step, score_names, tried
from steersman.cli.__main__ import main
from steersman.engine.campaign import plan
from steersman.stages import loading
from steersman.stages.errors import BadWorkflow, BadYardstick
from steersman.stages.kinds import KINDS
from steersman.system.errors import BadInput

SOUND = {
    "head": """
        import numpy as np
        from steersman import Params, Workflow, budget, every, models
        from steersman.steering import *
        from steersman.steering import Candidate
        from steersman.store import Variable
        from helper import noise

        class P(Params):
            frames: int = 400

        wf = Workflow("mine", P, stop=lambda p: budget(frames=p.frames))

        @wf.task
        def energy(i): return i
        """,
    "prepare": """
        @wf.prepare
        def prepare(p): return {"x": np.zeros(2)}
        """,
    "simulate": """
        @wf.simulate
        def simulate(p, start, out):
            rng = np.random.default_rng(out.seed)
            x = np.array(start.frame.get("x", start.prepared["x"]))
            for step in range(30):
                x += noise(rng)
                out.append(time=float(step), x=x)
                if out.stopped: break
            out.state(x_state=x)
        """,
    "train": """
        @wf.train(when=every(frames=100))
        def fit(p, frames, last): return models.PCA.fit(frames["x"], latent=1)
        """,
    "score": """
        @wf.score
        def score(p, model, frames):
            z, error = model.encode(frames["x"])
            return {"z": z, "error": error}
        """,
    "steer": """
        wf.steer(Novelty("z"), explore=0.1, prune=Redundant("z", patience=5, crowd=1))
        """,
    "metric": """
        @wf.metric
        def far(scores): return scores.values["z"].max()
        """,
    "figure": """
        @wf.figure("where")
        def where(p, results):
            from matplotlib.figure import Figure
            figure = Figure()
            figure.subplots().plot(results.scores.values["z"], results.held_out["x"][:, 0])
            results.frame(0), results.model.encode(results.held_out["x"])
            return figure, "it went there"
        """,
    "panel": """
        @wf.panel("numbers")
        def numbers(p, results): return results.scores.values["z"], "as an array"
        """,
}
WriteMine = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteMine:
    """Write a workflow file with some of its stages replaced, and a module beside it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "helper", raising=False)

    def write(**stages: str) -> Path:
        (tmp_path / "helper.py").write_text("def noise(rng): return rng.normal(size=2)\n")
        (tmp_path / "mine.py").write_text("".join(textwrap.dedent(text) for text in (SOUND | stages).values()))
        return tmp_path / "mine.py"

    return write


def steps(source: Path, *assignments: str) -> dict[str, Step]:
    workflow = loading.load(source)
    return {step.what: step for step in tried(workflow, loading.parameters(workflow, None, assignments), source)}


def test_a_sound_workflow_passes_in_every_stage(write: WriteMine) -> None:
    """A segment is also run from a chosen frame, a model also trained from the last."""
    found = steps(write())
    assert [name for name, step in found.items() if not step.ok] == []
    assert list(found) == [
        "prepare", "simulate", "train", "score", "steer", "prune", "simulate from there", "train again", "metric far",
        "figure where", "panel numbers",
    ]  # fmt: skip
    assert found["simulate"].found.startswith("25 frames of time float64 (), x float64 (2,)")
    assert "redundant" in found["prune"].found


@pytest.mark.parametrize(
    ("error", "ok"),
    [("abs(model.encode(frame['x'][None])[1][0] - answer['y'][0])", True), ("None", False), ("np.nan", False),
     ("frame['nothing']", False)],
)  # fmt: skip
def test_the_error_of_a_model_about_a_label_is_tried(error: str, ok: bool, write: WriteMine) -> None:
    label = f"""
        def wrong(model, frame, answer): return {error}

        @wf.label(error=wrong)
        def label(p, frame): return {{"y": frame["x"]}}
        """
    found = steps(write(prepare=textwrap.dedent(SOUND["prepare"]) + textwrap.dedent(label)))
    assert [name for name, step in found.items() if not step.ok] == ([] if ok else ["label, error of the model"])


def test_a_model_that_a_bar_keeps_out_is_said_not_to_be_used(write: WriteMine) -> None:
    found = steps(write(train=HEADS["train"].replace("9)", "9), most=-1.0") + FIT))
    assert "not used" in found["train"].found
    assert "not used" in found["train again"].found


def test_every_kind_of_stage_is_tried(write: WriteMine) -> None:
    """But a task by itself, which plans call. An estimate of too few frames is no mistake."""
    more = """
        @wf.metric
        def rate(scores):
            from steersman.steering import averages, mean_of_rounds
            return mean_of_rounds(averages(scores, scores.values["error"])).value
        @wf.label
        def label(p, frame): return {"y": frame["x"]}
        @wf.before
        def before(p): return {"x": np.zeros(2)}
        @wf.held_out
        def held_out(p): return {"point": np.zeros((1, 2))}
        @wf.yardstick
        def cells(p, frames): return frames["x"]
        @wf.after
        def after(p, run): return 7
        """
    found = steps(write(prepare="", steer=SOUND["steer"] + more))
    assert [name for name, step in found.items() if not step.ok] == []
    assert KINDS.keys() - {name.split()[0] for name in found} == {
        "prepare",
        "task",
        "answer",
    }  # by prepare, or by simulate
    assert found["metric rate"].found.startswith("no value yet")


@pytest.mark.parametrize(("body", "names"), [("return {'a': frames['x']}", ["a"]), ("return {'a': frames['y']}", None)])
def test_names_of_scores_are_known_if_all_stages_up_to_the_score_work(
    body: str, names: list[str] | None, write: WriteMine
) -> None:
    """What steers may need others: that is not tried."""
    source = write(score=f"\n{HEADS['score']}\n    {body}\n", steer="\nwf.steer(Novelty('z'))\n")
    workflow = loading.load(source)
    assert score_names(workflow, workflow.params(), source) == names


@pytest.mark.parametrize("early", [True, False])
def test_a_score_that_is_asked_for_before_there_is_a_model_is_tried_without_one(early: bool, write: WriteMine) -> None:
    source = write(score=SOUND["score"].replace("@wf.score", f"@wf.score(early={early})"))
    found = steps(source)
    assert [name for name, step in found.items() if not step.ok] == ["score, before there is a model"] * early
    assert all("encode" in step.found for step in found.values() if not step.ok)
    workflow = loading.load(source)
    assert score_names(workflow, workflow.params(), source) == ["z", "error"]


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        ("frames['y']", "MissingVariable"),
        ("frames['x'][1:]", "BadYardstick"),
        ("frames['x'] * float('nan')", "BadYardstick"),
    ],
)
def test_a_yardstick_that_does_not_work_is_said_before_the_runs_that_it_judges(
    gives: str, said: str, write: WriteMine
) -> None:
    source = write(steer=f"\n@wf.yardstick()\ndef cells(p, frames):\n    return {gives}\n")
    workflow = loading.load(source)
    found = steps(source)["yardstick cells"]
    assert not found.ok
    assert said in found.found
    with pytest.raises(BadInput) as told:
        score_names(workflow, workflow.params(), source)
    if isinstance(told.value, BadWorkflow):
        assert told.value.line == source.read_text().splitlines().index(f"    return {gives}") + 1
    else:
        assert isinstance(told.value, BadYardstick)


POOL = """
    import multiprocessing

    def square(x):
        if x == {bad}: raise ZeroDivisionError("of a child")
        return x * x

    @wf.simulate
    def simulate(p, start, out):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            for x in pool.map(square, range(3)): out.append(time=float(x), x=np.ones(2) * x)
    """
HEADS = {
    "prepare": "@wf.prepare\ndef prepare(p):",
    "simulate": "@wf.simulate\ndef simulate(p, start, out):",
    "train": "@wf.train(when=every(frames=9))\ndef fit(p, frames, last):",
    "score": "@wf.score\ndef score(p, model, frames):",
    "metric": "@wf.metric\ndef far(scores):",
    "figure": "@wf.figure('t')\ndef where(p, results):",
    "panel": "@wf.panel('t')\ndef numbers(p, results):",
}
FIT = "return models.PCA.fit(frames['x'], latent=1)"
FORGETFUL = f"{FIT.replace('return', 'm =')}; a = m.encode; m.encode = lambda x: (-a(x)[0], a(x)[1]); return m"
ELSE = "return {'z': frames['x'] if len(frames['x']) > 1 else frames['x'][:, 0]}"
LATER = "score.calls = getattr(score, 'calls', 0) + 1; assert score.calls < 3; return {'z': frames['x'][:, 0]}"
THERE = "for t in range(9): out.append(time=t, x=np.zeros(3 if start.frame else 2) + t)"
AT_ONCE = "def simulate(p, start, out):\n    out.append(x=np.zeros(2))\n"
RANK = "class Mine(Policy):\n    def rank(self, scores, rng):\n        return {}\nwf.steer(Mine())\n"
JUDGE = "class Mine(SegmentRule):\n    def reason(self, scores, rows):\n        return rows[99]\n"
MISTAKES = [  # the step that fails, the stage that is replaced, by what, the line that is shown, words of the error
    ("prepare", "prepare", "return lambda: 1", "in prepare", "local object"),
    ("simulate", "simulate", "1 / 0", "1 / 0", "ZeroDivisionError"),
    ("simulate", "simulate", "exit(3)", "exit(3)", "SystemExit: 3"),
    ("simulate", "simulate", "pass", "in simulate", "out.append("),
    ("simulate", "simulate", "out.append(x=np.nan)", "out.append(x=np.nan)", "not finite"),
    ("simulate", "simulate", "out.append(x=1.0); out.append(y=1.0)", "out.append(y=1.0)", "BadVariable"),
    ("simulate", "simulate", "out.append(x=1.0); out.append(x=[1., 2.])", "out.append(x=[1", "BadVariable"),
    ("simulate", "simulate", POOL.format(bad=2), "pool.map(square", "in square"),
    ("simulate", "simulate", "x = start.frame['x']", "start.frame['x']", "MissingVariable"),
    (
        "simulate",
        "simulate",
        "@wf.simulate(variables={'x': Variable(('site', 'xyz'))})\n" + AT_ONCE,
        "out.append",
        "(2,), but",
    ),
    ("simulate from there", "simulate", THERE, "out.append(time", "float64 (3,) came"),
    ("simulate", "simulate", "energy.later(1)", "energy.later(1)", "is for @wf.before and @wf.after"),
    ("metric far", "metric", "energy.later(1)", "energy.later(1)", "is for @wf.before and @wf.after"),
    ("train", "train", "frames['y']", "frames['y']", "MissingVariable"),
    ("train", "train", "return 3", "in fit", "int; it returns a Model"),
    ("train again", "train", f"assert last is None; {FIT}", "assert last is None", "AssertionError"),
    ("train again", "train", HEADS["train"].replace("9)", "9), gate='eror'") + FIT, "in fit", "did you mean 'error'"),
    ("train again", "score", LATER, "assert score.calls < 3", "AssertionError"),
    ("train again", "train", FORGETFUL, "in fit", "score 'z'"),
    ("score", "score", "return {'z': model.latent}", "model.latent", "AttributeError"),
    ("score", "score", "return {'z': 1.0}", "in score", "its shape is () for 25"),
    ("score", "score", "return {'z': frames['x'][1:]}", "in score", "(24, 2) for 25"),
    ("score", "score", "return {'z': frames['x'] * np.nan}", "in score", "not finite"),
    ("score", "score", "return frames['x']", "in score", "ndarray"),
    ("score", "score", ELSE, "in score", "BadScores"),
    ("steer", "steer", "wf.steer(Novelty('zz'))", "", "no score for Novelty 'zz'; did you mean 'z'? Valid: error, z"),
    ("steer", "steer", "wf.steer(Novelty('z'), fallback=LeastCounts('eror'))", "", "did you mean 'error'"),
    ("steer", "steer", RANK.format("scores.values['q']"), "scores.values['q']", "KeyError: 'q'"),
    ("steer", "steer", RANK.format("[Candidate(99, 'Mine', 0.0, '')]"), "", "proposed frame 99 of 25"),
    ("prune", "steer", "wf.steer(Random(), prune=Hopeless('distanc'))", "", "no score for Hopeless 'distanc'"),
    ("prune", "steer", JUDGE + "wf.steer(Random(), prune=Mine())", "rows[99]", "IndexError"),
    ("metric far", "metric", "return scores.values['w'].max()", "scores.values['w']", "KeyError: 'w'"),
    ("metric far", "metric", "return scores.values['z']", "in far", "a metric returns one number"),
    ("figure where", "figure", "1 / 0", "1 / 0", "ZeroDivisionError"),
    ("figure where", "figure", "return 7", "in where", "it returned 7"),
    ("panel numbers", "panel", "results.scores.values['w']", "results.scores.values['w']", "KeyError: 'w'"),
    ("panel numbers", "panel", "return np.ones((2, 2, 2)), 'cube'", "in numbers", "of shape (2, 2, 2)"),
    ("panel numbers", "panel", "return {'z': 1}", "in numbers", "it returned {'z': 1}"),
]


PUSHED = {
    "simulate": """
        @wf.simulate
        def simulate(p, start, out):
            assert (start.model is None) == ("x" not in start.frame), "with a model once there is one"
            rng = np.random.default_rng(out.seed)
            x = np.array(start.frame.get("x", start.prepared["x"]))
            for step in range(30):
                push = start.bias.gradient(x[0]) if start.bias else 0.0
                x += 0.1 * noise(rng) - 0.01 * np.array([push, 0.0])
                out.append(x=x, bias=float(start.bias.energy(x[0])) if start.bias else 0.0)
                if out.stopped: break
        """,
    "score": """
        @wf.score
        def score(p, model, frames): return {"z": frames["x"][:, 0], "bias": frames["bias"]}
        """,
    "steer": """
        wf.steer(bias=Opes("z", barrier_kT=8))
        """,
}
UNDER = "simulate from there, pushed"


def scored(text: str) -> dict[str, str]:
    return {"score": f"\n{HEADS['score']}\n    return {{{text}}}\n"}


@pytest.mark.parametrize(
    ("step", "stages", "words"),
    [
        ("", {}, ""),
        ("bias", {"steer": "\nwf.steer(bias=Opes('zz', barrier_kT=8))\n"}, "needs the score 'zz'"),
        ("bias", scored("'z': frames['x'][:, 0]"), "needs the score 'bias': let simulate store"),
        ("bias", scored("'z': np.ones((len(frames['x']), 4)), 'bias': frames['bias']"), "of 4 dimensions"),
        ("bias", scored("'z': np.ones(len(frames['x'])), 'bias': frames['bias']"), "the same from frame to frame"),
        (UNDER, {"simulate": PUSHED["simulate"].replace("if start.bias else", "if False else")}, "start.bias.energy"),
        (UNDER, {"simulate": PUSHED["simulate"].replace("bias=float", "bias=2.494 * float")}, "start.bias.energy"),
    ],
)
def test_what_is_wrong_with_a_bias_is_found_before_a_run(
    step: str, stages: dict[str, str], words: str, write: WriteMine
) -> None:
    """Also one that is not looked at, or whose energy is stored in other units: nothing else would say so."""
    found = steps(write(**PUSHED | stages, figure="", panel=""))
    assert [name for name, each in found.items() if not each.ok][:1] == ([step] if step else [])
    assert not step or words in found[step].found
    assert step == "bias" or "kernels" in found["bias"].found


@pytest.mark.parametrize("barrier_kT", [0, 1000])
def test_a_barrier_that_is_none_is_refused_with_its_line_when_the_file_is_read(
    barrier_kT: float, write: WriteMine
) -> None:
    source = write(**PUSHED | {"steer": f"\nwf.steer(bias=Opes('z', barrier_kT={barrier_kT}))\n"})
    with pytest.raises(BadWorkflow) as refused:
        loading.load(source)
    assert refused.value.line == 1 + source.read_text().splitlines().index(
        f"wf.steer(bias=Opes('z', barrier_kT={barrier_kT}))"
    )


@pytest.mark.parametrize(("step", "stage", "text", "line", "words"), MISTAKES)
def test_a_mistake_is_found_in_its_stage_with_the_line_that_made_it(
    step: str, stage: str, text: str, line: str, words: str, write: WriteMine
) -> None:
    whole = text.lstrip().startswith(("wf.", "class", "@wf.", "import"))
    source = write(
        **{stage: f"\n{text}\n" if whole else f"\n{HEADS[stage]}\n    {text.replace('; ', chr(10) + '    ')}\n"}
    )
    wrong = [tried for tried in steps(source).values() if not tried.ok]
    assert wrong[0].what == step
    assert words in wrong[0].found
    assert line in wrong[0].found
    assert not line or str(source) in wrong[0].found
    assert "checks/trying.py" not in wrong[0].found, "the lines are the user's, not ours"


BEGINS = {  # how a segment begins -> words of the step "simulate", what is wrong, whether starts are at ends alone
    "at its frame": ("start.frame.get('x', ZERO)", "", "", False),
    "at its state": ("start.state.get('x', ZERO)", "start.frame was never read: segments begin at the pre", "", True),
    "at its state, as it says": ("start.state.get('x', ZERO)", "", "", True),
    "at neither": ("ZERO", "start.frame was never read: segments begin at the prepared start", "", True),
    "at its state, of any frame": ("start.state['x'] if start.frame else ZERO", "", "KeyError: 'x'", False),
}


@pytest.mark.parametrize("begins", BEGINS)
@pytest.mark.parametrize("policy", ["Novelty('x')", "Frontier(Novelty('x'))"])
def test_what_a_segment_never_reads_is_said_and_one_is_run_from_a_frame_without_a_state(
    begins: str, policy: str, write: WriteMine
) -> None:
    """As after the loss of a walker. A workflow that needs states, as it says or as is seen, gets them."""
    where, said, wrong, ends_alone = BEGINS[begins]
    exact = "exact=True" if "says" in begins else ""
    frames = f"for x in {where} + np.arange(1, 9)[:, None]: out.append(x=x)"
    body = f"ZERO = np.zeros(2) * out.seed\n    {frames}\n    out.state(x=x)\n"
    source = write(
        simulate=f"\n@wf.simulate({exact})\ndef simulate(p, start, out):\n    {body}", train="", figure="", panel="",
        metric="", score="\n@wf.score\ndef score(p, model, frames): return {'x': frames['x']}\n",
        steer=f"\nwf.steer({policy})\n",
    )  # fmt: skip
    found = steps(source)
    assert (said or "; ok") in found["simulate"].found + "; ok"
    assert bool(said) == ("never read" in found["simulate"].found)
    unread = begins == "at neither" or (begins == "at its frame" and "Frontier" in policy)
    assert ("start.state was never read" in found["simulate from there"].found) == unread
    without = found.get("simulate from a frame without a state", found["simulate from there"])
    assert ("not tried" in without.found) == ends_alone
    assert (without.ok, wrong in without.found) == (not wrong, True)


RANDOM = {  # what a segment draws -> whether segments that begin alike differ
    "np.random.default_rng(0).normal()": False,
    "np.random.default_rng(out.seed).normal()": True,
    "np.random.default_rng(out.seed31).normal()": True,
    "np.random.normal()": True,
    "random.gauss(0, 1)": True,
    "torch.randn(()).item()": True,
}


@pytest.mark.parametrize("drawn", RANDOM)
def test_it_says_when_segments_that_begin_alike_are_the_same(drawn: str, write: WriteMine) -> None:
    """Python's, numpy's and torch's own generators are given the seed of the segment before it begins."""
    source = write(
        simulate=f"""
import random
import torch

@wf.simulate
def simulate(p, start, out):
    for _ in range(8): out.append(x=np.ones(2) * {drawn})
"""
    )
    assert ("out.seed was never read" in steps(source)["simulate"].found) != RANDOM[drawn]


def test_a_module_beside_the_file_is_shown_with_its_line(write: WriteMine) -> None:
    source = write()
    (source.parent / "helper.py").write_text("def noise(rng):\n    return rng.nothing()\n")
    assert 'helper.py", line 2, in noise' in steps(source)["simulate"].found


@pytest.mark.slow
def test_a_stage_may_use_a_pool_that_is_spawned(write: WriteMine) -> None:
    assert steps(write(simulate=POOL.format(bad=9)))["simulate"].ok


@pytest.mark.parametrize("changed", [False, True])
def test_a_segment_that_changes_what_was_prepared_is_told(changed: bool, write: WriteMine) -> None:
    """Nothing would fail: the first segments would begin at other places than the one that was prepared."""
    x = "start.frame.get('x', start.prepared['x'])"
    begins = x if changed else f"np.array({x})"
    body = f"    x = {begins}\n    for t in range(9):\n        x += 1\n        out.append(x=x)\n"
    source = write(simulate=f"{HEADS['simulate']}\n{body}")
    assert ("changed start.prepared" in steps(source)["simulate"].found) is changed


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("out.append(x=1.0)", "without a look at out.stopped"),
        ("try: out.append(x=1.0)\n        except Exception: continue", "without a look at out.stopped"),
        ("out.append(x=1.0); out.stopped", "looked at out.stopped and went on"),
    ],
)
def test_a_segment_that_goes_on_though_it_was_stopped_ends(body: str, said: str, write: WriteMine) -> None:
    source = write(simulate=f"@wf.simulate\ndef simulate(p, start, out):\n    while True:\n        {body}")
    found = steps(source)["simulate"]
    assert found.ok
    assert said in found.found


@pytest.mark.parametrize("body", ["if out.stopped: break", "pass"])
def test_large_frames_are_few(body: str, write: WriteMine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are in memory, which 25 frames of a gigabyte would fill."""
    monkeypatch.setattr("steersman.stages.out.MOST_BYTES", 10_000)
    loop = f"    while True:\n        out.append(x=np.zeros(1000))\n        {body}"
    found = steps(write(simulate=f"@wf.simulate\ndef simulate(p, start, out):\n{loop}"))["simulate"]
    assert found.found.startswith("2 frames of" if "stopped" in body else "3 frames of")


def test_a_run_begins_with_what_is_held_out_and_so_does_the_trial(write: WriteMine) -> None:
    draws = "@wf.held_out\ndef held_out(p): return {'point': np.zeros(5)}\n"
    point = HEADS["simulate"] + "\n    out.append(x=start.point(2, out.seed))\n"
    wrong = [step for step in steps(write(prepare=draws, simulate=point)).values() if not step.ok]
    assert wrong[0].what == "simulate"
    assert "start.point(" in wrong[0].found


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "code"), [({}, 0), ({"metric": "@wf.metric\ndef far(scores): return 1 / 0\n"}, 2)])
@pytest.mark.parametrize("words", [["try"], ["check", "--try"], ["check", "--try", "--json"]])
def test_the_exit_code_says_whether_all_stages_work(
    words: list[str], stages: dict[str, str], code: int, write: WriteMine,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """And the line of the error is said. Standard output is this verb's alone, whatever a stage prints."""
    prepare = "@wf.prepare\ndef prepare(p):\n    print('noise')\n    return {'x': np.zeros(2)}\n"
    source = write(**stages | {"prepare": prepare + ("print('noise')\n" if "--json" in words else "")})
    monkeypatch.chdir(source.parent)
    monkeypatch.setattr(sys, "argv", ["steersman", *words, "mine.py"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code or 0) == code
    assert "noise" in said.err
    assert "noise" not in said.out
    if code:
        wrong = 1 + source.read_text().splitlines().index("def far(scores): return 1 / 0")
        assert f"line {wrong}, in far" in said.out
    if "--json" in words:
        found = json.loads(said.out)
        assert all(each["ok"] for each in found["checks"] + found["stages"]) == (code == 0)
    assert sorted(path.name for path in source.parent.iterdir() if path.name != "__pycache__") == [
        "helper.py",
        "mine.py",
    ]


@pytest.mark.parametrize(
    ("side", "said"), [(100, "78.2 KiB"), (1024, "8 MiB, the budget of 400 frames up to 3.13 GiB")]
)
def test_the_size_of_frames_is_said(side: int, said: str, write: WriteMine) -> None:
    frame = f"out.append(time=0., x=np.zeros(2), big=np.zeros(({side}, {side})))"
    found = steps(write(simulate=f"@wf.simulate()\ndef simulate(p, start, out): {frame}\n"))["simulate"]
    assert found.ok
    assert f"frame takes {said}" in found.found


def test_a_budget_that_the_disk_and_a_window_that_the_memory_cannot_hold_are_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """8 MiB a frame: 10,000 are 78 GiB."""
    free, memory = 50 * 2**30, 64 * 2**30
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=memory))
    out = Out(1)
    for _ in range(2):
        out.append(x=np.zeros((1024, 1024)))
    workflow = Workflow("mine", stop=budget(frames=10_000))
    workflow.train(when=every(frames=10), window=20_000)(lambda p, frames, last: None)
    words = sizes.in_words(out, workflow, Params())
    assert "8 MiB" in words
    assert "50 GiB are free" in words
    assert "10,000 frames 78.1 GiB" in words
    free, memory = 2**50, 2**50
    assert "free" not in sizes.in_words(out, workflow, Params())


@pytest.mark.parametrize(("time", "said"), [("1.8e9 + 0.01 * out.frames", True), ("1.0 + out.frames", False)])
def test_time_of_a_clock_is_told(time: str, said: bool, write: WriteMine) -> None:
    """It counts from the segment's start: seconds since 1970 would be summed over segments."""
    source = write(
        simulate=f"""
@wf.simulate
def simulate(p, start, out):
    for _ in range(8): out.append(x=np.random.default_rng(out.seed).normal(size=2), time={time})
"""
    )
    assert ("first frame is at time" in steps(source)["simulate"].found) == said


def test_a_training_gets_segments_as_long_as_it_takes(write: WriteMine) -> None:
    """Those of a run end where they do: 40 frames have pairs that are 30 apart, and 25 have none."""
    source = write(
        simulate="""
@wf.simulate
def simulate(p, start, out):
    for x in np.random.default_rng(out.seed).normal(size=(40, 2)).cumsum(0): out.append(x=x)
""",
        train="""
@wf.train(when=every(frames=100))
def fit(p, frames, last): return models.TICA.fit(frames["x"], frames.lagged(30), latent=1)
""",
    )
    assert steps(source)["train"].ok


@pytest.mark.parametrize(("first", "window", "numbers"), [(60, 900, "40 54"), (40, 900, "40 36"), (60, 30, "40 30")])
def test_how_many_frames_its_ranks_need_is_told_before_a_run(
    write: WriteMine, first: int, window: int, numbers: str
) -> None:
    """A tenth of the frames is held out. Both say it: `check` that ranks may be fewer, `try` until when."""
    source = write(
        train=f"""
@wf.train(when=every(frames={first}), ranks=2, strategy="ddp", window={window})
def fit(p, frames, last): return models.Autoencoder.fit(frames["x"], latent=1, epochs=1, batch=20)
"""
    )
    needed, first_on = numbers.split()
    said = steps(source)["train"].found
    enough = int(first_on) >= int(needed)
    assert (f"{needed} frames" in said and f"about {first_on}" in said) != enough
    told = {each.what: each.found for each in check_plan(plan(str(source)))}["training when"]
    assert "2 ranks" in told
