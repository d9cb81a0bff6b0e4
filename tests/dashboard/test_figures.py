"""Figures: not blank, true to the run, and readable when there is much to draw."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from threadpoolctl import threadpool_info, threadpool_limits

from steersman.dashboard import figures, structure, style
from steersman.dashboard.live.frame import shown
from steersman.dashboard.live.views import models, stages
from steersman.dashboard.live.watched import Watched
from steersman.data import slot_time, stored
from steersman.data.history import History
from steersman.data.scored import Plane, ScoredFrames, plane
from steersman.data.stored import StoredVariable, on_sphere, variables, whole
from steersman.journal.file import Journal
from steersman.journal.records import Start
from steersman.journal.run_directory import RunDirectory
from steersman.store import FRAME, Frames, GroupWriter, Variable
from steersman.system.reading import OddFile


@pytest.fixture
def history(reported: RunDirectory) -> History:
    return History(reported)


@pytest.mark.slow
@pytest.mark.parametrize("name", figures.FIGURES)
def test_no_figure_is_blank(history: History, name: str) -> None:
    with style.applied():
        figure, caption = figures.drawn(figures.FIGURES[name][1], history)
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3]  # type: ignore[attr-defined]
    assert pixels.std() > 5
    assert caption.endswith(".")


@pytest.mark.slow
def test_the_same_run_gives_the_same_figures(history: History, tmp_path: Path) -> None:
    few = {name: figures.FIGURES[name] for name in ("sampled", "bias")}
    first, second = (figures.draw_all(history, tmp_path, few) for _ in range(2))
    assert [drawing.svg for drawing in first] == [drawing.svg for drawing in second]


@pytest.mark.parametrize("odd", ["link", "huge"])
def test_a_strangers_file_of_atoms_is_read_like_the_others(odd: str, finished: RunDirectory, tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere.pdb").write_text("ATOM")
    finished.topology.unlink(missing_ok=True)
    if odd == "link":
        finished.topology.symlink_to(elsewhere)
    else:
        finished.topology.touch()
        os.truncate(finished.topology, 2**40)
    with pytest.raises(OddFile):
        structure.quantities(History(finished))


def test_a_run_that_lost_its_scores_or_frames_says_what_is_missing(finished: RunDirectory, tmp_path: Path) -> None:
    for name in ("scores.zarr", "frames.zarr"):
        (finished.path / name).rename(tmp_path / name)
    few = {name: figures.FIGURES[name] for name in ("sampled", "sphere")}
    told = [drawing.trouble for drawing in figures.draw_all(History(finished), tmp_path, few)]
    assert told == [
        "there is nothing to draw: no frame has been scored",
        "there is nothing to draw: the frames hold no vorticity on a Gaussian grid (latitude, longitude)",
    ]


def test_the_shares_of_the_slots_time_add_up_to_one(history: History) -> None:
    found = slot_time.shares(history.state, history.state.now)
    assert sum(found.values()) == pytest.approx(1.0)
    # Two walkers for 1 s of start, 12 segments of 0.5 s, and 3 s until the run ends.
    assert found[slot_time.STARTING] == pytest.approx(1.0 / 10)
    assert found[slot_time.SIMULATING] == pytest.approx(12 * 0.48 / 10)


def test_every_frame_is_traced_to_its_segment(history: History) -> None:
    scored, segments = ScoredFrames(history), history.segments
    assert len(scored) == 2 * 12 * 5
    assert (np.bincount(scored.segment) == 5).all()
    assert (segments.began[scored.segment] < scored.moment).all()
    assert (scored.moment <= segments.ended[scored.segment]).all()


def test_descendants_and_generations_agree(history: History) -> None:
    """Every segment counts once for each of its ancestors."""
    assert history.segments.descendants().sum() == history.segments.generations().sum()


def test_principal_components_keep_distances() -> None:
    """Points of a plane in five dimensions are seen at their distances."""
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(50, 2))
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0][:2]
    seen = plane("z", flat @ turn)
    assert np.linalg.norm(seen.points[0] - seen.points[1]) == pytest.approx(np.linalg.norm(flat[0] - flat[1]))
    assert "100" not in seen.labels[1]


def test_points_at_one_place_count_as_one() -> None:
    points = np.array([[0.0, 0.0], [1e-9, 0.0], [1.0, 1.0]])
    assert len(set(Plane(points, ("a", "b")).places())) == 2


def test_the_radius_of_gyration_of_a_shell_is_its_radius() -> None:
    directions = np.random.default_rng(0).normal(size=(1, 1000, 3))
    shell = 2.0 * directions / np.linalg.norm(directions, axis=-1, keepdims=True)
    both = np.concatenate([shell, -shell], axis=1)  # symmetric, so that its centre is exactly 0
    assert structure.radius_of_gyration(both + 5.0) == pytest.approx(2.0)


PDB = "ATOM  {i:5d}  {atom:<4}{residue:<4}{chain}{number:4d}       0.000   0.000   0.000"


@pytest.mark.parametrize(
    ("residues", "one"),
    [
        ([("ALA", "A"), ("GLY", "A"), ("NME", "A")], True),
        ([("BNZ", "A")], True),
        ([("AR", "A"), ("AR", "A")], False),
        ([("HOH", "A"), ("HOH", "A")], False),
        ([("ALA", "A"), ("GLY", "A"), ("HOH", "A")], False),
        ([("ALA", "A"), ("GLY", "B")], False),
        ([], False),
    ],
)
def test_only_one_molecule_has_a_radius_of_gyration(residues: list[tuple[str, str]], one: bool) -> None:
    lines = [PDB.format(i=i, atom="X", residue=r, chain=c, number=i) for i, (r, c) in enumerate(residues)]
    assert structure.is_one_molecule("\n".join([*lines, "TER", "END"])) is one


def quantity(blocks: list[tuple[np.ndarray, np.ndarray]]) -> tuple[Axes, str]:
    """Axes and words of one that has these times and values."""
    now = SimpleNamespace(now=float(len(blocks)))
    history = SimpleNamespace(clock=SimpleNamespace(progress=lambda moments: moments), state=now)
    with style.applied(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(structure, "whole", lambda *_: None)
        patch.setattr(structure, "blocks", lambda *_: (SimpleNamespace(moments=x, values=y) for x, y in blocks))
        axes = style.sheet(2).subplots()
        return axes, structure.over_time(axes, history, "x", None, lambda values: values)  # type: ignore[arg-type]


@pytest.mark.parametrize("segments", [4, 400])
def test_medians_of_few_segments_are_not_joined(segments: int) -> None:
    """Two walkers of which nothing is alike: each segment is a line of its own, or each bin holds many."""
    blocks = [(np.full(10, float(i)) + np.linspace(0, 1, 10), np.full(10, float(i % 2))) for i in range(segments)]
    axes, _ = quantity(blocks)
    joined = [len(set(np.asarray(line.get_ydata()).tolist())) for line in axes.lines]
    assert joined == [1] * (segments if segments == 4 else 1)


def test_the_line_of_a_number_is_the_median_of_all_its_frames(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not of those few that are drawn as dots, which are some of each of some segments."""
    energy, segments = variables(history)["energy"], history.segments
    every = whole(history, energy)
    assert every is not None
    one_by_one = [history.directory.frames.read("energy", span) for span in segments.spans(segments.made)]
    np.testing.assert_array_equal(np.sort(every.values), np.sort(np.concatenate(one_by_one)))
    for values, i in zip(one_by_one, segments.made, strict=True):
        mine = (every.moments > segments.began[i]) & (every.moments <= segments.ended[i])
        assert np.isin(values, every.values[mine]).all()
    monkeypatch.setattr(stored, "MOST_WHOLE", 8)
    assert whole(history, energy) is None


@pytest.mark.parametrize("wild", [0, 3])
def test_what_lies_beyond_an_axis_is_said(wild: int) -> None:
    blocks = [(np.full(10, float(i)), np.linspace(0, 1, 10)) for i in range(400)]
    for i in range(wild):
        blocks[50 * i][1][0] = 1000.0 + i
    axes, said = quantity(blocks)
    assert (axes.get_ylim()[1] < 2, "beyond" in said) == (True, wild > 0)
    assert ("3 of 4,000" in said, "1002" in said) == (wild > 0, wild > 0)


SPHERES: list[tuple[tuple[str, ...], dict[str, str], bool]] = [
    (("lat", "lon"), {}, True),
    (("Latitude", "longitude"), {}, True),
    (("y", "x"), {"y": "degrees_north", "x": "degrees_east"}, True),
    (("y", "x"), {"y": "m", "x": "m"}, False),
    (("y", "x"), {}, False),
    (("lon", "lat"), {}, False),
    (("lat",), {}, False),
]


@pytest.mark.parametrize(("dims", "units", "sphere"), SPHERES)
def test_a_field_is_on_the_sphere_by_its_dimensions_and_not_by_its_shape(
    dims: tuple[str, ...], units: dict[str, str], sphere: bool
) -> None:
    assert on_sphere(dims, units) is sphere


def test_fields_that_are_stored_say_whether_they_are_on_the_sphere(tmp_path: Path) -> None:
    """By the names that the workflow gives, or the units of its coordinates; of another shape than a Gaussian grid's
    nothing is known."""
    degrees = {
        "y": Variable(units="degrees_north", points=np.arange),
        "x": Variable(units="degrees_east", points=np.arange),
    }
    fields = {"plane": (("row", "column"), (4, 8)), "named": (("lat", "lon"), (4, 8)), "units": (("y", "x"), (3, 6))}
    fields["other"] = (("latitude", "longitude"), (4, 6))
    writer = GroupWriter(
        tmp_path / "w0", variables=degrees | {name: Variable(dims) for name, (dims, _) in fields.items()}
    )
    writer.append(FRAME, {name: np.zeros(shape) for name, (_, shape) in fields.items()} | {"time": 0.0})
    writer.close()
    history: Any = SimpleNamespace(directory=SimpleNamespace(frames=Frames(tmp_path)))
    assert {name for name, each in variables(history).items() if each.sphere} == {"named", "units"}


def test_positions_in_a_plane_are_points() -> None:
    kinds = {shown(StoredVariable(name, (7, 2), "f", "1", name))["view"] for name in ("positions", "forces")}
    assert kinds == {"plane", "image"}


def test_a_line_runs_along_its_dimension() -> None:
    profile = StoredVariable("u", (40,), "f", "1", "u", ("depth",))
    assert [shown(each)["across"] for each in (profile, replace(profile, dims=("u_0",)))] == ["depth", "index"]


def test_a_planar_field_of_twice_as_many_columns_is_an_image() -> None:
    plane = StoredVariable("u", (40, 80), "f", "1", "u")
    assert [shown(each)["view"] for each in (plane, replace(plane, sphere=True))] == ["image", "globe"]


def test_only_what_is_called_contacts_is_a_map_of_residues() -> None:
    near = StoredVariable("contacts", (10, 10), "b", "1", "contacts")
    others = (replace(near, name="raster"), replace(near, kind="f"), replace(near, shape=(10, 9)))
    assert [shown(each)["view"] for each in (near, *others)] == ["contacts", "image", "image", "image"]


def test_neighbours_along_the_chain_are_no_contacts() -> None:
    near = np.abs(np.subtract.outer(np.arange(6), np.arange(6))) < structure.NEAR
    assert structure.number_of_contacts(near[None]) == [0]
    assert structure.number_of_contacts(np.ones((1, 6, 6), bool)) == [3 + 2 + 1]


def test_versions_are_named_as_far_as_their_names_have_room() -> None:
    for moments, named in (([(10.0, 1), (50.0, 2)], True), ([(10.0, 1), (15.0, 2)], False)):
        axes = style.sheet(2.0).subplots()
        axes.set_xlim(0, 100)
        style.mark_models(axes, moments)
        assert [text.get_text() for text in axes.texts] == ["model 1", "model 2"] if named else ["1", "2"]


def test_a_figure_is_drawn_with_one_thread() -> None:
    """On busy cores more would wait for each other: a forecast of shallow water took eight times as long."""
    with threadpool_limits(2):
        before = threadpool_info()
        with style.applied():
            assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        assert threadpool_info() == before


def test_an_axis_of_values_that_hardly_differ_says_them_whole() -> None:
    with style.applied():
        figure = style.sheet(2)
        axes = figure.subplots()
        axes.plot([12.2401, 12.2403])
        figure.canvas.draw()
    assert axes.yaxis.get_offset_text().get_text() == ""


def test_a_figure_of_a_user_is_not_clipped() -> None:
    """It has no layout: a label below it belongs to it all the same."""
    with style.applied():
        figure = Figure(figsize=(3, 1))
        figure.add_axes((0, 0, 1, 1)).set_xlabel("time\n" * 9)
        heights = [float(text.partition('height="')[2].partition("pt")[0]) for text in (figures.svg_of(figure),)]
        ours = figures.svg_of(style.sheet(1.0))
    assert heights[0] > 2 * 72
    assert 'height="72pt"' in ours


def test_settings_of_a_workflow_file_do_not_cost_the_report_its_figures() -> None:
    with matplotlib.rc_context({"text.usetex": True}), style.applied():
        figure = style.sheet(1.0)
        figure.subplots().set_title("no LaTeX is needed")
        assert "<svg" in figures.svg_of(figure)


def test_a_policy_keeps_its_colour() -> None:
    assert style.policy_colour("Novelty") != style.policy_colour("LocalOutlierFactor")
    for run in (["Edge", "Novelty"], ["Novelty", "Edge", "Wide"], ["LocalOutlierFactor", "Edge", "Wide", "continue"]):
        assert len({style.policy_colour(policy, run) for policy in run}) == len(run)
        assert style.policy_colour("Edge", run) == style.policy_colour("Edge", run[::-1])
    assert style.words("LocalOutlierFactor") == "local outlier factor"
    assert [style.words(name) for name in ("A", "a", "RMSD", "radius_nm")] == ["A", "a", "RMSD", "radius (nm)"]


def test_a_start_that_is_run_again_was_chosen_once(finished: RunDirectory) -> None:
    """The chart, the graph of stages and `status` say one number."""
    journal = Journal(finished.journal)
    journal.append(Start(start=900, seed=1, policy="Novelty"), Start(start=901, seed=1, policy="Novelty", again=900))
    journal.close()
    watched = Watched.of(History(finished))
    number = sum(watched.history.overview().starts.values())
    assert sum(map(sum, models.chosen(watched)["by_policy"])) == number
    assert {"starts": f"{number:,}"} in [stage["counts"] for stage in stages.answer(watched)["stages"]]
