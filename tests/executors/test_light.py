"""A run's own processes import of Parsl what they use; user code in a worker finds it whole."""

import os
import subprocess
import sys

import pytest

HEAVY = "sqlalchemy", "globus_compute_sdk", "torch", "pandas", "matplotlib"


def said(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_what_workers_are_forked_from_has_imported_nothing_that_most_do_not_use() -> None:
    code = f"import sys, steersman.worker.warm; print([name for name in {HEAVY} if name in sys.modules])"
    assert said(code) == "[]"


@pytest.mark.slow
def test_what_a_stage_starts_finds_the_modules_beside_it() -> None:
    assert said("import os, steersman.worker.warm; print('PYTHONSAFEPATH' in os.environ)") == "False"


@pytest.mark.slow
def test_user_code_in_a_worker_finds_parsl_whole_and_errors_are_the_same_class() -> None:
    first = "import steersman.worker.warm; from parsl.executors.high_throughput.errors import WorkerLost as before"
    for line in (
        "import parsl; parsl.python_app",
        "from parsl.config import Config",
        "from parsl.executors import GlobusComputeExecutor, HighThroughputExecutor",
        "from parsl.monitoring import MonitoringHub",
        "import parsl.providers.slurm.slurm",
    ):
        later = "import parsl, parsl.executors.high_throughput.errors as now; print(now.WorkerLost is before)"
        assert said(f"{first}\n{line}\n{later}; assert parsl.dfk and parsl.executors.ThreadPoolExecutor") == "True"


@pytest.mark.slow
def test_parsl_that_is_imported_stays_as_it_is() -> None:
    code = "import parsl, parsl.addresses; import steersman.worker.warm, sys; print(sys.modules['parsl'] is parsl)"
    assert said(f"{code}; from parsl.addresses import tcp_url; import parsl.providers.pbspro.pbspro") == "True"
