"""Audits of a surrogate: how often its bound holds, what it saves, and an answer that they correct."""

from steersman.steering.audits import Corrected as Corrected
from steersman.steering.audits import Coverage as Coverage
from steersman.steering.audits import Saved as Saved
from steersman.steering.audits import audited as audited
from steersman.steering.audits import clopper_pearson as clopper_pearson
from steersman.steering.audits import corrected as corrected
from steersman.steering.audits import coverage as coverage
from steersman.steering.audits import mean as mean
from steersman.steering.audits import saved as saved
