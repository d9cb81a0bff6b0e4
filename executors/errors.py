"""What can be wrong with a site."""

from __future__ import annotations


class BadSite(ValueError):
    """A site file that cannot be used, or a scheduler that refuses it."""

    def __init__(self, site: str, problem: str) -> None:
        super().__init__(site, problem)
        self.site, self.problem = site, problem

    def __str__(self) -> str:
        return f"site {self.site}: {self.problem}"


class Refused(Exception):
    """A scheduler refuses, in its own words, or does not answer."""
