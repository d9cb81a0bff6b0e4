"""The figure of a run: nothing before there is something to compare, and the errors that it names."""

from __future__ import annotations

import numpy as np

from steersman.apps.cosmology import CROPS, DIMENSIONS, targets
from steersman.apps.cosmology.figures import found
from steersman.apps.cosmology.universe import WIDTH


def test_it_shows_what_was_found_beside_what_is_true() -> None:
    rng = np.random.default_rng(0)
    points, held_out = rng.random((40, DIMENSIONS)), np.arange(40) < 10
    off = np.where(rng.random((40, CROPS, DIMENSIONS)) < 0.5, -0.2, 0.2)
    values = {
        "point": points,
        "found": targets(points)[:, None] + off,
        "summary": points[:, None].repeat(CROPS, axis=1),
        "spread": rng.random(40),
    }
    drawn = found(values, held_out)
    assert drawn is not None
    titles = [axes.get_title() for axes in drawn[0].axes[:DIMENSIONS]]
    assert all(f"network {0.1 * width:.3f}" in title for title, width in zip(titles, WIDTH, strict=True))
    assert found({}, held_out) is None
    assert found(values, np.zeros(40, bool)) is None
