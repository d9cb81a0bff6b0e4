"""What is stored of each audited configuration."""

from steersman.store import Variable

VARIABLES = {
    "configuration": Variable(("site",), "1", "sites, those of minority atoms first"),
    "correlations": Variable(("cluster",), "1", "mean product over clusters of each kind"),
    "order": Variable((), "1", "how rarely minority atoms are first neighbours: 0 as by chance, 1 never"),
    "truth": Variable((), "eV", "energy of the cell"),
    "said": Variable((), "eV", "what the surrogate that drew it said before"),
    "spread": Variable((), "eV", "by how much its members differed"),
    "version": Variable((), "1", "of the surrogate that drew it, counted from 1; 0: none, it is random"),
    "bin": Variable((), "1", "bin of the surrogate"),
    "steps": Variable((), "1", "configurations that the surrogate judged to draw this one"),
    "trained_steps": Variable((), "1", "and before, to learn where to walk"),
    "failed": Variable((), "1", "there is no energy: the simulation failed"),
}
