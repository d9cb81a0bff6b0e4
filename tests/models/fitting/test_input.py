"""Frames reach a training whole, once an epoch, within the memory that they may take, and ahead of time."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from steersman.models import Committee
from steersman.models.fitting.fit import fit
from steersman.models.fitting.input import Stream, fed, taken
from steersman.models.networks.contact_data import checked_maps
from steersman.models.ranks.begin import begin
from steersman.models.ranks.local_sgd import LocalSGD, fewest_steps
from steersman.models.ranks.shared import share_of
from steersman.models.ranks.single import parts, shuffled
from steersman.models.ranks.strategy import Strategy
from steersman.store import FRAME, Frames, GroupWriter, Span, Window
from steersman.system.errors import BadValue
from tests.models.mean_model import fresh, rows, squared

CPU = torch.device("cpu")
ROW = 9 * 4  # bytes of a row below
SPANS = [Span("w0", 3, 40), Span("w1", 0, 7), Span("w0", 50, 90), Span("w1", 11, 60)]


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Window:
    """133 rows of two walkers, in four pieces."""
    path = tmp_path_factory.mktemp("frames")
    for walker in ("w0", "w1"):
        writer = GroupWriter(path / walker)
        writer.extend(FRAME, {"values": rows(90).numpy() + (walker == "w1"), "maps": np.full((90, 2, 2), 7, np.uint8)})
        writer.publish()
    return Window(Frames(path), SPANS)


@pytest.mark.parametrize("memory", [1, 3 * ROW, 24 * ROW, 100 * ROW])
def test_a_stream_reads_what_memory_would_hold(window: Window, memory: int) -> None:
    """Any rows in any order, also none, across blocks and spans."""
    whole, stream = torch.from_numpy(window["values"]), Stream(window, "values", memory)
    assert stream.shape == whole.shape
    for picked in (torch.arange(133), torch.randperm(133), torch.tensor([132, 0, 132]), torch.arange(0)):
        assert torch.equal(stream.read(picked), whole[picked])


@pytest.mark.parametrize("size", [1, 3])
def test_every_rank_reads_every_block_once_an_epoch_within_its_memory(
    window: Window, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And all ranks together see every row once, in a new order each time."""
    seen, orders = [], []
    for rank in range(size):
        stream = Stream(window, "values", 40 * ROW)
        assert stream.block * stream.pool <= 40
        read: list[int] = []
        inner = stream._read
        monkeypatch.setattr(
            stream, "_read", lambda first, end, read=read, inner=inner: read.append(first) or inner(first, end)
        )
        ranks = begin(fresh(), 133, 10, rank, Strategy.parse("local_sgd"))
        assert isinstance(ranks, LocalSGD)
        ranks.share, ranks.order_of = torch.arange(133)[rank::size], stream.order
        for _ in range(2):
            picks = [picked for picked, _ in ranks.batches()]
            for _ in fed(stream, picks, CPU):
                assert len(stream._held) <= stream.pool
            orders.append(torch.cat(picks).tolist())
        seen += orders[-1]
        assert len(read) <= 2 * -(-133 // stream.block)  # what is held at the end of an epoch need not be read again
    assert sorted(seen) == list(range(133))
    assert orders[0] != orders[1]


def test_a_window_is_held_where_it_fits_and_streamed_where_not(window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same order of the rows training is the same bit for bit; what is held opens no file any more."""
    held, stream = taken(window, "values"), taken(window, "values", memory_bytes=60 * ROW)
    assert isinstance(held, Tensor)
    assert isinstance(stream, Stream)
    streamed = fit(fresh(), stream, squared, epochs=2, batch=16, lr=0.01)
    monkeypatch.setattr(stream, "order", shuffled)
    alike = [fit(fresh(), stream, squared, epochs=2, batch=16, lr=0.01)]
    monkeypatch.setattr(Frames, "read", None)
    alike.append(fit(fresh(), held, squared, epochs=2, batch=16, lr=0.01))
    assert all(map(torch.equal, alike[0].parameters(), alike[1].parameters()))
    assert streamed.history[-1]["loss"] == pytest.approx(alike[0].history[-1]["loss"], rel=0.2)


class Slow:
    """Rows whose reading is watched."""

    shape = (8, 1)

    def __init__(self, broken: int = -1) -> None:
        self.begun = [threading.Event() for _ in range(8)]
        self._broken = broken

    def __len__(self) -> int:
        return 8

    def order(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        return rows

    def read(self, rows: Tensor) -> Tensor:
        first = int(rows[0])
        self.begun[first].set()
        if first == self._broken:
            raise OSError("the disk is gone")
        return rows[:, None].float()


def test_the_next_batch_is_read_while_a_step_computes() -> None:
    """So reading and computing of the same length take one of them. Two ahead would cost memory for nothing."""
    slow = Slow()
    for step, (part,) in enumerate(fed(slow, torch.split(torch.arange(8), 1), CPU)):
        assert part.item() == step
        assert step == 7 or slow.begun[step + 1].wait(timeout=120)
        assert step > 5 or not slow.begun[step + 2].is_set()


def test_an_error_of_reading_surfaces_as_itself() -> None:
    """Not as one of threads, and when its batch is wanted: the batch before is trained on."""
    parts = fed(Slow(broken=3), torch.split(torch.arange(8), 1), CPU)
    assert [part.item() for (part,) in (next(parts) for _ in range(3))] == [0, 1, 2]
    with pytest.raises(OSError, match="disk is gone"):
        next(parts)


def test_what_is_streamed_is_checked(window: Window) -> None:
    """The values of maps are 0 and 1; here all are 7."""
    with pytest.raises(BadValue, match="NaN or"):
        taken(window, "maps", check=checked_maps)


@given(st.integers(1, 200), st.integers(1, 40))
def test_no_step_is_of_a_single_sample_that_is_left_over(samples: int, size: int) -> None:
    """A batch normalization has no spread of one; every sample is in one step."""
    found = parts(torch.arange(samples), size)
    assert torch.cat(found).tolist() == [*range(samples)]
    assert {len(part) for part in found[:-1]} <= {size}
    assert len(found[-1]) <= size + 1
    assert len(found[-1]) > 1 or size == 1 or samples == 1


@given(st.integers(1, 4), st.integers(1, 32), st.integers(0, 300))
def test_no_rank_that_steps_alone_takes_fewer_steps_than_there_are_synchronisations(
    ranks: int, batch: int, more: int
) -> None:
    """Whatever is left over of the samples of each."""
    samples = ranks * batch + more
    steps = [len(parts(share_of(samples, rank, ranks), batch)) for rank in range(ranks)]
    assert fewest_steps(samples, batch, ranks) == min(steps)


def test_images_of_any_number_are_learned() -> None:
    """Small ones, of which a pixel is left where they are normalized."""
    images = np.random.default_rng(0).normal(size=(33, 1, 16, 16)).astype(np.float32)
    model = Committee.fit(images, np.arange(33) % 2, classes=2, members=2, epochs=1)
    assert model.probabilities(images).shape == (33, 2, 2)
    with pytest.raises(BadValue):
        Committee.fit(images, np.arange(33) % 2 / 2, classes=2, members=2, epochs=1)
