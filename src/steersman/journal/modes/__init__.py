"""The ways of running, each what it adds to a run: one file, and a line here."""

from steersman.journal.modes.biases import Biases
from steersman.journal.modes.ensemble import Ensemble
from steersman.journal.modes.held_out import HeldOut
from steersman.journal.modes.mode import Mode

__all__ = ["MODES", "Biases", "Ensemble", "HeldOut", "Mode"]

MODES: tuple[type[Mode], ...] = (Biases, Ensemble, HeldOut)
