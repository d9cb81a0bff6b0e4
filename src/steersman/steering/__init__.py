"""What to do next: pure functions of scores and progress."""

from typing import TYPE_CHECKING

from steersman.system.lazy import lazy

if TYPE_CHECKING:
    from steersman.steering import audits as audits
    from steersman.steering.ask import Ask as Ask
    from steersman.steering.bias import Bias as Bias
    from steersman.steering.decide import Choice as Choice
    from steersman.steering.decide import Decider as Decider
    from steersman.steering.decide import Steering as Steering
    from steersman.steering.draws import HELD_OUT as HELD_OUT
    from steersman.steering.draws import LatinHypercube as LatinHypercube
    from steersman.steering.draws import Unsure as Unsure
    from steersman.steering.draws import latin_hypercube as latin_hypercube
    from steersman.steering.forecasts import reliability as reliability
    from steersman.steering.frontier import Frontier as Frontier
    from steersman.steering.importance import DRAWN as DRAWN
    from steersman.steering.importance import Importance as Importance
    from steersman.steering.labelling import Doubtful as Doubtful
    from steersman.steering.labelling import LabelRule as LabelRule
    from steersman.steering.lives import life as life
    from steersman.steering.merit import Dbscan as Dbscan
    from steersman.steering.merit import Diverse as Diverse
    from steersman.steering.merit import ExpectedImprovement as ExpectedImprovement
    from steersman.steering.merit import Fast as Fast
    from steersman.steering.merit import Highest as Highest
    from steersman.steering.merit import Reap as Reap
    from steersman.steering.opes import Opes as Opes
    from steersman.steering.policies import LeastCounts as LeastCounts
    from steersman.steering.policies import LocalOutlierFactor as LocalOutlierFactor
    from steersman.steering.policies import Novelty as Novelty
    from steersman.steering.policies import Random as Random
    from steersman.steering.policies import Target as Target
    from steersman.steering.policies import Unsteered as Unsteered
    from steersman.steering.protocols import NEW as NEW
    from steersman.steering.protocols import Candidate as Candidate
    from steersman.steering.protocols import Policy as Policy
    from steersman.steering.protocols import Progress as Progress
    from steersman.steering.protocols import ScoreName as ScoreName
    from steersman.steering.protocols import SegmentRule as SegmentRule
    from steersman.steering.protocols import StopRule as StopRule
    from steersman.steering.protocols import Turns as Turns
    from steersman.steering.pruning import Hopeless as Hopeless
    from steersman.steering.pruning import Redundant as Redundant
    from steersman.steering.scores import Scores as Scores
    from steersman.steering.splitting import Rarity as Rarity
    from steersman.steering.splitting import Splitting as Splitting
    from steersman.steering.stop import SECONDS as SECONDS
    from steersman.steering.stop import budget as budget
    from steersman.steering.stop import plateau as plateau
    from steersman.steering.stop import reached as reached
    from steersman.steering.stop import trusted as trusted
    from steersman.steering.weighted_ensemble import WeightedEnsemble as WeightedEnsemble
    from steersman.steering.weighted_ensemble import arrivals as arrivals
    from steersman.steering.weighted_ensemble import averages as averages
    from steersman.steering.weighted_ensemble import mean_of_rounds as mean_of_rounds
    from steersman.steering.weighted_ensemble import passage as passage
else:
    __all__, __getattr__, __dir__ = lazy(__name__, "steersman.policies")
