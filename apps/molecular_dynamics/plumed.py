"""A model, its features and a bias -> the input of PLUMED: for GROMACS, LAMMPS and others that are built with it.

Units: nm, ps, kJ/mol. Nothing here is PLUMED; its files are text. Distances are to the nearest images there, because
programs wrap molecules: a molecule is to be shorter than half of its box.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from steersman.apps.molecular_dynamics.biasing import coordinate
from steersman.apps.molecular_dynamics.features import Features
from steersman.steering import Bias

GRID, COLVAR, NETWORK = "bias.grid", "colvar", "model.pt"
NODES = 100_000  # of the grid: PLUMED's splines know no mixed slopes, so on the bias's own nodes they go other ways
SHIFT = 1e4  # kJ/mol of the grid: its splines divide slopes by energies, which must not come near zero
INSIDE = 1e-9  # of the table's length: PLUMED refuses the very end


def write(
    folder: Path, features: Features, *, stride: int, bias: Bias | None = None, model: Any = None, kT: float
) -> None:
    """Write `plumed.dat`, and with a bias its table `bias.grid`, for one segment.

    A network with more than one hidden layer is `model.pt`, which PLUMED reads if it was built with libtorch.

    PLUMED then writes time, features and the energy of the bias in kJ/mol into the file `colvar`, see `columns`.

    Args:
        folder: where the program runs.
        stride: steps between two lines.
        bias, model: `start.bias` and `start.model`.
        kT: kJ/mol, of the program's thermostat.
    Raises: BadValue: the features are not those of the model. BadInput.
    """
    lines = ["UNITS LENGTH=nm ENERGY=kj/mol TIME=ps", *features.plumed()]
    printed = [f"f{n}" for n in range(features.count)]
    if bias is not None:
        lines += [
            *_coordinate(folder, features, model, bias),
            f"bias: EXTERNAL ARG={_labels('w', bias.dimensions)} FILE={GRID}",
        ]
        lines.append(f"energy: COMBINE ARG=bias.bias PARAMETERS={SHIFT!r} PERIODIC=NO")
        printed.append("energy")
        (folder / GRID).write_text(table(bias, kT))
    lines.append(f"PRINT ARG={','.join(printed)} FILE={COLVAR} STRIDE={stride} FMT=%.8g")
    (folder / "plumed.dat").write_text("\n".join(lines) + "\n")


def columns(line: str, features: Features, kT: float) -> tuple[float, np.ndarray, float]:
    """One line of `colvar`: time in ps, features (F,), and the energy of the bias in kT, 0 without one."""
    time, *values = map(float, line.split())
    return time, np.array(values[: features.count]), sum(values[features.count :]) / kT


def table(bias: Bias, kT: float) -> str:
    """The bias as PLUMED reads a grid: energy and slopes at the nodes, the first dimension fastest.

    Args:
        kT: kJ/mol.
    """
    names = [f"w{j}" for j in range(bias.dimensions)]
    finer = max(1, int((NODES / bias.table.size) ** (1 / bias.dimensions)))
    axes = [np.linspace(axis[0], axis[-1], finer * (len(axis) - 1) + 1) for axis in bias.axes]
    head = [f"#! FIELDS {' '.join(names)} bias.bias {' '.join(f'der_{name}' for name in names)}"]
    for name, axis in zip(names, axes, strict=True):
        head += [f"#! SET min_{name} {float(axis[0])!r}", f"#! SET max_{name} {float(axis[-1])!r}"]
        head += [f"#! SET nbins_{name} {len(axis)}", f"#! SET periodic_{name} false"]
    nodes = np.stack([each.ravel(order="F") for each in np.meshgrid(*axes, indexing="ij")], axis=1)
    slopes = np.stack([bias.slope(nodes, j) for j in range(bias.dimensions)], axis=1)
    rows = np.column_stack([nodes, SHIFT + kT * bias.energy(nodes), kT * slopes])
    return "\n".join([*head, *(" ".join(f"{value:.14g}" for value in row) for row in rows)]) + "\n"


def _coordinate(folder: Path, features: Features, model: Any, bias: Bias) -> list[str]:
    """Lines that define w0, w1, ...: the coordinate of the model, without periods and within the table."""
    names, lines = [f"f{n}" for n in range(features.count)], list[str]()
    layers = coordinate(features, model).layers
    if len(layers) > 2:  # two actions for each unit would be slow
        from steersman.models import Perceptron, portable

        portable.write(Perceptron.of_tanh(layers), folder / NETWORK)
        lines.append(f"net: PYTORCH_MODEL FILE={NETWORK} ARG={','.join(names)}")
        names, layers = [f"net.node-{j}" for j in range(bias.dimensions)], []
    for depth, (weights, offsets) in enumerate(layers):
        last = depth == len(layers) - 1
        for i, (row, offset) in enumerate(zip(weights, offsets, strict=True)):
            numbers = ",".join(repr(float(weight)) for weight in row)
            lines.append(f"s{depth}_{i}: COMBINE ARG={','.join(names)} COEFFICIENTS={numbers} PERIODIC=NO")
            function = f"x+({float(offset)!r})" if last else f"tanh(x+({float(offset)!r}))"
            lines.append(f"t{depth}_{i}: CUSTOM ARG=s{depth}_{i} FUNC={function} PERIODIC=NO")
        names = [f"t{depth}_{i}" for i in range(len(offsets))]
    for j, (name, axis, period) in enumerate(zip(names, bias.axes, bias.periods.tolist(), strict=True)):
        low, high = float(axis[0]), float(axis[-1] - INSIDE * (axis[-1] - axis[0]))
        value = f"x-{period!r}*floor(x/{period!r})" if period else "x"
        lines.append(f"w{j}: CUSTOM ARG={name} FUNC=min(max({value},{low!r}),{high!r}) PERIODIC=NO")
    return lines


def _labels(letter: str, count: int) -> str:
    return ",".join(f"{letter}{n}" for n in range(count))
