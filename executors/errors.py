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
    """Globus, or an endpoint of it, does not answer now; runs at sites continue."""

    problem: str


class Refused(EngineError):
    """A scheduler refuses, in its own words, or does not answer."""

    words: str


def unreached(problem: str) -> ServiceSilent:
    return ServiceSilent(f"Globus Compute cannot be reached: {problem}; runs at sites continue: try again later")
