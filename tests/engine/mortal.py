"""A driver that dies when so many records were written."""

from __future__ import annotations

from typing import TypeVar

from steersman.journal.recorder import Recorder
from steersman.journal.records import Record

R = TypeVar("R", bound=Record)


class Killed(Exception):
    pass


class Mortal(Recorder):
    left = 10**9

    def record_all(self, several: list[R]) -> list[R]:
        if self.left <= 0:
            raise Killed
        self.left -= 1
        return super().record_all(several)
