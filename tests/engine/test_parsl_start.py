"""Whatever keeps Parsl from starting is a loss of Parsl: the engine starts it again."""

from __future__ import annotations

import errno

import pytest
from parsl.config import Config
from parsl.dataflow.dflow import DataFlowKernel

from steersman.engine import jobs
from steersman.engine.errors import ExecutorLost


class Unstarted(Exception):
    """Parsl raises one without a name of its own."""


@pytest.mark.parametrize("raised", [Unstarted("Interchange failed to start"), BrokenPipeError(), KeyError("x")])
def test_an_interchange_that_does_not_start_is_a_parsl_that_is_lost(
    raised: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(config: Config) -> DataFlowKernel:
        raise raised

    monkeypatch.setattr(jobs, "_eager", fails)
    with pytest.raises(ExecutorLost):
        jobs._started(Config(executors=[]))


@pytest.mark.parametrize("raised", [OSError(errno.ENOSPC, "full")])
def test_a_full_disk_is_none(raised: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(config: Config) -> DataFlowKernel:
        raise raised

    monkeypatch.setattr(jobs, "_eager", fails)
    with pytest.raises(OSError, match="full"):
        jobs._started(Config(executors=[]))
