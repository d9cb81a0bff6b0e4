"""Gradients -> weights through the bus: a parameter server whose workers' weights are never too old."""

from __future__ import annotations

import copy
import shutil
import subprocess
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from steersman.bus import BusError, BusTimeout, Server, TupleSpace
from steersman.models.errors import RankLost
from steersman.models.model import Model
from steersman.models.ranks import launch as ranks
from steersman.models.ranks.block import averaged, gradient_block, one_block
from steersman.models.ranks.exchange import exchanging
from steersman.models.ranks.shared import OwnSteps, WithGradients
from steersman.models.ranks.strategy import Strategy
from steersman.models.steps.precision import Precision
from steersman.models.steps.stepper import Stepper

PATIENCE_S = 300.0  # for weights, while the slowest rank computes
LOOK_S = 1.0  # between looks whether a rank has failed
LOST_S = 5.0  # a bus that is silent for so long ended with rank 0; below the grace that ranks have to say so
ASK, GIVE = "ask", "weights"  # names on the bus


class Staleness:
    """Says in which order ranks get weights and hand in gradients, so that none is of weights too old.

    A gradient's staleness is the number of steps that were taken since the weights it is of were given out. Whoever
    computes now, in the order of the age of his weights, adds one to the staleness of all after him; so a rank gets
    weights, and a gradient is taken before an older one, only where that brings nobody above the bound.

    Args:
        bound: the largest staleness, >= 0; with 0 ranks take turns.
    Attributes:
        version: steps taken.
        histogram: how many gradients had a staleness of 0, 1, ... bound.
    """

    def __init__(self, bound: int) -> None:
        self.bound, self.version, self.histogram = bound, 0, [0] * (bound + 1)
        self._waiting: deque[int] = deque()
        self._computing: dict[int, int] = {}  # rank -> version of its weights
        self._arrived: set[int] = set()

    def ask(self, rank: int) -> None:
        """A rank wants weights."""
        self._waiting.append(rank)

    def arrive(self, rank: int) -> None:
        """A rank's gradient is here."""
        self._arrived.add(rank)

    def next(self) -> tuple[str, int] | None:
        """Give what is to be done now, and count it as done: ("take", rank), ("give", rank), or nothing."""
        for rank in sorted(self._arrived, key=self._computing.__getitem__):
            others = [version for other, version in self._computing.items() if other != rank]
            if self._bearable(self.version + 1, others):
                self._take(rank)
                return "take", rank
        if self._bearable(self.version, [*self._computing.values(), self.version]):
            for rank in self._waiting:
                if rank not in self._computing:  # else its gradient is here, and waits
                    self._waiting.remove(rank)
                    self._computing[rank] = self.version
                    return "give", rank
        return None

    def leave(self, rank: int) -> None:
        """A rank that has weights will bring no gradient."""
        del self._computing[rank]

    def _take(self, rank: int) -> None:
        self._arrived.remove(rank)
        staleness = self.version - self._computing.pop(rank)
        assert staleness <= self.bound, (staleness, self.bound)
        self.histogram[staleness] += 1
        self.version += 1

    def _bearable(self, version: int, versions: Iterable[int]) -> bool:
        return all(version + place - given <= self.bound for place, given in enumerate(sorted(versions)))


class Async(WithGradients, OwnSteps):
    """Each rank computes gradients on its own share and hands them to rank 0's parameter server, over the bus.

    One optimizer steps for all, in the order in which gradients arrive; of fp16 each rank has a loss scale of its own,
    and sends no gradients that overflowed. At the end of an epoch ranks wait for each
    other and take the same weights. The bus is a server of its own on the machine of rank 0, on the network on which
    the ranks have met.
    """

    own_moments = False

    def __init__(self, model: Model, samples: int, batch: int, seed: int, strategy: Strategy) -> None:
        super().__init__(model, samples, batch, seed, strategy)
        self._bound = strategy.number
        self._server: ParameterServer | None = None
        self._home = _Home(ranks.address_here()) if self.rank == 0 else None
        url = [self._home.url if self._home else ""]
        if self.size > 1:
            with exchanging(self.rank, self.size):
                dist.broadcast_object_list(url, src=0)
        self._space = TupleSpace.connect(url[0], space="training", patience_s=LOST_S)

    def serve(self, make: Callable[[Model], Stepper]) -> Stepper:
        if self._home is not None:
            self._server = ParameterServer(self._home.url, self.size, copy.deepcopy(self.model), make, self._bound)
            self._server.start()
        return make(self.model)

    def fetch_weights(self) -> None:
        self._ask("pull")

    def change_weights(self, stepper: Stepper, epoch: float) -> None:
        if stepper.precision.unscaled(stepper.optimizer):
            self._space.put(ASK, self.rank, "push", epoch, self.gradients.cpu())
        else:
            self._space.put(ASK, self.rank, "skip", epoch, torch.empty(0))

    def combine_weights(self, step: int, steps: int) -> None:
        if step == steps:
            self.add_up(torch.zeros(1))  # all gradients of the epoch are on the bus before the first looks
            self._ask("look")
            super().combine_weights(step, steps)

    def keeper(self, stepper: Stepper) -> Stepper | None:
        return self._server.stepper if self._server is not None else None

    def facts(self, stepper: Stepper) -> dict[str, Any]:
        counts = torch.zeros(self._bound + 1, dtype=torch.int64)
        if self._server is not None:
            counts += torch.tensor(self._server.staleness.histogram)
        self.add_up(counts)
        return {"staleness": counts.tolist()}

    def close(self) -> None:
        if self._server is not None:
            self._space.put(ASK, 0, "end", 0.0, torch.empty(0))
            self._server.join(PATIENCE_S)
        if self._home is not None:
            self._home.close()

    def _ask(self, kind: str) -> None:
        """Ask for weights and wait for them."""
        try:
            self._space.put(ASK, self.rank, kind, 0.0, torch.empty(0))
            weights = self._given()
        except BusError as error:
            raise RankLost(self.rank, self.size, str(error)) from error
        if len(weights) == 0:
            raise RankLost(self.rank, self.size, "the parameter server failed, see rank 0's standard error")
        self.weights.copy_(weights)

    def _given(self) -> Tensor:
        """Wait for weights, while no rank has failed: they may have to wait for its gradient."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                weights: Tensor = self._space.take(GIVE, self.rank, torch.Tensor, timeout_s=LOOK_S)[2]
            except BusTimeout:
                if (error := ranks.first_error()) or time.monotonic() > deadline:
                    raise RankLost(self.rank, self.size, error or f"no weights within {PATIENCE_S:g} s") from None
            else:
                return weights


class ParameterServer(threading.Thread):
    """A thread beside rank 0's own work, with weights, optimizer and connection of its own."""

    def __init__(self, url: str, ranks: int, model: Model, make: Callable[[Model], Stepper], bound: int) -> None:
        super().__init__(name="parameter server", daemon=True)
        self._ranks, self.staleness = ranks, Staleness(bound)
        self._space = TupleSpace.connect(url, space="training")
        self._block, self._gradients = one_block(averaged(model)), gradient_block(model)
        self.stepper = make(model)
        self.stepper.precision = Precision("fp32", model.device)  # ranks have taken their loss scaling out
        self._threads = torch.get_num_threads()
        self._pushed: dict[int, tuple[float, Tensor]] = {}

    def run(self) -> None:
        torch.set_num_threads(self._threads)  # a new thread would take as many as there are cores
        try:
            self._serve()
        except Exception:  # whatever it is: every rank must know, at once
            traceback.print_exc()
            for rank in range(self._ranks):
                self._space.put(GIVE, rank, torch.empty(0))

    def _serve(self) -> None:
        while True:
            _, rank, kind, epoch, gradients = self._space.take(ASK, int, str, float, torch.Tensor)
            if kind == "end":
                return
            if kind == "look":
                self._give(rank)
            elif kind == "pull":
                self.staleness.ask(rank)
            elif kind == "skip":
                self.staleness.leave(rank)
            else:
                self._pushed[rank] = (epoch, gradients)
                self.staleness.arrive(rank)
            while (todo := self.staleness.next()) is not None:
                self._do(*todo)

    def _do(self, what: str, rank: int) -> None:
        if what == "give":
            self._give(rank)
        else:
            epoch, gradients = self._pushed.pop(rank)
            self._gradients.copy_(gradients)
            self.stepper.step(epoch)

    def _give(self, rank: int) -> None:
        self._space.put(GIVE, rank, self._block[: len(self._gradients)].cpu())


class _Home:
    """A bus in a directory of its own, which ends with the process that made it, however that ends."""

    def __init__(self, address: str) -> None:
        self._directory = tempfile.mkdtemp(prefix="steersman-bus-")
        self._bus = Server.start(self._directory, bind=address)
        self.url = self._bus.url
        command = ["sh", "-c", 'read _; kill "$1"; rm -r "$2"', "guard", str(self._bus.pid), self._directory]
        self._guard = subprocess.Popen(
            command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def close(self) -> None:
        self._bus.stop()
        self._guard.communicate()
        shutil.rmtree(self._directory, ignore_errors=True)
