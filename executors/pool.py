"""Parsl's executors of worker processes: how a site's become them, and what the engine asks of them while they run."""

from __future__ import annotations

import contextlib
import math
import threading
from typing import Any

import zmq
from parsl.config import Config
from parsl.executors import HighThroughputExecutor, MPIExecutor
from parsl.executors.high_throughput import zmq_pipes
from parsl.executors.high_throughput.executor import DEFAULT_INTERCHANGE_LAUNCH_CMD, DEFAULT_LAUNCH_CMD

from steersman.executors.network import driver_address
from steersman.executors.registration import NoWorkers, Registration
from steersman.executors.site import Site
from steersman.executors.steady import GPUS, MPS, STEADY
from steersman.executors.workers import Mpi, Walkers
from steersman.system.node import LOOPBACK

HERE_S = 1  # between two signs of life of workers on the driver's machine
MISSED = 8  # so many in a row, and a worker is lost
ANSWER_S = 5.0  # Parsl's interchange answers within so long
REPLY_MS = 30_000  # or never


class Patient(zmq_pipes.CommandClient):  # type: ignore[misc]  # Parsl has no types
    """Asks an interchange, and does not wait forever for the answer of one that may have died."""

    def create_socket_and_bind(self) -> None:
        super().create_socket_and_bind()
        for option in (zmq.RCVTIMEO, zmq.SNDTIMEO):
            self.zmq_socket.setsockopt(option, REPLY_MS)
        for option in (zmq.REQ_RELAXED, zmq.REQ_CORRELATE):  # after an answer that did not come one may ask again
            self.zmq_socket.setsockopt(option, 1)


zmq_pipes.CommandClient = Patient  # what every executor makes when it starts; later, one may be asking already


def started(site: Site, role: str, provider: Any) -> HighThroughputExecutor:
    """Parsl's executor of one role; Parsl starts it. Raises: BadSite."""
    wanted = site.workers[role]
    period_s = site.heartbeat_s if wanted.nodes else HERE_S
    shared: dict[str, Any] = {
        "label": role,
        "address": driver_address(site),
        "loopback_address": LOOPBACK,
        "launch_cmd": f"{STEADY} {DEFAULT_LAUNCH_CMD}",
        "heartbeat_period": period_s,
        "heartbeat_threshold": MISSED * period_s,
        "poll_period": 10,
        "drain_period": None if wanted.walltime_s is None else max(1, int(wanted.walltime_s - site.margin_s)),
        "block_error_handler": Registration(
            site.name,
            silent_s=site.starts_s,
            here=not wanted.nodes,
            nodes=1 if wanted.on_first_node else max(1, wanted.nodes),
            succeeded_s=(wanted.walltime_s or math.inf) - wanted.ahead_s if wanted.ahead_s else math.inf,
        ),
        "provider": provider,
    }
    if site.ports:
        shared["worker_port_range"] = (site.ports[0], site.ports[1] + 1)
    if wanted.mpi_walkers:
        executor = OverNodes(wanted.mpi_walkers, max_workers_per_block=wanted.per_block, **shared)
    else:
        if wanted.gpus:  # not by Parsl, which takes NVIDIA's GPUs to be shared whenever there are more workers
            mps = f" {MPS}=1" if isinstance(wanted, Walkers) and wanted.mps else ""
            shared["launch_cmd"] = f"env {GPUS}='{' '.join(wanted.gpu_of_each)}'{mps} {shared['launch_cmd']}"
        executor = HighThroughputExecutor(
            max_workers_per_node=wanted.per_node,
            cores_per_worker=1e-3,  # the count above decides, not the cores that this machine has
            cpu_affinity=wanted.binding,
            **shared,
        )
    if site.tunnel and wanted.nodes:
        executor.all_addresses = {site.tunnel}  # what workers get; the interchange listens at `address`
    executor.here = not wanted.nodes
    executor.interchange_launch_cmd = [STEADY, *DEFAULT_INTERCHANGE_LAUNCH_CMD]  # MPIExecutor takes no list of words
    return executor


class OverNodes(MPIExecutor):  # type: ignore[misc]  # Parsl has no types
    """Parsl's executor of MPI programs.

    Attributes:
        resources: what each job of it asks for.
    """

    def __init__(self, mpi: Mpi, **shared: Any) -> None:
        super().__init__(mpi_launcher=mpi.launcher, **shared)
        # Whatever a site says by default: ranks that are left would wait for the one that died.
        options = f"--kill-on-bad-exit=1 {mpi.options}".strip() if mpi.launcher == "srun" else mpi.options
        self.resources = {"num_nodes": mpi.nodes, "ranks_per_node": mpi.ranks, "launcher_options": options}


class Pool:
    """The worker processes of one role while a run uses them, ours or those of a site in Parsl's own words."""

    def __init__(self, executor: HighThroughputExecutor) -> None:
        self._executor = executor
        self._ended: set[str] = set()  # blocks; Parsl knows of it some seconds later

    @property
    def resources(self) -> dict[str, Any]:
        """What each job asks for besides a worker."""
        return dict(self._executor.resources) if isinstance(self._executor, OverNodes) else {}

    @property
    def here(self) -> bool:
        """Whether its workers are on the driver's machine, and share its cores."""
        return getattr(self._executor, "here", False)

    @property
    def lacking(self) -> list[str]:
        """In words what is waited for while no block runs, and the workers that blocks lack."""
        handler = self._executor.block_error_handler
        return [handler.waiting, *handler.missing] if isinstance(handler, Registration) else []

    @property
    def died(self) -> str:
        """How the interchange died, if it did; Parsl itself would wait for it forever."""
        interchange = self._executor.interchange_proc
        if interchange is None or interchange.poll() is None:
            return ""
        return f"the interchange of the {self._executor.label} workers died (exit code {interchange.returncode})"

    @property
    def broken(self) -> str:
        """Why it cannot be used, where another Parsl may help."""
        failed = self._executor.bad_state_is_set and not self.hopeless
        why = f"the {self._executor.label} workers cannot be used: {self._executor.executor_exception}"
        return self.died or why * failed

    @property
    def hopeless(self) -> str:
        """Why no worker ever comes, if none does; another Parsl would not change it."""
        cause = self._executor.executor_exception
        return str(cause) if isinstance(cause, NoWorkers) else ""

    def managers(self) -> list[dict[str, Any]]:
        """What is known of managers; nothing where the interchange died meanwhile, and will not answer."""
        found: list[dict[str, Any]] = []

        def ask() -> None:
            with contextlib.suppress(zmq.Again):
                found.extend(self._executor.connected_managers())

        asking = threading.Thread(target=ask, name="managers", daemon=True)
        asking.start()
        asking.join(ANSWER_S)
        return found

    def end(self, block: str) -> bool:
        """End a block, once. Returns: whether it was now."""
        if block in self._ended:
            return False
        self._executor.provider.cancel([self._executor.blocks_to_job_id[block]])
        self._ended.add(block)
        return True

    def give_up(self) -> None:
        """Let go of an executor whose interchange died, and cancel its blocks.

        Parsl would wait for the interchange's answers, with all its threads and sockets, for as long as we live.
        """
        executor = self._executor
        executor.set_bad_state_and_fail_all(RuntimeError(self.died))  # nothing is asked of it any more
        executor.command_client.ok = False
        jobs = [executor.blocks_to_job_id[block] for block, of in executor.status_facade.items() if not of.terminal]
        executor.provider.cancel(jobs)

    def hold(self, manager: str) -> None:
        """Give a manager no more work."""
        with contextlib.suppress(zmq.Again):  # the interchange died, as is seen in a moment
            self._executor._hold_manager(manager)  # Parsl has no public name for it


def pools(config: Config) -> dict[str, Pool]:
    """Those that a configuration has, by role."""
    return {each.label: Pool(each) for each in config.executors if isinstance(each, HighThroughputExecutor)}
