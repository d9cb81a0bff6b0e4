"""Over what ranks exchange; GPUs are played by their names, since there is none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
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


def test_ranks_that_see_one_gpu_each_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its uuid, or where it has none by what lets them see it: to each of them it is GPU 0."""
    found = []
    for properties, seen in ((SimpleNamespace(), "0"), (SimpleNamespace(), "1"), (SimpleNamespace(uuid="f00d"), "1")):
        played = SimpleNamespace(current_device=lambda: 0, get_device_properties=lambda _, it=properties: it)
        monkeypatch.setattr(device, "best", lambda: torch.device("cuda"))
        monkeypatch.setattr(torch, "get_device_module", lambda _, it=played: it)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen)
        found.append(device.identity())
    assert len(set(found)) == 3
    assert found[2].endswith("f00d")


def test_random_numbers_of_this_process_s_gpu_are_kept_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of no other GPU: to ask for them would take memory of GPUs that other ranks use."""
    states, asked = {"cpu": torch.get_rng_state(), "cuda": torch.arange(16, dtype=torch.uint8)}, []
    monkeypatch.setattr(torch.random, "fork_rng", lambda devices, device_type="cuda": asked.append(devices))
    device.forked()
    gpu = SimpleNamespace(current_device=lambda: 3, get_rng_state=lambda: states["cuda"], set_rng_state=asked.append)
    monkeypatch.setattr(device, "best", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch, "get_device_module", lambda _: gpu)
    device.forked()
    assert asked == [[], [3]]
    assert device.random_states().keys() == states.keys()
    device.set_random_states(states)
    device.set_random_states({"cpu": states["cpu"]})  # of a checkpoint that a CPU wrote
    assert asked[2:] == [states["cuda"]]


def test_a_process_without_a_gpu_trains_on_its_cpu() -> None:
    """Taking a GPU where there is none is no error."""
    device.take(local_rank=3)
    assert (device.best().type, device.identity()) == ("cpu", "cpu")
