"""Yardsticks of a run -> figure: what its frames amount to against simulated time."""

from __future__ import annotations

from matplotlib.figure import Figure

from steersman.dashboard import style
from steersman.data.errors import NothingToDraw
from steersman.data.history import History
from steersman.data.yardsticks import measure
from steersman.stages.params import Params
from steersman.stages.workflow import Workflow


def draw(history: History, workflow: Workflow, params: Params) -> tuple[Figure, str]:
    """Each yardstick against simulated time."""
    curves = measure(history, workflow, params)
    if not curves:
        raise NothingToDraw("there are no frames yet")
    scale = history.clock.simulated_scale
    figure = style.sheet(2.4)
    for axes, (name, curve) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        timed = history.state.simulated > 0
        axes.plot(curve.spent / (scale.divisor if timed else 1), curve.value, color=style.BLUE)
        axes.set(xlabel=scale.label if timed else "frames", ylabel=style.words(name))
    last = ", ".join(f"{style.words(name)} {curve.value[-1]:.4g}" for name, curve in curves.items())
    return figure, f"Latest values: {last}. These are functions of stored frames alone, to be compared between runs."
