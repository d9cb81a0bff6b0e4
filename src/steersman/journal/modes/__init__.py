"""The ways of running, each what it adds to a run: a file of this folder that defines a `Mode`."""

from steersman.journal.modes.mode import Mode
from steersman.system.registry import subclasses

MODES: tuple[type[Mode], ...] = tuple(subclasses(__name__, Mode))
