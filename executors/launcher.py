"""A command -> the same on every node of a block."""

from __future__ import annotations

import sys
from pathlib import Path

from parsl.launchers import SimpleLauncher
from parsl.launchers.base import Launcher

from steersman.executors.site import Executor, Site

BINARIES = str(Path(sys.executable).parent)  # interchange.py and process_worker_pool.py lie beside this interpreter
ONE_THREAD = "export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 OPENMM_CPU_THREADS=1"
USUAL = {
    # Without --cpu-bind=none the one task of a node may be bound to one core.
    "slurm": "srun --overlap --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpu-bind=none --label",
    "pbs": "mpiexec -n {nodes} --ppn 1 --hostfile $PBS_NODEFILE",
    "lsf": 'blaunch -z "$(sort -u $LSB_DJOB_HOSTFILE | xargs)"',
    "flux": "flux run --nodes={nodes} --ntasks={nodes} --exclusive --setopt=cpu-affinity=off",
}


def launcher(site: Site, wanted: Executor, scheduler: str = "") -> Launcher:
    """What starts the workers of a block: on each node, or on the first one where they start ranks on the others."""
    if wanted.mpi:
        return OnFirstNode()
    return OnEachNode(site.launcher or USUAL[scheduler or site.scheduler])


class OnFirstNode(SimpleLauncher):  # type: ignore[misc]  # Parsl has no types
    """Workers that start ranks; the site's own mpiexec comes before one in this environment."""

    def __call__(self, command: str, tasks_per_node: int, nodes_per_block: int, script_dir: str = "") -> str:
        return "\n".join([f"export PATH=$PATH:{BINARIES}", ONE_THREAD, command])


class OnEachNode(Launcher):  # type: ignore[misc]  # Parsl has no types
    """Parsl's way to say how a block of nodes starts its workers.

    Args:
        words: shell words that start a program once on each of {nodes} nodes.
    """

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words

    def __call__(self, command: str, tasks_per_node: int, nodes_per_block: int, script_dir: str = "") -> str:
        # This environment comes first for the workers only: a mpiexec in it must not hide the site's own.
        file = f"{script_dir}/$JOBNAME.start"
        lines = [f"export PATH={BINARIES}:$PATH", ONE_THREAD, command]
        start = f"{self.words.replace('{nodes}', str(nodes_per_block))} /bin/bash {file}"
        return "\n".join([f"cat > {file} <<'EOF'", *lines, "EOF", start])
