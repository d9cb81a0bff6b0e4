"""Where an epoch's time went adds up to the epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from steersman.models import CVAE
from steersman.models.fitting.profile import COMPUTING

Chains = Callable[..., np.ndarray]


def test_the_labels_add_up_to_an_epoch(chains: Chains, tmp_path: Path) -> None:
    """To 95 % at least, each epoch, also in the saved card; alone there is next to nothing to exchange."""
    CVAE.fit(chains(1000, 10), epochs=3).save(tmp_path)
    for record in CVAE.load(tmp_path).history:
        assert record["TotalCompTime"] == pytest.approx(sum(record[label] for label in COMPUTING))
        assert 0.95 * record["seconds"] <= record["TotalCompTime"] + record["SyncTime"] <= record["seconds"]
        assert record["SyncTime"] < 0.05 * record["seconds"]
        assert min(record[label] for label in COMPUTING) > 0
