"""A watched run -> the figures of `status` in the text format that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from steersman.data.overview import Overview

Sample = tuple[dict[str, str], float]


def exposition(runs: Iterable[Overview]) -> str:
    """The text of `/metrics` for some runs."""
    families: dict[str, tuple[str, list[Sample]]] = {}
    for seen in runs:
        for name, about, sample in _samples(seen):
            families.setdefault(name, (about, []))[1].append(sample)
    lines = []
    for name, (about, samples) in families.items():
        lines += [f"# HELP steersman_{name} {about}", f"# TYPE steersman_{name} gauge"]
        lines += [f"steersman_{name}{{{_labels(labels)}}} {value:.10g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _samples(seen: Overview) -> Iterator[tuple[str, str, Sample]]:
    run = {"run": seen.name, "workflow": seen.workflow}
    yield "up", "1 while a driver drives the run.", (run, float(seen.alive))
    yield "frames", "Published frames that count.", (run, seen.frames)
    yield "simulated", "Simulated time of all walkers.", (run | {"unit": seen.time_unit}, seen.simulated)
    yield "hours", "Wall time over all sessions.", (run, seen.hours)
    yield "gpu_hours", "GPUs held times wall time.", (run, seen.gpu_hours)
    yield "model", "Version of the model in use, 0 before there is one.", (run, seen.model)
    if seen.budget.share is not None:
        yield "budget_share", "Share of the way to the end, 0 to 1.", (run, seen.budget.share)
    for how, number in seen.segments.items():
        yield "segments", "Segments that ended, by how.", (run | {"how": how}, number)
    for doing, number in seen.doing.items():
        yield "slots", "Slots by what they do now.", (run | {"doing": doing}, number)
    for what, share in seen.shares.items():
        yield "slot_time_share", "Share of the slots' time by what it went into.", (run | {"what": what}, share)
    for name, value in seen.metrics.items():
        yield "metric", "Last value of each metric of the workflow.", (run | {"metric": name}, value)


def _labels(labels: dict[str, str]) -> str:
    escaped = {
        name: text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for name, text in labels.items()
    }
    return ",".join(f'{name}="{text}"' for name, text in escaped.items())
