"""What a walker's process left behind -> why it died, as far as it could say so."""

from __future__ import annotations

from pathlib import Path

from steersman.store.names import walker_name

FATAL = "Fatal Python error: "  # how faulthandler begins
TAIL_BYTES = 64 * 1024  # a traceback of all threads is shorter


def last_words(errors: Path, walker: int) -> str:
    """Say why the process of a walker died and which file to open.

    Args:
        errors: folder with the walker's standard error, `w<walker>.stderr`.
    Returns: e.g. "Segmentation fault; see errors/w3.stderr". Nothing is left of a process that is killed from outside
        (SIGKILL, out of memory) or ends itself by os._exit().
    """
    file = errors / f"{walker_name(walker)}.stderr"
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - TAIL_BYTES))
            text = stream.read().decode(errors="replace")
    except FileNotFoundError:
        text = ""
    endings = [line.removeprefix(FATAL) for line in text.splitlines() if line.startswith(FATAL)]
    said = endings[-1] if endings else "killed from outside (for example, out of memory), or ended by os._exit()"
    return f"{said}; see {errors.name}/{file.name}" if text else said
