"""A site in Parsl's own words: it runs a campaign, and what is wrong with it is told before."""

from __future__ import annotations

from pathlib import Path

import pytest

from steersman.executors.errors import BadSite
from steersman.executors.network import driver_address
from steersman.executors.site_files import load_site
from steersman.journal import file as journal
from steersman.journal.state import State
from tests.engine.conftest import steersman

MINE = """
from parsl.config import Config
from parsl.executors import HighThroughputExecutor, ThreadPoolExecutor
from parsl.providers import LocalProvider, SlurmProvider

def executor(label, workers, provider=LocalProvider, address="127.0.0.1"):
    given = {"provider": provider(init_blocks=1, max_blocks=1), "address": address, "cores_per_worker": 0.1}
    return HighThroughputExecutor(label=label, max_workers_per_node=workers, **given)

def config(run):
    executors = [executor("simulation", 2), executor("training", 1), ThreadPoolExecutor("scoring", 1)]
    return Config(executors=executors, strategy="simple", strategy_period=3600)
"""


@pytest.mark.slow
def test_a_campaign_runs_on_the_executors_of_a_python_file(tmp_path: Path) -> None:
    """Its slots are counted from them, and their first blocks do not wait for the period, of an hour."""
    (tmp_path / "mine.py").write_text(MINE)
    words = ["run", "double_well", "--site", "mine.py", "--set", "frames=300", "--seed", 1, "--run-dir", "run"]
    done = steersman(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 slots" in done.stderr
    assert (tmp_path / "run" / "parsl" / "000" / "simulation").is_dir()
    assert State(journal.read(tmp_path / "run" / "journal.jsonl")).scored, "in a thread of the driver"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("x = 1", "config"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("def config(run): 1 / 0", "ZeroDivisionError"),
        ("def config(run): return {}", "returns dict"),
        (
            MINE.replace('"training"', '"train"'),
            "labelled simulation, train, scoring; one with label='training' is needed",
        ),
        (MINE.replace('"simulation", 2', '"simulation", None'), "has no number of workers"),
        (MINE.replace('executor("training", 1)', 'ThreadPoolExecutor("training")'), "is a ThreadPoolExecutor"),
        (
            MINE.replace('ThreadPoolExecutor("scoring", 1)', 'executor("scoring", None)'),
            "'scoring' has no number of workers",
        ),
    ],
)
def test_what_is_wrong_with_a_python_file_is_told(code: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(BadSite) as caught:
        load_site(str(tmp_path / "mine.py"))
    assert told in str(caught.value)


def test_a_python_file_is_not_changed_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    with pytest.raises(BadSite, match=r"simulation.nodes"):
        load_site(str(tmp_path / "mine.py"), {"simulation.nodes": 2})
    with pytest.raises(BadSite, match=r"gone.py: .*No such"):
        load_site(str(tmp_path / "gone.py"))


def test_the_bus_listens_where_the_file_says_workers_reach_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    assert driver_address(load_site(str(tmp_path / "mine.py"))) == "127.0.0.1"
    (tmp_path / "mine.py").write_text(MINE.replace(", 2)", ", 2, SlurmProvider, '10.1.2.3')"))
    assert driver_address(load_site(str(tmp_path / "mine.py"))) == "10.1.2.3"
