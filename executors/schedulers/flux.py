"""Flux."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from steersman.executors.schedulers.commands import answer, printed
from steersman.executors.schedulers.scheduler import Block, Scheduler
from steersman.executors.values import Word


class Flux(Scheduler):
    """What flux batch is given besides nodes and time; empty: the instance's default.

    Args:
        account: the bank, `--bank`.
        options: further options of flux batch, e.g. ["--setattr=user.note=fold"].
    """

    WITHIN = True
    TITLE = "Flux"
    COMMANDS = ("flux",)
    PREFIX = "#flux:"
    SUBMIT = "flux batch {script}"
    CANCEL = "flux cancel"
    STATUS = "flux jobs -n -o '{{id.f58}} {{status}}' {jobs}"
    NAMED = "flux jobs -n -o '{{id.f58}}' --name={name}"
    STATES: ClassVar = {
        "DEPEND": "PENDING", "PRIORITY": "PENDING", "SCHED": "PENDING", "PENDING": "PENDING",
        "RUN": "RUNNING", "CLEANUP": "RUNNING", "RUNNING": "RUNNING",
        "COMPLETED": "COMPLETED", "FAILED": "FAILED", "CANCELED": "CANCELLED", "TIMEOUT": "TIMEOUT",
    }  # fmt: skip
    LAUNCHER = (
        "flux run --requires=ranks:{first}-{last} --nodes={nodes} --ntasks={nodes} --exclusive"
        " --setopt=cpu-affinity=off"
    )
    IN_JOB = "FLUX_URI"
    OF_JOB = r"FLUX_(JOB|TASK|KVS|ENCLOSING).*"  # not FLUX_URI, by which its commands find it

    queue: Word = ""

    @property
    def queue_asked(self) -> str:
        return self.queue

    def header(self, block: Block) -> list[str]:
        named = {"queue": self.queue, "bank": self.account}
        return [
            f"--job-name={block.name}", f"--output={block.script}.stdout", f"--error={block.script}.stderr",
            f"--nodes={block.nodes}", f"--nslots={block.nodes}", "--exclusive", f"--time-limit={block.minutes}m",
            *(f"--{name}={value}" for name, value in named.items() if value), *self.options,
        ]  # fmt: skip

    def ask(self, script: Path) -> str:
        answer("flux", "batch", "--dry-run", str(script))
        return "flux batch --dry-run accepts it"

    @classmethod
    def job(cls, environment: Mapping[str, str]) -> tuple[int, float | None]:
        left = float(printed("flux", "job", "timeleft") or math.inf)  # `inf` where there is no end
        return int(printed("flux", "getattr", "size") or 1), None if math.isinf(left) else left
