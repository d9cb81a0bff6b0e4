"""What is here -> the device that a process trains on, and the backends over which its ranks exchange.

Written for NVIDIA's and AMD's GPUs ("cuda") and Intel's ("xpu"); so far only the CPU's part was ever run.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import torch
import torch.distributed as dist
from torch import Tensor

VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")  # what a process sees, from 0 again
MPIEXEC = ("PMI_RANK", "OMPI_COMM_WORLD_RANK")  # set by mpich's and Open MPI's


def best() -> torch.device:
    """Give this process's GPU where there is one, else the CPU."""
    for kind in ("cuda", "xpu"):
        if torch.get_device_module(kind).is_available():
            return torch.device(kind)
    return torch.device("cpu")


def take(local_rank: int) -> None:
    """Let a rank of this machine use a GPU of its own, as far as there are enough."""
    if best().type != "cpu":
        gpus = torch.get_device_module(best())
        gpus.set_device(local_rank % gpus.device_count())


def identity() -> str:
    """Distinguish this process's device from those of others: "cpu", or kind, machine and GPU."""
    if best().type == "cpu":
        return "cpu"
    gpus = torch.get_device_module(best())
    mine = gpus.current_device()
    seen = " ".join(f"{name}={os.environ[name]}" for name in VISIBLE if name in os.environ)
    return f"{best().type} {platform.node()} {getattr(gpus.get_device_properties(mine), 'uuid', f'{mine} {seen}')}"


def forked() -> AbstractContextManager[None]:
    """Put the random numbers of the CPU and of this process's GPU back afterwards; other GPUs are not begun to use."""
    if best().type == "cpu":
        return torch.random.fork_rng([])
    return torch.random.fork_rng([torch.get_device_module(best()).current_device()], device_type=best().type)


def seed(number: int) -> None:
    """Begin the random numbers of the CPU and of this process's GPU.

    As torch.manual_seed, which also looks at every kind of device that is not here: 0.4 ms.
    """
    torch.default_generator.manual_seed(number % 2**63)
    if best().type != "cpu":
        torch.get_device_module(best()).manual_seed(number % 2**63)


def random_states() -> dict[str, Tensor]:
    """Give where the random numbers of the CPU and of this process's GPU have come to: (n,) uint8 on the CPU, each."""
    states = {"cpu": torch.get_rng_state()}
    if best().type != "cpu":
        states[best().type] = torch.get_device_module(best()).get_rng_state()
    return states


def set_random_states(states: Mapping[str, Tensor]) -> None:
    """Go on from what `random_states` gave, as far as this process has the same kind of device."""
    torch.set_rng_state(states["cpu"])
    if best().type != "cpu" and best().type in states:
        torch.get_device_module(best()).set_rng_state(states[best().type])


def backends(identities: Sequence[str], environment: Mapping[str, str]) -> str:
    """Choose what torch.distributed exchanges over, given the `identity` of every rank.

    What lies on GPUs goes over NCCL (AMD's RCCL has its name), on Intel's over XCCL, that is oneCCL, where torch was
    built with it and each rank has a GPU of its own: NCCL refuses ranks that share one. MPI serves ranks on CPUs that
    mpiexec started, where torch was built with it. Everything else goes over gloo, from GPUs through host memory.
    """
    kinds = {each.split()[0] for each in identities}
    if kinds == {"cpu"}:
        by_mpiexec = "RANK" not in environment and any(name in environment for name in MPIEXEC)
        return "mpi" if by_mpiexec and dist.is_mpi_available() else "gloo"
    if len(kinds) == 1 and len(set(identities)) == len(identities):
        if kinds == {"cuda"} and dist.is_nccl_available():
            return "cpu:gloo,cuda:nccl"
        if kinds == {"xpu"} and getattr(dist, "is_xccl_available", bool)():
            return "cpu:gloo,xpu:xccl"
    return "gloo"
