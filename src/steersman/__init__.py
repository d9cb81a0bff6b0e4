"""Steersman: a workflow engine that couples simulations with deep learning."""

import sys
from typing import TYPE_CHECKING

if "t" in sys.abiflags:
    raise ImportError(
        "Steersman does not run on a free-threaded Python, for which OpenMM and google-crc32c have no builds: "
        f"use python{sys.version_info.major}.{sys.version_info.minor}"
    )

from steersman.system.lazy import lazy

if TYPE_CHECKING:
    from steersman import audits as audits
    from steersman.analysis.comparison.calls import compare as compare
    from steersman.analysis.comparison.calls import tune as tune
    from steersman.calls.opened import Run as Run
    from steersman.calls.opened import open_run as open_run
    from steersman.calls.run import run as run
    from steersman.stages.out import Out as Out
    from steersman.stages.params import Params as Params
    from steersman.stages.rules import doubling as doubling
    from steersman.stages.rules import every as every
    from steersman.stages.rules import until_used as until_used
    from steersman.stages.start import Start as Start
    from steersman.stages.workflow import Workflow as Workflow
    from steersman.steering import budget as budget
    from steersman.steering import plateau as plateau
    from steersman.steering import reached as reached
    from steersman.steering import trusted as trusted
else:
    __all__, __getattr__, __dir__ = lazy(__name__)
