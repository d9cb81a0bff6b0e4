"""What looks at a run and changes nothing: `metric`, `yardstick`, `figure`, `panel`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from steersman.stages.kinds.stage import Several, Trial, Try


class MetricFunctions(Several):
    kind, kept, arguments = "metric", "metrics", ("scores",)

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        for name, metric in self.functions.items():
            yield Try(f"metric {name}", partial(trial.measure, metric), metric, needed=False)


class Yardsticks(Several):
    kind, kept, arguments, may_differ = "yardstick", "yardsticks", ("params", "frames"), True

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        for name, yardstick in self.functions.items():
            yield Try(f"yardstick {name}", partial(trial.judge, name), yardstick.function, needed=False, judges=True)


class Figures(Several):
    kind, kept, arguments, may_differ = "figure", "figures", ("params", "results"), True

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        for name, (_, figure) in self.functions.items():
            yield Try(f"figure {name}", partial(trial.draw, figure), figure, needed=False)


class Panels(Several):
    kind, kept, arguments, may_differ = "panel", "panels", ("params", "results"), True

    def tried_again(self, trial: Trial) -> Iterator[Try]:
        for name, (_, panel) in self.functions.items():
            yield Try(f"panel {name}", partial(trial.show, panel), panel, needed=False)
