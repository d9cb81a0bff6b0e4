"""The trainings of a run, one for each version of its model."""

from __future__ import annotations

from steersman.journal.walkers import ModelVersion


class Trainings(list[ModelVersion]):
    """In order of their versions."""

    @property
    def newest(self) -> int:
        """Version of the newest accepted model, 0 before there is one."""
        return max((model.version for model in self if model.accepted), default=0)

    @property
    def usable(self) -> set[int]:
        """Versions that are accepted, and 0, that of none."""
        return {0, *(model.version for model in self if model.accepted)}

    @property
    def under_way(self) -> ModelVersion | None:
        return self[-1] if self and self[-1].accepted is None else None

    @property
    def last_frames(self) -> int | None:
        """How many frames were published when the last one began."""
        return self[-1].frames if self else None

    @property
    def last_labels(self) -> int | None:
        """How many labels there were then."""
        return self[-1].labels if self else None
