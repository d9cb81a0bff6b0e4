"""An arm's files: as the workflow file but for what differs, in folders of their own."""

import json
import subprocess
from pathlib import Path

import pytest

from steersman.analysis.comparison import campaigns
from steersman.analysis.comparison.arms import OWN, PLAIN, RANDOM, Arm, arms, budget_of, expect_amount, variant
from steersman.analysis.comparison.campaigns import Job, run_all
from steersman.analysis.comparison.files import keep_results, write_once
from steersman.analysis.comparison.metric import HeldOutMetric, parse
from steersman.stages import loading
from steersman.stages.workflow import Workflow
from steersman.steering import Steering, budget, reached
from steersman.system.errors import BadInput, BadValue, EngineError

WELLS = Path(loading.__file__).parents[1] / "workflows" / "reference" / "wells.py"

TEXT = """from steersman import Workflow, budget
place = "Ångström"
wf = Workflow("toy", stop=budget(frames=20))
wf.simulate()(lambda p, start, out: None)
"""


@pytest.fixture(scope="module")
def wells() -> Workflow:
    return loading.load(WELLS)


def test_no_two_arms_share_a_folder() -> None:
    """Values that differ in their signs alone, or in a blank or a quote."""
    values = ["-1", "1", "+1", "1e-3", "1e+3", "1e3", '"a b"', '"a-b"', "'a b'", "a/b", "a b", ""]
    slugs = [Arm("Unsteered()", (f"bias={value}",)).slug for value in values]
    assert len(set(slugs)) == len(values)
    assert all("/" not in slug and len(slug) < 255 and slug.isascii() for slug in [*slugs, Arm("x" * 1000).slug])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_a_variant_is_the_file_as_it_is_and_what_is_appended(encoding: str, tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_bytes((f"# coding: {encoding.removesuffix('-sig')}\n" + TEXT).encode(encoding))
    workflow = loading.load(source)
    made = variant(source, arms(workflow, [], {})[0], {"frames": 7.0})
    assert made.startswith(source.read_bytes())
    (tmp_path / "made.py").write_bytes(made)
    assert str(loading.load(tmp_path / "made.py").stop_rule(workflow.params())) == "budget of 7 frames"


def test_a_variant_ends_with_the_loop_that_is_judged(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text(TEXT + "\n@wf.after\ndef fails(p, run): raise ValueError\n")
    made = variant(source, arms(loading.load(source), [], {})[0], {})
    source.write_bytes(made)
    assert loading.load(source).after_plan is None


def test_a_variant_steers_as_its_arm_whatever_the_file_says(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text(TEXT + "from steersman.steering import Random\nwf.steer(Random())\n")
    made = variant(source, arms(loading.load(source), [], {})[0], {})
    source.write_bytes(made)
    assert loading.load(source).steering == Steering()


@pytest.mark.parametrize("wrong", ["error", "error<", "error<a", "error=0.1", "nothing<0.1"])
def test_a_metric_to_compare_by_names_the_levels_to_reach(wrong: str) -> None:
    diffraction = loading.load(loading.shipped()["diffraction"])
    assert parse("error_rate < 0.2,0.1", diffraction) == HeldOutMetric("error_rate", True, (0.2, 0.1))
    with pytest.raises(BadInput):
        parse(wrong, diffraction)


def test_a_metric_is_compared_only_where_draws_are_held_out(wells: Workflow) -> None:
    with pytest.raises(BadInput):
        parse(f"{next(iter(wells.metrics), 'cells')}>3", wells)


def test_plain_and_random_are_always_in_and_parameters_vary_with_each(wells: Workflow) -> None:
    found = arms(wells, ['Novelty("z"), explore=0.2', 'Target("z")'], {"steps": ["100", "500"]})
    assert len(found) == 2 * 4
    assert [arm.steer for arm in found[:2]] == ["Unsteered()", "Random(), fallback=Random()"]
    assert [arm.guided for arm in found[:4]] == [False, False, False, True]
    assert len({arm.slug for arm in found}) == 8


def test_slots_vary_like_parameters_but_belong_to_the_site(wells: Workflow) -> None:
    found = arms(wells, [], {"workers": ["1", "16"], "steps": ["100"]})
    assert [(arm.workers, arm.assignments) for arm in found] == [(1, ("steps=100",))] * 3 + [(16, ("steps=100",))] * 3
    assert found[0].label == "Unsteered(), steps=100, workers=1"
    for wrong in ("0", "-1", "many", ""):
        with pytest.raises(BadInput):
            arms(wells, [], {"workers": [wrong]})


@pytest.mark.slow
def test_a_workflow_that_biases_is_compared_with_plain_sampling_and_with_restarts_if_policies_are_asked_for() -> None:
    oracle = loading.load(WELLS.with_name("oracle.py"))
    assert [arm.steer for arm in arms(oracle, [], {})] == [PLAIN, OWN]
    assert [arm.steer for arm in arms(oracle, ['Novelty("torsions")'], {})] == [PLAIN, RANDOM, 'Novelty("torsions")']


def test_a_workflow_that_draws_has_no_restarts_to_compare_with() -> None:
    for name in ("shallow_water", "diffraction"):
        assert [arm.steer for arm in arms(loading.load(loading.shipped()[name]), [], {})] == [PLAIN, ""]


def test_a_budget_that_is_none_is_refused() -> None:
    assert budget_of("--budget", "sim_ns=0.5") == {"sim_ns": 0.5}
    assert budget_of("--budget", "") == {}
    for wrong in ("sim_ns", "frames=x", "nights=3", "frames=0"):
        with pytest.raises(BadInput):
            budget_of("--budget", wrong)


def test_campaigns_that_a_clock_ends_are_not_compared_at_what_they_simulated() -> None:
    expect_amount(budget(hours=1) | budget(frames=5))
    expect_amount(reached("x", 1.0) | budget(hours=1))
    for clock in (budget(hours=1), budget(gpu_hours=1) | budget(hours=2)):
        with pytest.raises(BadValue):
            expect_amount(clock)


@pytest.mark.parametrize("code", [0, 1])
def test_a_campaign_that_ends_without_its_end_has_failed(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its process returns; never more than so many run, and those beside it are ended."""
    began: list[subprocess.Popen[bytes]] = []

    def begin(job: Job) -> subprocess.Popen[bytes]:
        assert sum(each.poll() is None for each in began) < 2
        began.append(subprocess.Popen(["sh", "-c", f"exit {code}" if job.seed == 1 else "exec sleep 300"]))
        return began[-1]

    monkeypatch.setattr(campaigns, "started", begin)
    monkeypatch.setattr(campaigns, "LOOK_S", 0.01)
    jobs = [Job(str(tmp_path / f"{seed}"), "x", seed, (), None, {"workers": 1, "rounds": True}) for seed in range(5)]
    with pytest.raises(EngineError) as failed:
        run_all(jobs, beside=2)
    assert failed.value.values["run"] == jobs[1].run
    assert len(began) == 2
    assert all(each.poll() is not None for each in began)


def test_a_folder_holds_one_comparison(tmp_path: Path) -> None:
    write_once(tmp_path / "arm" / "workflow.py", b"one")
    write_once(tmp_path / "arm" / "workflow.py", b"one")
    with pytest.raises(BadValue):
        write_once(tmp_path / "arm" / "workflow.py", b"another")
    assert (tmp_path / "arm" / "workflow.py").read_bytes() == b"one"


def test_results_of_arms_that_are_not_compared_again_are_kept(tmp_path: Path) -> None:
    keep_results(tmp_path, ["a"])
    (tmp_path / "comparison.json").write_text(json.dumps({"rows": [{"arm": "a"}, {"arm": "b"}]}))
    keep_results(tmp_path, ["a", "b", "c"])
    with pytest.raises(BadValue):
        keep_results(tmp_path, ["a", "c"])
