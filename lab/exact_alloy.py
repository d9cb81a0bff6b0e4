"""The energies of all 8,043 different configurations of Cu24Au8, for apps/alloys/cu24au8.npz: some ten minutes.

python -m lab.exact_alloy
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from ase import Atoms

from steersman.apps.alloys import exact
from steersman.workflows import order


def main() -> None:
    """Relax every orbit once, as `steersman run order` does it."""
    lattice = order.lattice(exact.GOLD)
    relaxed: Callable[[Atoms], float] = order.energy
    gold, size, _ = exact.orbits()
    configurations = np.argsort(~gold, axis=1, kind="stable")
    energy = np.array([relaxed(lattice.atoms(each)) for each in configurations])
    ordered = lattice.order(torch.from_numpy(configurations))
    np.savez_compressed(
        exact.FILE, energy=energy.astype(np.float32), order=ordered.astype(np.float32), size=size.astype(np.int16)
    )


if __name__ == "__main__":
    main()
