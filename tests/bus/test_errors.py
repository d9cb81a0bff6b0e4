"""Errors of the bus."""

import steersman.bus
from steersman.bus import errors


def test_whoever_uses_the_bus_alone_can_catch_each_of_its_errors() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.BusError):
            assert getattr(steersman.bus, name) is kind
