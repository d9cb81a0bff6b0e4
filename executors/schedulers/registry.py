"""The schedulers that there are: an import and a line make one a key of site files, and all else follows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import get_args

from steersman.executors.schedulers.flux import Flux
from steersman.executors.schedulers.lsf import Lsf
from steersman.executors.schedulers.pbs import Pbs
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.schedulers.sge import Sge
from steersman.executors.schedulers.slurm import Slurm
from steersman.executors.values import Strict


class Schedulers(Strict):
    """Keys of a site file that name a scheduler, with its settings."""

    flux: Flux | None = None  # first: it may run within a job of another
    slurm: Slurm | None = None
    pbs: Pbs | None = None
    lsf: Lsf | None = None
    sge: Sge | None = None

    @property
    def named(self) -> list[Scheduler]:
        """Those that are keys; a site has one at most."""
        return [settings for _, settings in self if isinstance(settings, Scheduler)]


SCHEDULERS: dict[str, type[Scheduler]] = {
    key: get_args(field.annotation)[0] for key, field in Schedulers.model_fields.items()
}


def scheduler_here(environment: Mapping[str, str] = os.environ) -> type[Scheduler] | None:
    """Whose job this process runs in; None outside of any."""
    return next((each for each in SCHEDULERS.values() if each.IN_JOB in environment), None)
