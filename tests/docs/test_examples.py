"""The examples do what they say."""

from pathlib import Path

import numpy as np
import pytest

from examples import exchange
from steersman.checks.trying import tried
from steersman.stages import loading

EXAMPLES = Path(exchange.__file__).parent


def test_two_programs_that_exchange_by_the_tuple_space_do_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit: each waits for the other's newest value."""
    monkeypatch.chdir(tmp_path)
    found = exchange.rod.later(6, 20).result()
    u = np.zeros(14)
    u[-1] = 1.0
    for _ in range(20):
        u[1:-1] = (u[:-2] + u[2:]) / 2
    assert found == u[1:-1].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["groups", "exchange"])
def test_every_stage_of_an_example_works(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    workflow = loading.load(EXAMPLES / f"{name}.py")
    assert [step.found for step in tried(workflow, workflow.params(), EXAMPLES / f"{name}.py") if not step.ok] == []
