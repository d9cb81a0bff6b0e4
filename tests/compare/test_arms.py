"""An arm's files: as the workflow file but for what differs, in folders of their own."""

from pathlib import Path

import pytest

from steersman.compare.arms import Arm, arms, variant
from steersman.stages import loading

TEXT = """from steersman import Workflow, budget
place = "Ångström"
wf = Workflow("toy", stop=budget(frames=20))
wf.simulate()(lambda p, start, out: None)
"""


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
