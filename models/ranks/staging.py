"""Frames on the shared file system -> frames on each node's own disk, every byte read from the shared one once.

Each node reads a part of the files and passes what it reads on to all others over the ranks' process group, piece by
piece. Source: Kurth et al. (2018), arXiv 1810.01993, section V-A.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from steersman.models.errors import StagingFailed
from steersman.models.ranks.exchange import exchanging
from steersman.store import FRAME, Frames, Span, Window
from steersman.system import node

PIECE_BYTES = 8 * 2**20  # exchanged at a time by each node
MOST_BYTES = 512 * 2**20  # of one exchange, all nodes' pieces together
TRIES = 3  # to read a piece, and to bring it to every node undamaged
HEAD = 40  # bytes before a piece: the length of what follows, and its sha256
UNREADABLE = -1  # as a length


def staged(window: Window, folder: Path) -> Window:
    """Read a window from a folder of each node; every rank of a training calls it.

    The shards of a variable are copied there when it is first read, so every rank reads the same variables, in the same
    order. Files are whole as they were at some moment after the window was chosen, which is enough: rows that were
    published do not change.

    Args:
        folder: on a disk of the node, e.g. below $TMPDIR; the same on its ranks.
    Returns: the same window. Reading a variable for the first time raises, on all ranks, StagingFailed, where one could
        not read, write or be reached undamaged, and RankLost, see there.
    """
    walkers = sorted({span.walker for span in window.spans})
    return Window(_Staged(window.frames.path, walkers, folder), window.spans, window.labels)


class _Staged(Frames):
    """Frames of which a variable is copied to the node before it is read."""

    def __init__(self, path: Path, walkers: Sequence[str], folder: Path) -> None:
        super().__init__(path)
        self._walkers, self._folder = walkers, folder
        self._here: dict[str, Frames] = {}  # by variable

    def read(self, name: str, span: Span, *, dimension: str = FRAME) -> np.ndarray:
        if name not in self._here:
            self.merged()  # some may have been merged since the last look
            groups = sorted({self.group(walker) for walker in self._walkers})
            paths = [path for group in groups for path in _files(self.path / group, name)]
            stage(self.path, [str(path.relative_to(self.path)) for path in paths], self._folder / name)
            self._here[name] = Frames(self._folder / name)
        return self._here[name].read(name, span, dimension=dimension)


def stage(source: Path, names: Sequence[str], target: Path) -> None:
    """Copy files, named from `source`, to below `target` on every node; what rank 0 names counts."""
    group = _Nodes()
    names = group.of_first(list(names))
    failure = ""
    if group.leads:
        share = [(number, source / name) for number, name in enumerate(names)][group.number :: group.count]
        failure = _copied(_pieces(share, group.piece_bytes), [target / name for name in names], group)
    if failures := [f"{node}: {said}" for node, said in group.texts_of_all(failure) if said]:
        raise StagingFailed(str(source), str(target), "; ".join(failures))


@dataclass(frozen=True)
class _Piece:
    """A part of a file, or why it could not be read."""

    file: int
    offset: int
    content: bytes
    last: bool
    unreadable: str = ""

    def packed(self, size: int) -> torch.Tensor:
        """As (size,) uint8: head, content, zeros."""
        body = np.array([self.file, self.offset, self.last], np.int64).tobytes() + self.content
        length = np.array([UNREADABLE if self.unreadable else len(body)], np.int64).tobytes()
        whole = length + hashlib.sha256(body).digest() + body
        return torch.frombuffer(bytearray(whole.ljust(size, b"\0")), dtype=torch.uint8)

    @classmethod
    def unpacked(cls, tensor: torch.Tensor) -> _Piece | None:
        """Read it again; None where it was damaged."""
        whole = tensor.numpy().tobytes()
        length = int(np.frombuffer(whole[:8], np.int64)[0])
        if length == UNREADABLE:
            return cls(0, 0, b"", last=True, unreadable="elsewhere")
        body = whole[HEAD : HEAD + length]
        if hashlib.sha256(body).digest() != whole[8:HEAD]:
            return None
        file, offset, last = np.frombuffer(body[:24], np.int64).tolist()
        return cls(file, offset, body[24:], bool(last))


NOTHING = _Piece(-1, 0, b"", last=True)  # of a node that has passed all its files on


def _copied(pieces: Iterator[_Piece], targets: Sequence[Path], nodes: _Nodes) -> str:
    """Exchange pieces until all nodes have all; returns what failed here, if it failed anywhere."""
    while True:
        mine = next(pieces, NOTHING)
        for _ in range(TRIES):
            gathered = [_Piece.unpacked(each) for each in nodes.gathered(mine.packed(nodes.piece_bytes + HEAD + 24))]
            problem = mine.unreadable or _written(gathered, targets)
            if nodes.agree(not problem):
                break
        else:
            return problem
        if all(piece is not None and piece.file == NOTHING.file for piece in gathered):
            return ""


def _written(pieces: Sequence[_Piece | None], targets: Sequence[Path]) -> str:
    """Write pieces to their places; returns what went wrong."""
    for piece in pieces:
        if piece is None:
            return "a piece arrived damaged"
        if piece.unreadable or piece.file == NOTHING.file:
            continue
        try:
            _write(piece, targets[piece.file])
        except OSError as error:
            return str(error)
    return ""


def _write(piece: _Piece, target: Path) -> None:
    """A file has its name when it is whole."""
    partial = target.with_name(target.name + ".partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    with partial.open("r+b" if piece.offset else "wb") as file:
        file.seek(piece.offset)
        file.write(piece.content)
    if piece.last:
        partial.replace(target)


def _pieces(files: Sequence[tuple[int, Path]], size: int) -> Iterator[_Piece]:
    """Read files one after another, each opened once: a writer that replaces one meanwhile changes nothing."""
    for number, path in files:
        try:
            with path.open("rb", buffering=0) as file:
                whole, offset, last = os.fstat(file.fileno()).st_size, 0, False
                while not last:
                    content = _read(file, offset, min(size, whole - offset))
                    last = offset + len(content) >= whole
                    yield _Piece(number, offset, content, last)
                    offset += len(content)
        except OSError as error:
            yield _Piece(number, 0, b"", last=True, unreadable=str(error))


def _read(file: Any, offset: int, size: int) -> bytes:
    """Read so many bytes from an open file, and again where that fails."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(OSError):
            return _read_once(file, offset, size)
    return _read_once(file, offset, size)


def _read_once(file: Any, offset: int, size: int) -> bytes:
    file.seek(offset)
    content = b""
    while len(content) < size and (more := file.read(size - len(content))):
        content += more
    if len(content) < size:
        raise OSError(f"{file.name} ends at {offset + len(content)}, not at {offset + size}")
    return content


def _files(group: Path, variable: str) -> list[Path]:
    """What a reader of a variable needs of a group; no file that is being written."""
    below = [path for path in sorted((group / variable).rglob("*")) if path.is_file()]
    return [path for path in (group / "zarr.json", *below) if not path.name.endswith(".partial")]


class _Nodes:
    """The ranks of a training by their nodes; the first rank of each reads and writes for it."""

    def __init__(self) -> None:
        self.rank, self.size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        self._names = self._everyone(node.name())
        leaders = [self._names.index(name) for name in dict.fromkeys(self._names)]
        self.leads, self.count = self.rank in leaders, len(leaders)
        self.number = leaders.index(self.rank) if self.leads else -1
        self.piece_bytes = min(PIECE_BYTES, MOST_BYTES // self.count)
        self._group = dist.new_group(leaders, backend="gloo") if self.count > 1 else None

    def gathered(self, mine: torch.Tensor) -> list[torch.Tensor]:
        """Give every node's tensor."""
        if self._group is None:
            return [mine]
        everyone = [torch.empty_like(mine) for _ in range(self.count)]
        self._exchange(lambda: dist.all_gather(everyone, mine, group=self._group))
        return everyone

    def agree(self, good: bool) -> bool:
        """Whether all nodes say so."""
        word = torch.tensor([int(good)])
        if self._group is not None:
            self._exchange(lambda: dist.all_reduce(word, dist.ReduceOp.MIN, group=self._group))
        return bool(word.item())

    def of_first(self, mine: list[str]) -> list[str]:
        """Give what rank 0 has."""
        return list(self._everyone(mine if self.rank == 0 else None)[0])

    def texts_of_all(self, mine: str) -> list[tuple[str, str]]:
        """Give each rank's node and what it says."""
        return list(zip(self._names, self._everyone(mine), strict=True))

    def _everyone(self, mine: Any) -> list[Any]:
        everyone: list[Any] = [mine] * self.size
        if self.size > 1:
            self._exchange(lambda: dist.all_gather_object(everyone, mine))
        return everyone

    def _exchange(self, exchange: Callable[[], Any]) -> None:
        with exchanging(self.rank, self.size):
            exchange()
