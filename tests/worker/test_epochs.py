"""How far a training is, sent by the way."""

from __future__ import annotations

from typing import Any

from steersman.bus import ServerLost
from steersman.worker.epochs import EpochSender


class Space:
    """A bus that remembers, and then is gone."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def put(self, name: str, kind: str, fields: dict[str, Any]) -> None:
        if fields["epoch"] > 90_000:
            raise ServerLost("here", 1.0, "gone")
        self.heard.append(fields)


def test_a_long_training_is_heard_of_seldom_and_a_short_one_not_at_all() -> None:
    """Epochs of a second for a day: after 20 s each time that 5 % more have passed: log(86400 / 20) / log(1.05),
    172 times. A bus that is gone is no reason to stop."""
    space, now = Space(), [100.0]
    sender = EpochSender(space, version=3, clock=lambda: now[0])  # type: ignore[arg-type]
    for done in range(1, 86_401):
        now[0] += 0.4 if done == 1 else 1.0
        sender(done, 100_000, {"loss": 2.0, "seconds": 1.0})
    epochs = [epoch["epoch"] for epoch in space.heard]
    assert epochs[:3] == [2, 3, 4]
    assert 150 < len(epochs) < 20 + 172
    assert space.heard[0] == {"model": 3, "epoch": 2, "epochs": 100_000, "loss": 2.0}
    sender(90_001, 100_000, {"loss": 2.0})
