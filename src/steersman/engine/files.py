"""A run directory -> how many files it has, beside how many its file system bears."""

from __future__ import annotations

import os
from pathlib import Path

from steersman.executors.site import Site
from steersman.store import merge

# What store.GroupWriter makes of a walker that has written a frame: the group, its table of segments and the segment of
# each frame, and two for each variable; then one more for each 8 MiB or 32,768 rows of a variable. A group of walkers
# that have ended, see store.merge, has two more: whose frames they are.
OF_A_WALKER, OF_A_VARIABLE, OF_A_MERGED_GROUP = 5, 2, 2
OF_A_RUN = 60  # settings, journal, Parsl's logs, the report


def count(path: Path) -> int:
    """Files below a folder, as a file system's quota counts them, folders left out."""
    return sum(len(files) for _, _, files in os.walk(path))


def expected(slots: int, variables: int, generations: int = 1) -> int:
    """Files of a run at least, once each slot's walker has written frames of so many variables.

    Args:
        generations: of blocks so far, each with new walkers; those of the last two have groups of their own.
    """
    of_a_group = OF_A_WALKER + OF_A_VARIABLE * max(1, variables)
    merged = merge.groups_of(slots * max(0, generations - 2))
    return OF_A_RUN + slots * min(generations, 2) * of_a_group + merged * (of_a_group + OF_A_MERGED_GROUP)


def in_words(files: int, site: Site) -> str:
    """The number, and what to do where there are too many."""
    if files <= site.most_files:
        return f"{files:,} files"
    return (
        f"{files:,} files, more than the limit of site {site.name} (`most_files`: {site.most_files:,}): use fewer "
        "walkers, or several runs"
    )
