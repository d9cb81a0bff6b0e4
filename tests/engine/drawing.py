"""As double_well, but every stage draws from the random numbers of its process, as those of users do."""

import random
from typing import Any

import numpy as np

from steersman import Workflow, budget, every, models
from steersman.apps import double_well
from steersman.steering import Novelty
from steersman.workflows.double_well import DoubleWell

wf = Workflow("drawing", DoubleWell, stop=lambda p: budget(frames=p.frames))


def drawn() -> float:
    return 1e-3 * (np.random.normal() + random.random())  # noqa: NPY002 (of the process)


@wf.prepare
def prepare(p: DoubleWell) -> float:
    return drawn()


@wf.simulate(variables=double_well.VARIABLES)
def segment(p: DoubleWell, start: Any, out: Any) -> None:
    for time, position in double_well.run(start, seed=out.seed, steps=p.steps, barrier_kT=p.barrier_kT):
        out.append(time=time, position=(position + start.prepared + drawn()).astype(position.dtype))
        if out.stopped:
            break


@wf.train(when=lambda p: every(frames=p.train_every, first=200))
def fit(p: DoubleWell, frames: Any, last: Any) -> Any:
    import torch

    model = models.PCA.fit(frames["position"], latent=1)
    model.components += drawn() + 1e-3 * torch.randn(model.components.shape)
    return model


@wf.score()
def place(p: DoubleWell, model: Any, frames: Any) -> Any:
    z, error = model.encode(frames["position"])
    return {"z": z + drawn(), "error": error}


wf.steer(Novelty("z"), explore=0.1)
