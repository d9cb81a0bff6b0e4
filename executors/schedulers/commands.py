"""A scheduler's command -> what it prints, in time."""

from __future__ import annotations

import subprocess

from steersman.executors.errors import Refused

ANSWER_S = 30  # a busy scheduler gets so long to answer


def answer(*command: str) -> str:
    """What a command of a scheduler prints.

    Raises: Refused: it does not answer, or refuses, in its own words.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        raise Refused(f"{command[0]} did not answer within {ANSWER_S} s; check that the scheduler is running") from None
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split()).removeprefix("allocation failure: ")
        raise Refused(f"{words or f'exit code {done.returncode}'}  (asked by: {' '.join(command)})")
    return done.stdout


def printed(*command: str) -> str:
    """The same; "" where it cannot answer."""
    try:
        return answer(*command).strip()
    except (OSError, Refused):
        return ""


def seconds(clock: str) -> float | None:
    """[days-][[hours:]minutes:]seconds; None for words such as UNLIMITED."""
    days, _, rest = clock.rpartition("-")
    parts = rest.split(":")
    if not all(part.isdigit() for part in [*parts, days or "0"]):
        return None
    total = 0.0
    for part in parts:
        total = 60 * total + int(part)
    return 86400 * int(days or 0) + total
