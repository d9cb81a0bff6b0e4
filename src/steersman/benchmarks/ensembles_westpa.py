"""The same ensemble for WESTPA, as `steersman bench ensembles` runs it beside ours: its system and its propagator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from westpa.core.binning import RectilinearBinMapper
from westpa.core.propagators import WESTPropagator
from westpa.core.systems import WESTSystem

from steersman.apps import double_well
from steersman.benchmarks.ensembles_workflow import BARRIER_KT, EDGES, MEMBERS, REPORT, STEPS, TIMESTEP
from steersman.stages.start import Start


class System(WESTSystem):  # type: ignore[misc] # it has no types
    def initialize(self) -> None:
        self.pcoord_ndim, self.pcoord_len, self.pcoord_dtype = 2, STEPS // REPORT + 1, np.float32
        self.bin_mapper = RectilinearBinMapper([[-np.inf, *EDGES, np.inf], [-np.inf, np.inf]])
        self.bin_target_counts = np.full(self.bin_mapper.nbins, MEMBERS)


class Propagator(WESTPropagator):  # type: ignore[misc]
    def get_pcoord(self, state: Any) -> None:
        state.pcoord = double_well.LEFT

    def propagate(self, segments: Sequence[Any]) -> Sequence[Any]:
        for each in segments:
            begun = each.pcoord[0]
            seed = int(np.random.SeedSequence().generate_state(1)[0])
            along = double_well.run(
                Start(prepared=None, frame={"position": begun}), seed=seed, steps=STEPS, report=REPORT,
                barrier_kT=BARRIER_KT, timestep=TIMESTEP,
            )  # fmt: skip
            each.pcoord = np.array([begun, *(position for _, position in along)], np.float32)
            each.status = each.SEG_STATUS_COMPLETE
        return segments
