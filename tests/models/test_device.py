"""Over what ranks exchange; GPUs are played by their names, since there is none."""

from __future__ import annotations

import pytest
import torch.distributed as dist

from steersman.models import device

MPIEXEC, TORCHRUN = {"PMI_RANK": "0"}, {"RANK": "0", "PMI_RANK": "0"}
TWO_NODES = ["cuda a 0", "cuda a 1", "cuda b 0", "cuda b 1"]


@pytest.mark.parametrize(
    ("identities", "environment", "chosen"),
    [
        (["cpu", "cpu"], {}, "gloo"),
        (["cpu", "cpu"], MPIEXEC, "mpi"),
        (["cpu", "cpu"], TORCHRUN, "gloo"),
        (TWO_NODES, MPIEXEC, "cpu:gloo,cuda:nccl"),
        (["xpu a 0", "xpu a 1"], {}, "cpu:gloo,xpu:xccl"),
        (["cuda a 0", "cuda a 0"], {}, "gloo"),
        (["cuda a 0", "cpu"], {}, "gloo"),
    ],
    ids=[
        "CPUs",
        "CPUs under mpiexec",
        "torchrun under mpiexec",
        "GPUs",
        "Intel's GPUs",
        "one GPU for two",
        "a GPU for one",
    ],
)
def test_ranks_exchange_over_the_best_that_all_have(
    identities: list[str], environment: dict[str, str], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And over gloo, without an error, where torch was built with nothing else."""
    for has in (True, False):
        for name in ("is_mpi_available", "is_nccl_available", "is_xccl_available"):
            monkeypatch.setattr(dist, name, lambda has=has: has, raising=False)
        assert device.backends(identities, environment) == (chosen if has else "gloo")


def test_a_process_without_a_gpu_trains_on_its_cpu() -> None:
    """Taking a GPU where there is none is no error."""
    device.take(local_rank=3)
    assert (device.best().type, device.identity()) == ("cpu", "cpu")
