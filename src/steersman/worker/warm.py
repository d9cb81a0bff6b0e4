"""What every worker imports: the workers of a node are forked from one process that has imported it."""

import os

from steersman.executors import light

light.hollow()

import parsl.executors.high_throughput.monitoring_info  # noqa: E402
import parsl.executors.high_throughput.process_worker_pool  # noqa: E402, F401

import steersman.store.metadata  # noqa: E402
import steersman.worker.tasks  # noqa: E402, F401

light.fill_when_needed()
os.environ.pop("PYTHONSAFEPATH", None)  # it was for this process: what a stage starts finds modules as ever
