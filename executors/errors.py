"""What can be wrong with a site."""

from __future__ import annotations

from steersman.system.errors import BadInput, EngineError


class BadSite(BadInput):
    """A site file that cannot be used, or a scheduler that refuses it."""

    site: str
    problem: str

    def __str__(self) -> str:
        return f"site {self.site}: {self.problem}"


class ServiceSilent(EngineError):
    """Globus cannot be reached from here."""

    problem: str

    def __str__(self) -> str:
        return f"Globus Compute cannot be reached: {self.problem}; runs at sites continue: try again later"


class Refused(EngineError):
    """A scheduler refuses, in its own words, or does not answer."""

    words: str

    def __str__(self) -> str:
        return self.words
