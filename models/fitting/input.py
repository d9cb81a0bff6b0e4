"""Frames of a store -> batches: held in memory where they fit, else streamed, and read ahead while a step computes."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from steersman.models.device import best
from steersman.models.ranks.single import shuffled
from steersman.store import Span, Window

MEMORY_BYTES = 4 * 2**30  # a window of 5 million packed maps of 28 residues
BLOCK_ROWS = 4096  # read at once; zarr spends about 0.1 ms on a chunk, however little of it is wanted
LEAST_BLOCKS = 8  # held at a time, so that what is far apart in time is mixed

Check = Callable[[np.ndarray], Tensor]  # an array as it is stored -> a tensor, or an error


class RowSource(Protocol):
    """Samples that are read when they are wanted."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, ...), as of a tensor."""

    def __len__(self) -> int: ...

    def order(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Give ascending rows (n,) int64 in a random order in which reading is cheap."""

    def read(self, rows: Tensor) -> Tensor:
        """Read the samples of these numbers (B,); called by one thread, one call after another."""


class Stream:
    """A variable of a window, read block by block; never more than `memory_bytes` of blocks at a time.

    The order of an epoch takes the blocks at random, as many together as memory holds, and mixes the rows of these. So
    every block is read once an epoch by each rank.

    Args:
        memory_bytes: at least one row is held, whatever it says.
        check: of every block.
    """

    def __init__(self, window: Window, name: str, memory_bytes: int, check: Check = torch.from_numpy) -> None:
        self._window, self._name, self._check = window, name, check
        first = window.spans[0]
        row = check(window.frames.read(name, Span(first.walker, first.first, first.first + 1)))
        self.shape = (window.rows, *row.shape[1:])
        self.block = max(1, min(BLOCK_ROWS, memory_bytes // LEAST_BLOCKS // row.nbytes))
        blocks = -(-window.rows // self.block)
        self.pool = min(blocks, max(1, memory_bytes // (self.block * row.nbytes)))
        self._ends = np.cumsum([span.rows for span in window.spans])
        self._memory = row.new_empty((self.pool * self.block, *row.shape[1:]))
        self._held: OrderedDict[int, int] = OrderedDict()  # block -> its place in memory; used longest ago first
        self._places = torch.empty(blocks, dtype=torch.int64)  # the same, for many rows at once

    def __len__(self) -> int:
        return self._window.rows

    def order(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """See Rows."""
        _, counts = torch.unique_consecutive(rows // self.block, return_counts=True)
        blocks = torch.split(rows, counts.tolist())
        mixed = [blocks[number] for number in torch.randperm(len(blocks), generator=generator).tolist()]
        pools = [torch.cat(mixed[first : first + self.pool]) for first in range(0, len(mixed), self.pool)]
        return torch.cat([shuffled(pool, generator) for pool in pools])

    def read(self, rows: Tensor) -> Tensor:
        """See Rows; in the order of the blocks' first appearance, so that one that is done with goes first."""
        numbers = rows // self.block
        blocks = list(dict.fromkeys(numbers.tolist()))
        if len(blocks) <= self.pool:
            return self._picked(rows, blocks)
        result = self._memory.new_empty((len(rows), *self.shape[1:]))
        for first in range(0, len(blocks), self.pool):
            some = blocks[first : first + self.pool]
            here = torch.isin(numbers, torch.tensor(some))
            result[here] = self._picked(rows[here], some)
        return result

    def _picked(self, rows: Tensor, blocks: list[int]) -> Tensor:
        """Rows of these blocks, no more of them than memory holds."""
        for number in blocks:
            if number in self._held:
                self._held.move_to_end(number)
        for number in blocks:
            if number not in self._held:
                self._hold(number)
        return self._memory[self._places[rows // self.block] * self.block + rows % self.block]

    def _hold(self, number: int) -> None:
        """Read a block into memory, where it is full in place of the one that was used longest ago."""
        rows = self._check(self._read(number * self.block, (number + 1) * self.block))
        place = len(self._held) if len(self._held) < self.pool else self._held.popitem(last=False)[1]
        self._memory[place * self.block :][: len(rows)] = rows
        self._held[number] = place
        self._places[number] = place

    def _read(self, first: int, end: int) -> np.ndarray:
        """Rows [first, end) of the window."""
        spans, begins = self._window.spans, self._ends - [span.rows for span in self._window.spans]
        within = range(int(np.searchsorted(self._ends, first, side="right")), len(spans))
        parts = [_part(spans[i], first - begins[i], end - begins[i]) for i in within if begins[i] < end]
        return Window(self._window.frames, parts)[self._name]


def _part(span: Span, first: int, end: int) -> Span:
    """Rows [first, end) of a span, as far as it reaches."""
    return Span(span.walker, span.first + max(0, int(first)), span.first + min(span.rows, int(end)))


def taken(
    window: Window, name: str, *, memory_bytes: int = MEMORY_BYTES, check: Check = torch.from_numpy
) -> Tensor | Stream:
    """Take a variable of a window for training: all of it into memory once, or a stream where that is too much.

    Args:
        memory_bytes: the most that may be held; each rank holds so much.
        check: stored array -> tensor, e.g. checked_maps.
    Returns: (n, ...), pinned where there is a GPU.
    """
    stream = Stream(window, name, memory_bytes, check)
    if -(-len(stream) // stream.block) > stream.pool:
        return stream
    held = check(window[name])
    return held.pin_memory() if best().type != "cpu" else held


def fed(
    data: tuple[Tensor, ...] | RowSource, picks: Sequence[Tensor], device: torch.device
) -> Iterator[tuple[Tensor, ...]]:
    """Give the samples of each step, on a device; those of a stream are read while the step before computes.

    Raises: whatever reading raised, when the batch that it was for is wanted.
    """
    if isinstance(data, tuple):
        for picked in picks:
            yield tuple(_moved(part[picked], device) for part in data)
        return
    threads = torch.get_num_threads()  # a new thread would take as many as there are cores
    with ThreadPoolExecutor(1, "reading", torch.set_num_threads, (threads,)) as reading:
        ahead: deque[Future[Tensor]] = deque()
        for picked in picks:
            ahead.append(reading.submit(data.read, picked))
            if len(ahead) == 2:
                yield (_moved(ahead.popleft().result(), device),)
        if ahead:
            yield (_moved(ahead.popleft().result(), device),)


def _moved(part: Tensor, device: torch.device) -> Tensor:
    """Bring a batch to a device; to a GPU through pinned memory, so that the copy runs beside its work."""
    if device.type != "cpu" and part.device.type == "cpu":
        part = part.pin_memory()  # torch keeps it until the copy is done
    return part.to(device, non_blocking=True)
