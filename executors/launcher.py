"""A command -> the same on every node of a block, or on the first of them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from parsl.launchers import SimpleLauncher
from parsl.launchers.base import Launcher

from steersman.executors.errors import BadSite
from steersman.executors.packed import UNPACK
from steersman.executors.schedulers.registry import scheduler_here
from steersman.executors.schedulers.scheduler import Scheduler
from steersman.executors.site import Site
from steersman.executors.workers import Workers

BINARIES = str(Path(sys.executable).parent)  # interchange.py and process_worker_pool.py lie beside this interpreter
ONE_THREAD_EACH = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPENMM_CPU_THREADS"), "1"
)
ONE_THREAD = "export " + " ".join(f"{name}={count}" for name, count in ONE_THREAD_EACH.items())
# Parsl's workers make a socket there, whose path may have 107 characters: 39 are its own.
SHORT_TMPDIR = (
    '[ ${#TMPDIR} -le 66 ] || { SHORT=$(mktemp -u /tmp/tmp.XXXXXXXX) && ln -s "$TMPDIR" $SHORT && export TMPDIR=$SHORT'
    ' && trap "rm -f $SHORT" EXIT; }'
)

# The last line on each node; registration.py reads it.
ENDED = 'code=$?; [ $code = 0 ] || echo "steersman: workers on $(uname -n) ended with exit code $code" >&2; exit $code'

# Around `worker_init`, in a block's script: a line that fails is reported with its node, and the block goes on: it may
# not matter. What fails within a file that is sourced is that file's affair, unless it ends the script.
INIT = """\
failed() {{ [ $1 = 0 ] || echo "steersman: worker_init on $(uname -n) failed with exit code $1: $BASH_COMMAND" >&2; }}
DEPTH=${{#BASH_SOURCE[@]}}
trap 'CODE=$?; [ ${{#BASH_SOURCE[@]}} -gt $DEPTH ] || failed $CODE' ERR
trap 'failed $?' EXIT
{lines}
trap - ERR
[[ $(trap -p EXIT) != *'failed $?'* ]] || trap - EXIT"""


def words(site: Site, role: str, nodes: int | None = None) -> str:
    """Shell words that start a program once on each node of an executor, or on its first `nodes` nodes."""
    first, count = site.first_node(role), nodes or site.workers[role].nodes
    pattern = site.launcher or scheduler_of(site).LAUNCHER
    for name, value in {"first": first, "nodes": count, "last": first + count - 1}.items():
        pattern = pattern.replace(f"{{{name}}}", str(value))
    return pattern


def launcher(site: Site, role: str) -> Launcher:
    """What starts the workers of a block: on each node, or on the first one where they start ranks on the others."""
    wanted = site.workers[role]
    if not wanted.on_first_node:
        go_on = "" if site.launcher or wanted.nodes < 2 else scheduler_of(site).GO_ON
        path = f"export PATH={shlex.quote(BINARIES)}:$PATH"
        if site.environment == "packed":
            path = f"{path}\n{UNPACK}"
        return Started(part(site, role), path, words(site, role) + go_on, enough(site.workers[role]))
    # The site's own mpiexec comes before one in this environment.
    lies_elsewhere = site.inside and not wanted.mpi_walkers and not scheduler_of(site).BEGINS_ON_NODE
    lies_elsewhere |= site.is_beside(role) and site.first_node(role) > 0
    path = f"export PATH=$PATH:{shlex.quote(BINARIES)}"
    return Started(part(site, role), path, words(site, role, nodes=1) if lies_elsewhere else "")


def enough(wanted: Workers) -> str:
    """A shell line that ends with the cause where workers are to be bound to more cores than a job sees.

    Such workers would crash and be started again for ever.
    """
    if wanted.binding == "none":
        return ""
    cure = "ask for more (cpus:, exclusive:), or lower workers:"
    words = f"steersman: {wanted.per_node} workers need a core each, but this job has $(nproc) on $(uname -n)"
    return f'[ "$(nproc)" -ge {wanted.per_node} ] || {{ echo "{words}: {cure}" >&2; exit 1; }}'


def part(site: Site, role: str) -> str:
    """A shell line that hides the nodes of the other executors, where they share an allocation."""
    if not site.shares:
        return ""
    first, nodes = site.first_node(role), site.workers[role].nodes
    return scheduler_of(site).PART.replace("{range}", f"{first + 1},{first + nodes}")


def scheduler_of(site: Site) -> type[Scheduler]:
    """Whose nodes they are. Raises: BadSite: they are those of a job, and this is none."""
    kind = type(site.scheduler) if site.scheduler else scheduler_here()
    if kind is None:
        raise BadSite(site.name, "this process does not run in a job of a scheduler; start it in one")
    return kind


class Started(SimpleLauncher):  # type: ignore[misc]  # Parsl has no types
    """Parsl's way to say how a block of nodes starts its workers.

    Args:
        before: a shell line, once.
        path: shell lines for the workers only: a mpiexec beside them must not hide the site's own before.
        words: shell words that start a program once on each node; "": the program is started here.
        enough: shell lines on each node that end in words where workers would only crash.
    """

    def __init__(self, before: str, path: str, words: str, enough: str = "") -> None:
        super().__init__()
        self.before, self.path, self.words, self.enough = before, path, words, enough

    def __call__(self, command: str, tasks_per_node: int, nodes_per_block: int, script_dir: str = "") -> str:
        before, lines = [self.before] * bool(self.before), [self.path, ONE_THREAD, SHORT_TMPDIR, command]
        if not self.words:
            return "\n".join([*before, *lines])
        lines = [*[self.enough] * bool(self.enough), *lines, ENDED]
        file = f"{script_dir}/$JOBNAME.start"
        return "\n".join([*before, f"cat > {file} <<'EOF'", *lines, "EOF", f"{self.words} /bin/bash {file}"])
