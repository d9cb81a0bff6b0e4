"""The ways of running, each what it adds to a run: a file of this folder that defines a `Mode`."""

from importlib import import_module
from pkgutil import iter_modules

from steersman.journal.modes.mode import Mode

for _module in iter_modules(__path__, prefix=f"{__name__}."):
    import_module(_module.name)

MODES: tuple[type[Mode], ...] = tuple(Mode.__subclasses__())
