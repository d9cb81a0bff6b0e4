"""What a simulation is given of what was learned: the model of its start, and what pushes it."""

from __future__ import annotations

from typing import NamedTuple

TYPES = (("with_model", "i4"), ("bias", "i4"), ("share", "f4"))  # of its fields, as columns


class Given(NamedTuple):
    """Fields of the record of a start, and columns of every table of starts and segments.

    Args:
        with_model: version of the model that simulate gets as `start.model`; 0: none.
        bias: version of the bias that pushes it; 0: none.
        share: of the energy of that bias; 1 unless its start had failed, 0 of a control.
    """

    with_model: int = 0
    bias: int = 0
    share: float = 1.0

    @property
    def versions(self) -> set[tuple[str, int]]:
        """Of models and biases, which may be set aside."""
        return {("model", self.with_model), ("bias", self.bias)}

    def __str__(self) -> str:
        """What it was given, or ""."""
        share = f" with {100 * self.share:g} % of its energy" if self.share < 1 else ""
        pushed = f"pushed by bias {self.bias}{share}" if self.bias else "" if self.share else "a control"
        return ", ".join(filter(None, (f"model {self.with_model}" if self.with_model else "", pushed)))
