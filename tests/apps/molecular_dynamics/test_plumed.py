"""PLUMED's input: its lines are read and computed by numpy, and beside that stand the energies that PLUMED gave.

They are those of PLUMED 2.11-dev of July 2026, built with libtorch: `plumed driver --ixyz` on the trajectory of `path`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from steersman.apps.molecular_dynamics import (
    Angles,
    Contacts,
    Coordinates,
    Distances,
    Features,
    SideBySide,
    Torsions,
    dihedral,
    plumed,
)
from steersman.steering import Bias
from tests.apps.molecular_dynamics.test_biasing import Dense, Layers, bias_around, coordinate_of, network

KT = 2.494
FUNCTIONS = {name: getattr(np, name) for name in ("tanh", "cos", "sin", "floor")} | {
    "min": np.minimum,
    "max": np.maximum,
}


def computed(text: str, positions: np.ndarray, folder: Path) -> dict[str, float]:
    """The value of each label; a network gets a row in single precision, as PLUMED's module for libtorch makes it."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        label, colon, rest = line.partition(": ")
        if not colon:
            continue
        action, *words = rest.split()
        given = dict(word.partition("=")[::2] for word in words)
        atoms = [int(atom) - 1 for atom in given.get("ATOMS", given.get("ATOM", "")).split(",") if atom]
        names = given.get("ARG", "").split(",")
        match action:
            case "DISTANCE":
                values[label] = float(np.linalg.norm(positions[atoms[0]] - positions[atoms[1]]))
            case "TORSION":
                values[label] = float(dihedral(positions[atoms]))
            case "POSITION":
                values |= {f"{label}.{axis}": float(positions[atoms[0], i]) for i, axis in enumerate("xyz")}
            case "COORDINATION":
                one, other = (int(given[name]) - 1 for name in ("GROUPA", "GROUPB"))
                at = float(re.search(r"R_0=([\d.]+)", line)[1])  # type: ignore[index]
                ratio = np.linalg.norm(positions[one] - positions[other]) / at
                values[label] = float((1 - ratio**6) / (1 - ratio**12))
            case "COMBINE":
                factors = [float(factor) for factor in given.get("COEFFICIENTS", "1").split(",")]
                less = float(given.get("PARAMETERS", "0"))
                values[label] = sum(f * (values[name] - less) for f, name in zip(factors, names, strict=True))
            case "EXTERNAL":
                values[f"{label}.bias"] = on_grid(folder / given["FILE"], np.array([values[name] for name in names]))
            case "PYTORCH_MODEL":
                row = torch.tensor([[values[name] for name in names]], dtype=torch.float32)
                outputs = torch.jit.load(folder / given["FILE"])(row)  # type: ignore[no-untyped-call]
                assert outputs.dtype == torch.float32
                values |= {f"{label}.node-{j}": float(value) for j, value in enumerate(outputs.detach()[0])}
            case "CUSTOM":
                values[label] = float(eval(given["FUNC"], {"__builtins__": {}}, {**FUNCTIONS, "x": values[names[0]]}))
    return values


def on_grid(file: Path, at: np.ndarray) -> float:
    """As PLUMED reads a grid without periods: `nbins` is the number of nodes, and between two of them a cubic of their
    values and slopes stands for each dimension, as a share of the value of the corner."""
    lines = file.read_text().splitlines()
    head = dict(line.split()[2:] for line in lines if line.startswith("#! SET"))
    low, high = (np.array([float(head[f"{end}_w{j}"]) for j in range(len(at))]) for end in ("min", "max"))
    counts = [int(head[f"nbins_w{j}"]) for j in range(len(at))]
    step = (high - low) / (np.array(counts) - 1)
    rows = np.array([line.split() for line in lines if not line.startswith("#!")], float)
    nodes = rows.reshape(*counts[::-1], -1).swapaxes(0, len(at) - 1)  # the first dimension is the fastest
    first, total = np.floor((at - low) / step).astype(int), 0.0
    for corner in np.ndindex(*[2] * len(at)):
        _, value, slopes = np.split(nodes[tuple(first + corner)], [len(at), len(at) + 1])
        t = np.abs((at - low) / step - first - corner)
        side = 1 - 2 * np.array(corner)
        total += float(value[0] * np.prod(1 - 3 * t**2 + 2 * t**3 + side * slopes / value * step * t * (1 - t) ** 2))
    return total


@pytest.fixture
def path() -> np.ndarray:
    """(60, 6, 3): six atoms that move a little, nm."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(6, 3)) * 0.3 + 0.03 * rng.normal(size=(60, 6, 3)).cumsum(axis=0)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("features", "hidden", "periods", "energies"),
    [
        (Distances(((0, 3), (1, 4), (2, 5))), [], 0.0, [-1.59518, -0.24451, 0.11245]),
        (Distances(((0, 3), (1, 4), (2, 5))), [4], 0.0, [-2.10204, -0.01837, -0.79247]),
        (Torsions(((0, 1, 2, 3), (2, 3, 4, 5))), [3], 0.0, [-1.73507, 0.33536, -0.06902]),
        (Torsions(((0, 1, 2, 3), (2, 3, 4, 5))), [5, 4], 0.0, [-5.93257, 0.19566, -1.56051]),
        (Coordinates((0, 5)), [], 0.0, [-0.50796, -0.34893, -1.55101]),
        (
            SideBySide((Torsions(((0, 1, 2, 3),)), Contacts(((0, 3), (1, 4))), Coordinates((5,)))),
            [],
            0.0,
            [-5.10087, -0.60751, -0.03021],
        ),
        (Angles(((0, 1, 2, 3), (2, 3, 4, 5))), None, 2 * np.pi, [-7.72105, 0.34624, -1.43148]),
    ],
)
def test_its_lines_compute_the_coordinate_of_the_model(
    tmp_path: Path,
    path: np.ndarray,
    features: Features,
    hidden: list[int] | None,
    periods: float,
    energies: list[float],
) -> None:
    """And the energy of the bias, which PLUMED itself gave at three frames."""
    layers: Layers = network([features.count, *hidden, 2]) if hidden is not None else [(np.eye(2), np.zeros(2))]
    z = coordinate_of(layers, features)
    bias = bias_around(z(path), periods)
    model = None if hidden is None else Dense(layers)
    plumed.write(tmp_path, features, stride=50, bias=bias, model=model, kT=KT)
    text = (tmp_path / "plumed.dat").read_text()
    assert ("PYTORCH_MODEL" in text) == (tmp_path / "model.pt").exists() == (len(layers) > 2)
    for positions, energy in zip(path[::20], energies, strict=True):
        values = computed(text, positions, tmp_path)
        assert [values[f"f{n}"] for n in range(features.count)] == pytest.approx(features.values(positions))
        found = np.array([values["w0"], values["w1"]])
        np.testing.assert_allclose(found, bias.wrapped(z(positions)[None])[0], atol=1e-6)
        assert values["energy"] / KT == pytest.approx(energy, abs=1e-4)
        assert bias.energy(z(positions)[None])[0] == pytest.approx(energy, abs=1e-4)


def test_its_grid_is_the_bias_and_its_slopes(tmp_path: Path, path: np.ndarray) -> None:
    bias: Bias = bias_around(path[:, :2, 0])
    head, rows = [], []
    for line in plumed.table(bias, KT).splitlines():
        head.append(line) if line.startswith("#!") else rows.append([float(word) for word in line.split()])
    grid = np.array(rows)
    assert head[0] == "#! FIELDS w0 w1 bias.bias der_w0 der_w1"
    assert f"#! SET nbins_w1 {len(np.unique(grid[:, 1]))}" in head
    assert (grid[1:, 0] != grid[:-1, 0]).all()  # the first one is the fastest
    np.testing.assert_allclose(grid[:, 2] - plumed.SHIFT, KT * bias.energy(grid[:, :2]), atol=1e-8)
    inside = (bias.wrapped(grid[:, :2]) == grid[:, :2]).all(axis=1)
    np.testing.assert_allclose(grid[inside, 3:], KT * bias.gradient(grid[inside, :2]), atol=1e-9)


def test_what_it_prints_is_read_in_kT(tmp_path: Path) -> None:
    features = Distances(((0, 3), (1, 4)))
    plumed.write(tmp_path, features, stride=10, kT=KT)
    assert "EXTERNAL" not in (tmp_path / "plumed.dat").read_text()
    time, values, bias = plumed.columns("0.4 0.31 0.52", features, KT)
    assert (time, values.tolist(), bias) == (0.4, [0.31, 0.52], 0.0)
    assert plumed.columns("0.4 0.31 0.52 -4.988", features, KT)[2] == pytest.approx(-2.0)
