"""A watched run -> one frame: what chose it, its lineage as a path and as a film, and what is stored of it.

A film is the frames along a lineage, from the prepared start to the frame, thinned evenly. Axes: F frames of a film.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from steersman.dashboard.live import atoms, latent_map
from steersman.dashboard.live.packing import packed
from steersman.dashboard.live.watched import Watched
from steersman.dashboard.structure import POLYMER, is_contact_map
from steersman.data import why as reasons
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.stored import ANGSTROM, POSITIONS, StoredVariable, variables
from steersman.store.names import walker_name
from steersman.system.reading import OddFile

FILM = 48  # frames
MOST_BYTES = 48 * 2**20  # of a film
HIDDEN = ("segment", "of_segment", "time")  # which are known anyhow
FEW = 4  # planes along an axis that are all shown; of more, the one in the middle
CRYST1 = (6, 9), (15, 9), (24, 9), (33, 7), (40, 7), (47, 7)  # where lengths and angles stand in its line, and how long
NO_BOX = 1.0  # angstrom: a unit cube is written where there is none


def frame(watched: Watched, walker: int, row: int) -> dict[str, Any]:
    """Why a frame is there: its segment's start, model, policy and refused alternatives; its lineage and variables.

    Returns: those of `why`, and given (what the simulation got of what was learned, in words), name, walker, row,
        lineage (of each segment: its name, and where the next one began or the frame stands as a point of the map),
        variables (name, shape, label, how to show it).
    Raises: NothingToDraw: no segment that counts made the frame.
    """
    at, table = _made_by(watched, walker, row), watched.table
    name = table.name(at)
    chain = lineage(watched, walker, row)
    places = latent_map.places(watched, chain)
    segments = [
        {
            "segment": table.name(s),
            "row": r,
            "frame": int(r - table.first[s]),
            "policy": str(table.policy[s]),
            "place": place,
        }
        for (s, _, r), place in zip(chain, places, strict=True)
    ]
    return {
        **(facts := reasons.why(watched.history, name)),
        "given": str(reasons.given(facts)),
        "name": str(table.frame(at, row)),
        "walker": walker,
        "row": row,
        "lineage": segments,
        "variables": [shown(stored) for stored, _ in pictures(watched.history).values()],
        "topology": has_topology(watched),
    }


def lineage(watched: Watched, walker: int, row: int) -> list[tuple[int, int, int]]:
    """(position of the segment, walker, row) from the first ancestor to the frame: where each next segment began."""
    table = watched.table
    chain = table.lineage(_made_by(watched, walker, row))
    rows = [*(int(table.parent_row[child]) for child in chain[1:]), row]
    return [(at, int(table.walker[at]), r) for at, r in zip(chain, rows, strict=True)]


def film(watched: Watched, walker: int, row: int, name: str, most: int = FILM) -> bytes:
    """One of `pictures` along the lineage of a frame, packed: (F, ...) `values`, and `simulated`, (F,) float32.

    Positions are in angstrom, each turned onto the last one, or as they lie in the box of a crystal or a liquid. `meta`
    holds the label, the frames' names, the kind, and what `cell` gives.

    Raises: NothingToDraw: no such frame or variable.
    """
    table, images = watched.table, pictures(watched.history)
    if name not in images:
        raise NothingToDraw(f"the frames hold no {name!r}")
    stored, (of, *plane) = images[name]
    chain = lineage(watched, walker, row)
    first = [int(table.first[s]) for s, _, _ in chain]
    lengths = np.array([r - a + 1 for (_, _, r), a in zip(chain, first, strict=True)])
    behind = np.cumsum(lengths)
    size = max(1, int(np.prod(variables(watched.history)[of].shape, dtype=np.int64))) * 4
    number = int(min(most, behind[-1], max(1, MOST_BYTES // size)))
    chosen = np.unique(np.linspace(behind[-1] - 1, 0, number).round().astype(int))
    at = np.searchsorted(behind, chosen, side="right")
    rows = [first[i] + int(k - (behind[i] - lengths[i])) for i, k in zip(at.tolist(), chosen.tolist(), strict=True)]
    walkers = [walker_name(chain[i][1]) for i in at]
    read = (watched.directory.frames.row(w, r)[of] for w, r in zip(walkers, rows, strict=True))
    values = np.stack([np.array(row[tuple(plane)]) for row in read])  # a copy: the rest of a row is given back
    names = [str(table.frame(chain[i][0], r)) for i, r in zip(at.tolist(), rows, strict=True)]
    kind = shown(stored)
    if kind["view"] == "molecule":
        scale = ANGSTROM[stored.units]
        if watched.directory.topology.exists():
            with contextlib.suppress(NothingToDraw):
                kind |= cell(topology(watched).decode(errors="replace"))
        elif atoms.known(watched.history):
            kind |= atoms.box(watched.directory.frames.row(walkers[-1], rows[-1]), scale)
        values = values.astype(np.float64) * scale
        values = values if "box" in kind else superposed(values)
    if values.dtype.kind == "c":
        kind["label"], values = f"absolute value of {kind['label']}", np.abs(values)
    elif values.dtype.kind in "mM":
        raise NothingToDraw(f"{name} holds dates, which are not drawn")
    return packed({**kind, "names": names, "frames": int(behind[-1])}, values=values)


def pictures(history: History) -> dict[str, tuple[StoredVariable, tuple[Any, ...]]]:
    """Name -> what is shown of each frame: a variable, or a plane of one with more than two axes, as one of its own;
    and where it is stored: the variable's name, and a place on each of its axes."""
    images: dict[str, tuple[StoredVariable, tuple[Any, ...]]] = {}
    for stored in variables(history).values():
        if stored.name not in HIDDEN:
            images |= {one.name: (one, (stored.name, *plane)) for one, plane in _planes(stored)}
    return images


def _planes(stored: StoredVariable) -> Iterator[tuple[StoredVariable, tuple[Any, ...]]]:
    """Those of the last two long axes, since channels may come first or last."""
    long = [axis for axis, size in enumerate(stored.shape) if size > FEW]
    kept = long[-2:] if len(long) > 1 else range(len(stored.shape))[-2:]
    places = [
        [slice(None)] if axis in kept else range(size) if size <= FEW else [size // 2]
        for axis, size in enumerate(stored.shape)
    ]
    if len(stored.shape) <= 2:
        yield stored, ()
        return
    for plane in itertools.islice(itertools.product(*places), FEW):
        at = {axis: k for axis, k in zip(stored.dims, plane, strict=True) if not isinstance(k, slice)}
        words = ", ".join(f"{axis} {k}" for axis, k in at.items())
        yield replace(
            stored,
            name=f"{stored.name}[{','.join(':' if isinstance(k, slice) else str(k) for k in plane)}]",
            long_name=f"{stored.long_name}, {words}",
            shape=tuple(stored.shape[axis] for axis in kept),
        ), plane  # fmt: skip


def shown(stored: StoredVariable) -> dict[str, Any]:
    """A variable of at most two axes, and how it is shown: molecule, points of a plane, globe, map of contacts, image,
    line or number."""
    shape, view = stored.shape, "number"
    if stored.name == POSITIONS and len(shape) == 2 and shape[1] == 3 and stored.units in ANGSTROM:
        view = "molecule"
    elif stored.name == POSITIONS and len(shape) == 2 and shape[1] == 2:
        view = "plane"
    elif stored.sphere:
        view = "globe"
    elif len(shape) == 2:
        view = "contacts" if is_contact_map(stored) else "image"
    elif len(shape) == 1 and shape[0] > 1:
        view = "line"
    across = "index" if stored.dims in ((), (f"{stored.name}_0",)) else stored.dims[-1]  # the second is no name
    said = {"name": stored.name, "shape": list(shape), "label": stored.label, "units": stored.units}
    return said | {"view": view, "across": across}


def has_topology(watched: Watched) -> bool:
    """Whether it is known what its atoms are."""
    return watched.directory.topology.exists() or atoms.known(watched.history)


def topology(watched: Watched) -> bytes:
    """The run's topology.pdb, or the species that its frames hold. Raises: NothingToDraw: there is neither."""
    try:
        content = watched.history.topology or atoms.pdb(watched.history).encode()
    except OddFile as odd:
        raise NothingToDraw(str(odd)) from None
    if not content:
        raise NothingToDraw("no topology.pdb: what `prepare` returned had no `pdb`, or an older Steersman made the run")
    return content


def cell(pdb: str) -> dict[str, Any]:
    """The box of a crystal or a liquid, (3, 3) in angstrom, and whether it is of single atoms; nothing of a polymer.

    Single atoms: each is a residue, or all are one, as programs write crystals.
    """
    lines = pdb.splitlines()
    atoms = [line for line in lines if line.startswith(("ATOM", "HETATM"))]
    residues = {line[17:27] for line in atoms}
    written = [line for line in lines if line.startswith("CRYST1")]
    if not (atoms and written) or {each[:3].strip() for each in residues} & {*POLYMER.split()}:
        return {}
    try:
        a, b, c, *angles = (float(written[0][at : at + n]) for at, n in CRYST1)
    except ValueError:
        return {}
    alpha, beta, gamma = np.cos(np.radians(angles))
    sine = np.sqrt(1 - gamma**2)
    x, y = beta, (alpha - beta * gamma) / sine if sine > 0 else np.nan
    box = np.array([[a, 0, 0], [b * gamma, b * sine, 0], [c * x, c * y, c * np.sqrt(max(0.0, 1 - x**2 - y**2))]])
    if not (np.isfinite(box).all() and np.diag(box).min() > NO_BOX):
        return {}
    return {"box": box.tolist(), "single": len(residues) in (1, len(atoms)) and "\nCONECT" not in pdb}


def superposed(positions: np.ndarray) -> np.ndarray:
    """(F, N, 3) -> the same, centred, each turned onto the last one (Kabsch).

    Source: Kabsch (1976), A solution for the best rotation to relate two sets of vectors.
    """
    centred = positions - positions.mean(axis=1, keepdims=True)
    u, _, v = np.linalg.svd(centred.transpose(0, 2, 1) @ centred[-1])
    u[:, :, 2] *= np.sign(np.linalg.det(u @ v))[:, None]
    return np.asarray(centred @ (u @ v))


def _made_by(watched: Watched, walker: int, row: int) -> int:
    at = int(watched.table.of_frames(np.array([walker]), np.array([row]))[0])
    if at < 0:
        raise NothingToDraw(f"no segment that counts made row {row} of walker {walker_name(walker)}")
    return at
