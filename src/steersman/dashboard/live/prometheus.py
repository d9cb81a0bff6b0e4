"""A watched run -> the figures of `status` in the text format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Sample = tuple[dict[str, str], float]


def exposition(states: Iterable[dict[str, Any]]) -> str:
    """The text of `/metrics` for some runs, each as `overview.state` gives it."""
    families: dict[str, tuple[str, list[Sample]]] = {}
    for state in states:
        for name, about, sample in _samples(state):
            families.setdefault(name, (about, []))[1].append(sample)
    lines = []
    for name, (about, samples) in families.items():
        lines += [f"# HELP steersman_{name} {about}", f"# TYPE steersman_{name} gauge"]
        lines += [f"steersman_{name}{{{_labels(labels)}}} {value:.10g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _samples(state: dict[str, Any]) -> Iterator[tuple[str, str, Sample]]:
    run, facts = {"run": state["name"], "workflow": state["workflow"]}, state["facts"]
    yield "up", "1 while a driver drives the run.", (run, float(state["status"] in ("running", "paused")))
    yield "frames", "Published frames that count.", (run, facts["frames"])
    yield "simulated", "Simulated time of all walkers.", (run | {"unit": facts["simulated_unit"]}, facts["simulated"])
    yield "hours", "Wall time over all sessions.", (run, facts["hours"])
    yield "gpu_hours", "GPUs held times wall time.", (run, facts["gpu_hours"])
    yield "model", "Version of the model in use, 0 before there is one.", (run, state["model"])
    if state["budget"]["share"] is not None:
        yield "budget_share", "Share of the way to the end, 0 to 1.", (run, state["budget"]["share"])
    for how, number in facts["segments"].items():
        yield "segments", "Segments that ended, by how.", (run | {"how": how}, number)
    for doing, number in state["doing"].items():
        yield "slots", "Slots by what they do now.", (run | {"doing": doing}, number)
    for what, share in state["shares"].items():
        yield "slot_time_share", "Share of the slots' time by what it went into.", (run | {"what": what}, share)
    for name, value in state["metrics"].items():
        yield "metric", "Last value of each metric of the workflow.", (run | {"metric": name}, value)


def _labels(labels: dict[str, str]) -> str:
    escaped = {
        name: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, text in labels.items()
    }
    return ",".join(f'{name}="{text}"' for name, text in escaped.items())
