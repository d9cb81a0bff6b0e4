"""Kinds of stages: a class each, in a file of this folder, and its place in the order in which stages are tried."""

from steersman.stages.kinds.answer import Answers
from steersman.stages.kinds.around import After, Before, HeldOutDraws, Prepare, Tasks
from steersman.stages.kinds.label import Label
from steersman.stages.kinds.score import Score
from steersman.stages.kinds.simulate import Simulate
from steersman.stages.kinds.stage import StageKind
from steersman.stages.kinds.steer import Steer
from steersman.stages.kinds.train import Train
from steersman.stages.kinds.views import Figures, MetricFunctions, Panels, Yardsticks

STAGES: tuple[type[StageKind], ...] = (
    Prepare, Before, Tasks, HeldOutDraws, Steer, Simulate, Answers, Label, Train, Score, MetricFunctions, Yardsticks,
    Figures, Panels, After,
)  # fmt: skip
KINDS = {each.kind: each for each in STAGES if each is not Steer}  # by their decorators
