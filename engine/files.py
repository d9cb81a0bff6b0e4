"""A run directory -> how many files it has, beside how many its file system bears."""

from __future__ import annotations

import os
from pathlib import Path

from steersman.executors.site import Site

# What store.GroupWriter makes of a walker that has written a frame: the group, its table of segments and the segment of
# each frame, and two for each variable; then one more for each 8 MiB or 32,768 rows of a variable.
OF_A_WALKER, OF_A_VARIABLE = 5, 2
OF_A_RUN = 60  # settings, journal, Parsl's logs, the report


def count(path: Path) -> int:
    """Files below a folder, as a file system's quota counts them, folders left out."""
    return sum(len(files) for _, _, files in os.walk(path))


def expected(slots: int, variables: int) -> int:
    """Files of a run at least, once each slot's first walker has written frames of so many variables."""
    return OF_A_RUN + slots * (OF_A_WALKER + OF_A_VARIABLE * max(1, variables))


def in_words(files: int, site: Site) -> str:
    """The number, and what to do where there are too many."""
    if files <= site.most_files:
        return f"{files:,} files"
    return (
        f"{files:,} files, more than the limit of site {site.name} (`most_files`: {site.most_files:,}): use fewer "
        "walkers, longer walltimes, or several runs"
    )
