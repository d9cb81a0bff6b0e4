"""A command -> the same on every node of a block, or on the first of them."""

from __future__ import annotations

import sys
from pathlib import Path

from parsl.launchers import SimpleLauncher
from parsl.launchers.base import Launcher

from steersman.executors.allocation import scheduler_here
from steersman.executors.executor import Executor
from steersman.executors.site import Site

BINARIES = str(Path(sys.executable).parent)  # interchange.py and process_worker_pool.py lie beside this interpreter
ONE_THREAD_EACH = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENMM_CPU_THREADS"), "1"
)
ONE_THREAD = "export " + " ".join(f"{name}={count}" for name, count in ONE_THREAD_EACH.items())
USUAL = {
    # Without --cpu-bind=none the one task of a node may be bound to one core.
    "slurm": "srun --overlap --relative={first} --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpu-bind=none"
    " --label",
    "pbs": "mpiexec -n {nodes} --ppn 1 --hostfile $PBS_NODEFILE",
    "lsf": 'blaunch -z "$(sort -u $LSB_DJOB_HOSTFILE | xargs)"',
    "flux": "flux run --requires=ranks:{first}-{last} --nodes={nodes} --ntasks={nodes} --exclusive"
    " --setopt=cpu-affinity=off",
}
# Launchers that take their nodes from what the environment names are shown a part of these; for Slurm it is Parsl's
# MPIExecutor that looks there. sed counts nodes from 1.
PART = {
    "slurm": "export SLURM_NODELIST=$(scontrol show hostnames $SLURM_JOB_NODELIST | sed -n {range}p | paste -sd,)",
    "pbs": "PART=$(mktemp) && awk '!seen[$0]++' $PBS_NODEFILE | sed -n {range}p > $PART && export PBS_NODEFILE=$PART",
    "lsf": "PART=$(mktemp) && awk '!seen[$0]++' $LSB_DJOB_HOSTFILE | sed -n {range}p > $PART"
    " && export LSB_DJOB_HOSTFILE=$PART",
}


def words(site: Site, role: str, nodes: int | None = None) -> str:
    """Shell words that start a program once on each node of an executor, or on its first `nodes` nodes."""
    pattern = site.launcher or USUAL[site.scheduler or scheduler_here()]
    first, count = site.first_node(role), nodes or getattr(site, role).nodes
    values = {"first": first, "nodes": count, "last": first + count - 1}
    for name, value in values.items():
        pattern = pattern.replace(f"{{{name}}}", str(value))
    return pattern


def launcher(site: Site, role: str) -> Launcher:
    """What starts the workers of a block: on each node, or on the first one where they start ranks on the others."""
    wanted: Executor = getattr(site, role)
    if not wanted.on_first_node:
        return Started(part(site, role), f"export PATH={BINARIES}:$PATH", words(site, role))
    # The site's own mpiexec comes before one in this environment. A job of `salloc` may begin on a login node.
    lies_elsewhere = site.inside and not wanted.mpi and scheduler_here() == "slurm"
    return Started(
        part(site, role), f"export PATH=$PATH:{BINARIES}", words(site, role, nodes=1) if lies_elsewhere else ""
    )


def part(site: Site, role: str) -> str:
    """A shell line that hides the nodes of the other executors, where they share an allocation."""
    if not site.shares:
        return ""
    first, nodes = site.first_node(role), getattr(site, role).nodes
    return PART.get(site.scheduler or scheduler_here(), "").replace("{range}", f"{first + 1},{first + nodes}")


class Started(SimpleLauncher):  # type: ignore[misc]  # Parsl has no types
    """Parsl's way to say how a block of nodes starts its workers.

    Args:
        before: a shell line, once.
        path: a shell line for the workers only: a mpiexec beside them must not hide the site's own before.
        words: shell words that start a program once on each node; "": the program is started here.
    """

    def __init__(self, before: str, path: str, words: str) -> None:
        super().__init__()
        self.before, self.path, self.words = before, path, words

    def __call__(self, command: str, tasks_per_node: int, nodes_per_block: int, script_dir: str = "") -> str:
        lines = [self.path, ONE_THREAD, command]
        if not self.words:
            return "\n".join([self.before, *lines])
        file = f"{script_dir}/$JOBNAME.start"
        return "\n".join([self.before, f"cat > {file} <<'EOF'", *lines, "EOF", f"{self.words} /bin/bash {file}"])
