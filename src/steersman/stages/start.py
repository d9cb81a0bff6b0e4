"""What a segment begins from, as a simulate function sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from steersman.steering import Bias
from steersman.steering.streams import point_rng
from steersman.store.errors import MissingVariable
from steersman.system.errors import BadValue, UnknownName

LOOKED = -1


class NoFrame(dict[str, np.ndarray]):
    """The frame of the prepared start: empty."""

    def __missing__(self, name: str) -> np.ndarray:
        raise MissingVariable(
            name, f"none yet: write start.frame.get({name!r}, value), what the first segments begin from"
        )


class WatchedMapping(Mapping[str, Any]):
    """A frame, or a state, that says when somebody looks at it.

    Args:
        frame: what is seen.
        looked: called at each look; also when it goes to another process, which may look there.
    Attributes:
        unread: nobody has.
    """

    def __init__(self, frame: Mapping[str, Any], looked: Callable[[], None] = lambda: None) -> None:
        self._frame, self._looked, self.unread = frame, looked, True

    def _seen(self) -> Mapping[str, Any]:
        self.unread = False
        self._looked()
        return self._frame

    def __getitem__(self, name: str) -> Any:
        return self._seen()[name]

    def __setitem__(self, name: str, value: Any) -> NoReturn:
        raise TypeError("what is stored cannot be changed here; change a copy, e.g. dict(start.frame)")

    def __iter__(self) -> Iterator[str]:
        return iter(self._seen())

    def __len__(self) -> int:
        return len(self._seen())

    def __repr__(self) -> str:
        return repr(self._seen())

    def __reduce__(self) -> tuple[type[WatchedMapping], tuple[Mapping[str, Any]]]:
        return type(self), (self._seen(),)


class StoredFrame(WatchedMapping):
    """A frame whose `get` gives its default where it is empty, at the prepared start, and for no other reason.

    A segment that asked for another name than it stores would begin at the prepared start for ever, without a word.
    """

    def get(self, name: str, default: Any = None, /) -> Any:
        """Raises: UnknownName: it has no such variable; ask `name in start.frame` of one that not all frames have."""
        seen = self._seen()
        if seen and name not in seen:
            raise UnknownName("variable in start.frame", name, seen)
        return seen.get(name, default)


def looked(attributes: Mapping[str, Any], rows: int) -> bool | None:
    """Whether segments that were given no state look at their frame: then they can begin at any; None: nobody knows.

    Args:
        attributes: of a walker's group. `unread_from` is the first row that was made so without a look, or LOOKED.
        rows: frames of it that are published.
    """
    row = attributes.get("unread_from")
    return None if row is None or row >= rows else bool(row == LOOKED)


@dataclass(frozen=True)
class Start:
    """Where one segment begins.

    Args:
        prepared: what the workflow's prepare function returned.
        frame: the stored variables of the frame to start from; empty at the prepared start.
        state: the full restart state that the frame's segment gave at its end to `out.state`, e.g. the velocities;
            as they were given, arrays or bytes. Empty where it gave none, and where the segment begins at a frame
            without being its exact continuation.
        draw: what a policy drew for a new member of the ensemble, by name, float64; empty of all other starts.
        bias: potential along the coordinate of `model` that the segment is to be pushed by; None where there is none.
        load: gives `model`.
        attempt: how often it failed before, from 0 on.
        condition: whose turn it is, by name, of `@wf.simulate(conditions=...)`.
        params: the workflow's parameters, for `program`.
        learns: the workflow trains models, of which there may be none yet.
    """

    prepared: Any = None
    frame: Mapping[str, np.ndarray] = field(default_factory=NoFrame)
    state: Mapping[str, Any] = field(default_factory=dict)
    draw: Mapping[str, np.ndarray] = field(default_factory=dict)
    bias: Bias | None = None
    load: Callable[[], Any] = field(default=lambda: None, repr=False)
    attempt: int = 0
    condition: Mapping[str, float] = field(default_factory=dict)
    params: Any = field(default=None, repr=False)
    learns: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.frame, WatchedMapping):
            object.__setattr__(self, "frame", StoredFrame(self.frame))

    @cached_property
    def model(self) -> Any:
        """The newest accepted model when this start was chosen, and with a bias the one whose coordinate it pushes
        along; None before the first. It is read when it is asked for, once per version and process."""
        return self.load()

    def point(self, dimensions: int, seed: int) -> np.ndarray:
        """(dimensions,) float64 from 0 to 1: `draw["point"]`, and where no policy drew one, a random one of the seed.

        So a simulation whose members `Unsure` or `LatinHypercube` draws also works unsteered, as `compare` runs it.
        Raises: BadValue: what was drawn is no point of so many dimensions.
        """
        if not self.draw:
            return point_rng(seed).random(dimensions)
        point = self.draw.get("point")
        if point is None or np.shape(point) != (dimensions,) or not ((point >= 0) & (point <= 1)).all():
            raise BadValue(
                f"start.point({dimensions}, seed)",
                ", ".join(f"{name}={value}" for name, value in self.draw.items()),
                f"no point of {dimensions} numbers from 0 to 1; give the policy and @wf.held_out as many dimensions, "
                "or take what you want of start.draw",
            )
        return point


def topology(prepared: Any) -> str:
    """The atoms of what a prepare function returned, as PDB text: its attribute `pdb`; "" when it has none.

    Its atoms are in the order of the frames' `positions`. A box (CRYST1) and bonds (CONECT) help viewers.
    """
    text = getattr(prepared, "pdb", None)
    return text if isinstance(text, str) and ("ATOM" in text or "HETATM" in text) else ""
