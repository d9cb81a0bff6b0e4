"""Ranks of one machine -> one set of weights in shared memory, changed by all of them without locks."""

from __future__ import annotations

import mmap
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

from steersman.models.model import Model
from steersman.models.ranks.block import averaged, one_block
from steersman.models.ranks.exchange import exchanging
from steersman.models.ranks.shared import OwnSteps
from steersman.models.ranks.strategy import Strategy
from steersman.system import node
from steersman.system.errors import UnknownName

SHARED_MEMORY = Path("/dev/shm")  # where there is none, a file of the temporary directory, which is slower


class Hogwild(OwnSteps):
    """Every rank reads and changes the same weights; a step may overwrite a part of another's, which is the idea.

    Moments of the optimizer are each rank's own. Ranks wait for each other at the end of an epoch only.
    Raises:
        EngineError: ranks of different machines.
        UnknownName: on a GPU.
    Source: Niu et al. (2011), HOGWILD!, arXiv 1106.5730.
    """

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        if model.device.type != "cpu":
            raise UnknownName(f"strategy on {model.device.type}", "hogwild", ("ddp", "zero", "local_sgd"))
        self.agree("machine (hogwild shares memory)", node.name().encode())
        if self.size > 1:
            self._share()

    def check(self) -> None:
        """Take the weights out of the shared memory first: what a rank does later is its own affair."""
        super().check()
        self.block = one_block(averaged(self.model))

    def _share(self) -> None:
        path = [self._made() if self.rank == 0 else ""]
        with exchanging(self.rank, self.size):
            dist.broadcast_object_list(path, src=0)
        with open(path[0], "r+b") as file:
            memory = torch.frombuffer(mmap.mmap(file.fileno(), 0), dtype=self.block.dtype)
        self.add_up(torch.zeros(1))  # all have it open
        if self.rank == 0:
            os.unlink(path[0])
        self.block = one_block(averaged(self.model), memory)  # all write the same numbers: rank 0's weights
        self.add_up(torch.zeros(1))

    def _made(self) -> str:
        handle, path = tempfile.mkstemp(prefix="steersman-", dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
        os.truncate(handle, self.block.nbytes)
        os.close(handle)
        return path
